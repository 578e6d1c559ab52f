"""Import a log that ``python -m workers.node`` wrote on a host without the service, as a run that has ended."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from orchestrator.analysis.analyse import analyse_read
from orchestrator.analysis.events import LogError, NodeLog, read_log
from orchestrator.domain.catalog import parse_topology
from orchestrator.domain.errors import InvalidRequest, Problem
from orchestrator.domain.fingerprint import fingerprint
from orchestrator.domain.measurement import Analysis
from orchestrator.domain.placement import Device, NodeShare, Placement
from orchestrator.domain.plan import Plan
from orchestrator.domain.ports import Entry
from orchestrator.domain.run import Attempt, Experiment, Run, experiment_outcome
from orchestrator.domain.spec import ExperimentSpec
from orchestrator.domain.sweep import facts_of, spec_of
from orchestrator.services.conclude import outcome
from orchestrator.services.context import Context
from workers.trainer.protocol import to_json

Name = Annotated[str, Field(strict=True, min_length=1, max_length=200)]
_PLAN = TypeAdapter(Plan)


class _Process(BaseModel):
    """What is read of a process of the job."""

    node: Name
    ranks: list[Annotated[int, Field(strict=True, ge=0)]]
    devices: list[Device]


class _Job(BaseModel):
    """What is read of the job beside its plan."""

    processes: list[_Process]


class _Opened(BaseModel):
    """What is read of ``log_opened``."""

    node: Name
    job: _Job


def import_log(context: Context, entries: Sequence[Entry], owner: str) -> Run:
    """Store the run that ``entries`` tell of, and return it. The same log again is the same run.

    Raises:
        InvalidRequest: it is no event log of an attempt on one node, or says what cannot be; the pointer names the
            entry. Nothing was stored.
    """
    log = _read(entries)
    job, node = log.opened["job"], log.opened["node"]
    analysis = analyse_read([log])
    run = _run(_digest(entries), job, node, entries, analysis)
    experiment = Experiment(
        id=run.experiment_id,
        owner=owner,
        spec=_spec_of(run.plan),
        facts=facts_of(context.catalog, []).to_json(),
        state=experiment_outcome(False, [run.state]),
        created_at=run.created_at,
        ended_at=run.ended_at,
    )
    context.store.import_run(experiment, run, {node: entries})
    return context.store.run(run.id)


def _digest(entries: Sequence[Entry]) -> str:
    """The name of a log: equal for equal entries, however their lines were written."""
    found = hashlib.sha256()
    for number, entry in enumerate(entries):
        found.update((("\n" if number else "") + to_json(dict(entry))).encode())
    return found.hexdigest()[:20]


def _read(entries: Sequence[Entry]) -> NodeLog:
    """The log, after a check of every entry."""
    if not entries or entries[0].get("kind") != "log_opened":
        raise InvalidRequest([Problem("/0", "an event log begins with log_opened")])
    told = entries[0].get("data")
    try:
        log = read_log(str(told.get("node")) if isinstance(told, Mapping) else "the host", entries)
    except LogError as error:
        raise InvalidRequest([Problem(f"/{(error.entry or 1) - 1}", str(error))]) from None
    try:
        _Opened.model_validate(log.opened)
        _plan_of(log.job)
    except ValidationError as error:
        raise InvalidRequest([_problem_of(one) for one in error.errors()]) from None
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise InvalidRequest([Problem("/0/data/job", f"{type(error).__name__}: {error}")]) from None
    return log


def _plan_of(job: Mapping[str, Any]) -> Plan:
    """The plan of ``job``, which a person may have written: each field is looked at, an open batch size resolved."""
    ranks = sum(len(process["ranks"]) for process in job["processes"])
    given = {name: value for name, value in job["plan"].items() if value is not None}
    data = Plan.from_json(job["plan"] | {"global_batch_size": job["plan"]["per_device_batch_size"] * ranks} | given)
    plan = _PLAN.validate_python({name: getattr(data, name) for name in Plan.__dataclass_fields__})
    parse_topology(plan.topology)
    return plan


def _problem_of(error: Any) -> Problem:
    at = error["loc"] if error["loc"][:1] in (("node",), ("job",)) else ("job", "plan", *error["loc"])
    return Problem("/0/data" + "".join(f"/{part}" for part in at), error["msg"])


def _spec_of(plan: Plan) -> ExperimentSpec:
    """The spec whose only cell is that of ``plan``."""
    try:
        return spec_of(plan, "imported")
    except InvalidRequest as error:
        found = [Problem(f"/0/data/job/plan{one.pointer}", one.message) for one in error.problems]
        raise InvalidRequest(found) from None


def _run(digest: str, job: Mapping[str, Any], node: str, entries: Sequence[Entry], analysis: Analysis) -> Run:
    plan = _plan_of(job)
    began, ended = float(entries[0]["wall"]), float(entries[-1]["wall"])
    devices = tuple(
        Device.from_json(device)
        for process in job["processes"]
        if process["node"] == node
        for device in process["devices"]
    )
    attempt = Attempt(
        id=f"att_{digest}",
        run_id=f"run_{digest}",
        number=1,
        token="",
        placement=Placement((NodeShare(node, devices),)),
        created_at=began,
        started_at=began,
        ended_at=ended,
        failure=analysis.failure,
    )
    state = outcome(analysis.failure, attempts_made=1_000_000, cancel_requested=False)  # what ended elsewhere is over
    return Run(
        id=attempt.run_id,
        experiment_id=f"exp_{digest}",
        plan=plan,
        state=state,
        created_at=began,
        attempts=(attempt,),
        started_at=began,
        ended_at=ended,
        failure=analysis.failure,
        analysis=analysis,
        fingerprint=fingerprint(plan, analysis.observed),
    )
