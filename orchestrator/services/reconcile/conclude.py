"""The end of an attempt: its logs are analysed, the measurements stored, and the run ends or gets another attempt."""

import logging

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.around.device_health import crash_events
from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.placement import offer, without
from orchestrator.domain.expansion.convergence import CONVERGENCE
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind, may_retry
from orchestrator.domain.value.measurement import Analysis
from orchestrator.services.context import Context

log = logging.getLogger(__name__)


def conclude(context: Context, run: Run, lost: Failure | None = None, *, analysed: bool = True) -> bool:
    """Conclude ``run``, which is COLLECTING and whose logs are stored as far as they can be had.

    ``lost`` is a failure that the logs cannot tell of: a node that fell silent, an agent that refused. ``analysed``:
    False for logs that cannot be. Whether it was done (False: somebody else did); then ``review`` is next.
    """
    assert run.attempt is not None
    analysis = analyse_attempt(context, run.attempt.id) if analysed else None
    failure = lost or (analysis.failure if analysis else None)
    elsewhere = failure is not None and has_others(context, run)
    to = outcome(failure, run.attempt.number, run.cancel_requested, run.plan.mode == CONVERGENCE, elsewhere)
    now = context.clock.now()
    done = context.store.conclude(
        run.id,
        to,
        at=now,
        failure=failure,
        analysis=analysis,
        fingerprint=fingerprint(run.plan, analysis.circumstances) if analysis else None,
        device_events=crash_events(run, failure, now) if failure else (),
    )
    if done:
        log.info("run %s: %s%s", run.id, to, f" ({failure.kind}: {failure.message})" if failure else "")
    return done


def has_others(context: Context, run: Run) -> bool:
    """Whether ``run`` was on GPUs, and others would do."""
    assert run.attempt is not None
    had = {device.id for share in run.attempt.placement.shares for device in share.devices}
    found = offer(run.plan.needs, context.cluster.nodes())
    return run.plan.device == "cuda" and not found.refused and without(found, had) is not found


def analyse_attempt(context: Context, attempt_id: str) -> Analysis:
    """Analyse the stored logs of an attempt, as complete as they are."""
    logs: dict[str, list[dict[str, object]]] = {}
    for entry in context.store.entries(attempt_id):
        logs.setdefault(str(entry["node"]), []).append(dict(entry))
    return analyse(logs, context.catalog.kernel_kinds)


def outcome(
    failure: Failure | None,
    attempts_made: int,
    cancel_requested: bool,
    resumes: bool = False,
    elsewhere: bool = False,
) -> RunState:
    """The state that follows the end of the ``attempts_made``-th attempt; ``resumes``, ``elsewhere``: see
    ``may_retry``."""
    if failure is None:
        return RunState.COMPLETED
    if failure.kind is FailureKind.CANCELLED:
        return RunState.CANCELLED
    if cancel_requested:
        return RunState.CANCELLED
    return RunState.QUEUED if may_retry(failure, attempts_made, resumes, elsewhere) else RunState.FAILED
