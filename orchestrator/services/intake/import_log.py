"""Import logs that were written without the service, by ``python -m workers.node`` or ``tbd exec``: each is a run that
has ended, and all that come together are one experiment. Of a run on several nodes their logs are one."""

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

from orchestrator.domain.around.access import Actor
from orchestrator.domain.asked.facts import facts_of
from orchestrator.domain.asked.fingerprint import fingerprint
from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.sweep import spec_over
from orchestrator.domain.runs.log import Line
from orchestrator.domain.runs.run import Attempt, Experiment, Run, experiment_outcome
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.context import Context
from orchestrator.services.intake import log_process, log_reading
from orchestrator.services.intake.log_reading import Told
from orchestrator.services.reconcile.conclude import outcome
from orchestrator.services.tokens import deed_of

IMPORTED = "imported"  # the name of an experiment that nobody named
MOST_LOGS = 1000  # of one experiment: a judgement


def import_log(context: Context, file: BinaryIO, by: Actor, name: str = IMPORTED) -> Run:
    """Store the run that the log in ``file`` tells of, and return it. The same log again is the same run. Of several
    logs, with an empty line between two, each is a run of one experiment, whose axes are what their plans differ in;
    the first is returned.

    Raises:
        border.Malformed: a line is no JSON object; the text names it.
        InvalidRequest: it is no event log of an attempt, or says what cannot be; the pointer names the entry. Or the
            logs are no one experiment. Nothing was stored.
    """
    with ExitStack() as stack:
        told, rows = [], []
        for part in _parts(file, stack):
            rows.append(stack.enter_context(tempfile.TemporaryFile()))
            told.append(log_process.read_politely(part, rows[-1], context.catalog.kernel_kinds))
        names = _names([one.digest for one in told])
        runs = [_run(one, identity, names[0], by.owner) for one, identity in zip(told, names[1:], strict=True)]
        ended = [run.ended_at for run in runs if run.ended_at is not None]
        experiment = Experiment(
            id=runs[0].experiment_id,
            owner=by.owner,
            spec=_spec_of([run.plan for run in runs], name),
            facts=facts_of(context.catalog, []).to_json(),
            state=experiment_outcome(False, [run.state for run in runs]),
            created_at=min(run.created_at for run in runs),
            ended_at=max(ended, default=None),
        )
        deed = deed_of(by, context.clock.now(), "ingest", runs[0].id)
        logs = {
            (f"att_{identity}", node): lines
            for one, identity, found in zip(told, names[1:], rows, strict=True)
            for node, lines in _lines(one, found)
        }
        context.store.import_experiment(experiment, runs, logs, deed)
    return context.store.run(runs[0].id)


def _lines(told: Told, rows: BinaryIO) -> Iterator[tuple[str, Iterator[Line]]]:
    """The stored lines of each node, which stand in ``rows`` one node behind the other."""
    behind = 0
    for node, count in told.entries.items():
        yield node, log_reading.stored_lines(rows, behind, count)
        behind += count


def _parts(file: BinaryIO, stack: ExitStack) -> Iterator[BinaryIO]:
    """The logs of ``file``, each a file: the file itself where it has one.

    Raises:
        InvalidRequest: there are too many.
    """
    file.seek(0)
    if not any(line == b"\n" for line in file):
        yield file
        return
    file.seek(0)
    part: BinaryIO | None = None
    count = 0
    for line in file:
        if line == b"\n":
            if part is not None:
                yield part
            part = None
            continue
        if part is None:
            count += 1
            if count > MOST_LOGS:
                raise InvalidRequest([Problem("", f"more than {MOST_LOGS} logs: import them in several experiments")])
            part = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        part.write(line)
    if part is not None:
        yield part


def _names(digests: Sequence[str]) -> list[str]:
    """What the experiment is called, and then each of its runs. A single log gives its name to both.

    Raises:
        InvalidRequest: a log is there twice, or there is none.
    """
    if not digests:
        raise InvalidRequest([Problem("", "there is no log between these empty lines")])
    if len(digests) == 1:
        return [digests[0]] * 2
    twice = [number for number, one in enumerate(digests, start=1) if one in digests[: number - 1]]
    if twice:
        raise InvalidRequest([Problem("", f"log {twice[0]} of {len(digests)} is there twice")])
    together = _digest("\n".join(digests))
    return [together, *(_digest(f"{together} {one}") for one in digests)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _spec_of(plans: Sequence[Plan], name: str) -> ExperimentSpec:
    """The spec whose cells are those of ``plans``.

    Raises:
        InvalidRequest: they are no grid, or one of them repeats a plan.
    """
    try:
        spec = spec_over(plans, name)
    except InvalidRequest as error:
        found = [Problem(f"/0/data/job/plan{one.pointer}", one.message) for one in error.problems]
        raise InvalidRequest(found) from None
    again = [plan for plan, count in Counter(plans).items() if count > 1]
    if again:
        text = f"two logs are of repetition {again[0].repetition} of one cell"
        raise InvalidRequest([Problem("/0/data/job/plan/repetition", text)])
    return spec


def _run(told: Told, identity: str, experiment: str, owner: str) -> Run:
    analysis = told.analysis
    attempt = Attempt(
        id=f"att_{identity}",
        run_id=f"run_{identity}",
        number=1,
        token="",
        placement=Placement(tuple(NodeShare(node, _devices(told, node)) for node in _in_rank_order(told))),
        created_at=told.began,
        started_at=told.began,
        ended_at=told.ended,
        failure=analysis.failure,
    )
    state = outcome(analysis.failure, attempts_made=1_000_000, cancel_requested=False)  # what ended elsewhere is over
    return Run(
        id=attempt.run_id,
        experiment_id=f"exp_{experiment}",
        plan=told.plan,
        state=state,
        created_at=told.began,
        attempts=(attempt,),
        started_at=told.began,
        ended_at=told.ended,
        failure=analysis.failure,
        analysis=analysis,
        fingerprint=fingerprint(told.plan, analysis.circumstances),
        owner=owner,
    )


def _in_rank_order(told: Told) -> list[str]:
    named = [process["node"] for process in told.job["processes"]]
    return sorted(told.entries, key=lambda node: named.index(node) if node in named else len(named))


def _devices(told: Told, node: str) -> tuple[Device, ...]:
    held = [process["devices"] for process in told.job["processes"] if process["node"] == node]
    return tuple(Device.from_json(device) for devices in held for device in devices)
