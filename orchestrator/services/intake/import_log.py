"""Import a log that ``python -m workers.node`` wrote on a host without the service, as a run that has ended."""

import tempfile
from typing import BinaryIO

from orchestrator.domain.around.access import Actor
from orchestrator.domain.asked.facts import facts_of
from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.sweep import spec_of
from orchestrator.domain.runs.run import Attempt, Experiment, Run, experiment_outcome
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.context import Context
from orchestrator.services.intake import log_process, log_reading
from orchestrator.services.intake.log_reading import Told
from orchestrator.services.reconcile.conclude import outcome
from orchestrator.services.tokens import deed_of


def import_log(context: Context, file: BinaryIO, by: Actor) -> Run:
    """Store the run that the log in ``file`` tells of, and return it. The same log again is the same run.

    Raises:
        border.Malformed: a line is no JSON object; the text names it.
        InvalidRequest: it is no event log of an attempt on one node, or says what cannot be; the pointer names the
            entry. Nothing was stored.
    """
    with tempfile.TemporaryFile() as rows:
        told = log_process.read_politely(file, rows, context.catalog.kernel_kinds)
        run = _run(told)
        experiment = Experiment(
            id=run.experiment_id,
            owner=by.owner,
            spec=_spec_of(run.plan),
            facts=facts_of(context.catalog, []).to_json(),
            state=experiment_outcome(False, [run.state]),
            created_at=run.created_at,
            ended_at=run.ended_at,
        )
        deed = deed_of(by, context.clock.now(), "ingest", run.id)
        log = {(f"att_{told.digest}", told.node): log_reading.stored_lines(rows)}
        context.store.import_experiment(experiment, [run], log, deed)
    return context.store.run(run.id)


def _spec_of(plan: Plan) -> ExperimentSpec:
    """The spec whose only cell is that of ``plan``."""
    try:
        return spec_of(plan, "imported")
    except InvalidRequest as error:
        found = [Problem(f"/0/data/job/plan{one.pointer}", one.message) for one in error.problems]
        raise InvalidRequest(found) from None


def _run(told: Told) -> Run:
    analysis = told.analysis
    devices = tuple(
        Device.from_json(device)
        for process in told.job["processes"]
        if process["node"] == told.node
        for device in process["devices"]
    )
    attempt = Attempt(
        id=f"att_{told.digest}",
        run_id=f"run_{told.digest}",
        number=1,
        token="",
        placement=Placement((NodeShare(told.node, devices),)),
        created_at=told.began,
        started_at=told.began,
        ended_at=told.ended,
        failure=analysis.failure,
    )
    state = outcome(analysis.failure, attempts_made=1_000_000, cancel_requested=False)  # what ended elsewhere is over
    return Run(
        id=attempt.run_id,
        experiment_id=f"exp_{told.digest}",
        plan=told.plan,
        state=state,
        created_at=told.began,
        attempts=(attempt,),
        started_at=told.began,
        ended_at=told.ended,
        failure=analysis.failure,
        analysis=analysis,
        fingerprint=fingerprint(told.plan, analysis.circumstances),
    )
