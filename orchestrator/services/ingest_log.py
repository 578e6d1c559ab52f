"""Import a log that ``python -m workers.node`` wrote on a host without the service, as a run that has ended."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from orchestrator.analysis.analyse import analyse
from orchestrator.domain.catalog import parse_topology
from orchestrator.domain.errors import InvalidRequest, Problem
from orchestrator.domain.fingerprint import fingerprint
from orchestrator.domain.measurement import Analysis
from orchestrator.domain.placement import Device, NodeShare, Placement
from orchestrator.domain.plan import Plan
from orchestrator.domain.ports import Entry
from orchestrator.domain.run import Attempt, Experiment, Run, experiment_outcome
from orchestrator.domain.sweep import facts_of, spec_of
from orchestrator.services.conclude import outcome
from orchestrator.services.context import Context
from workers.trainer.protocol import ProtocolError, check_event, check_job, to_json

_PLAN = TypeAdapter(Plan)


def import_log(context: Context, entries: Sequence[Entry], owner: str) -> Run:
    """Store the run that ``entries`` tell of, and return it. The same log again is the same run.

    Raises:
        InvalidRequest: it is no event log of a whole attempt on one node; the pointer names the entry.
    """
    opened = _opening(entries)
    job, node = opened["job"], str(opened["node"])
    analysis = analyse({node: entries})
    digest = hashlib.sha256("\n".join(to_json(dict(entry)) for entry in entries).encode()).hexdigest()[:20]
    run = _run(digest, job, node, entries, analysis)
    experiment = Experiment(
        id=run.experiment_id,
        owner=owner,
        spec=spec_of(run.plan, "imported"),
        facts=facts_of(context.catalog, []).to_json(),
        state=experiment_outcome(False, [run.state]),
        created_at=run.created_at,
        ended_at=run.ended_at,
    )
    context.store.import_run(experiment, run, {node: entries})
    return context.store.run(run.id)


def _opening(entries: Sequence[Entry]) -> Mapping[str, Any]:
    """The data of ``log_opened``, after a check of every entry."""
    for index, entry in enumerate(entries):
        try:
            check_event(entry)
        except ProtocolError as error:
            raise InvalidRequest([Problem(f"/{index}", str(error))]) from None
    if not entries or entries[0]["kind"] != "log_opened":
        raise InvalidRequest([Problem("/0", "an event log begins with log_opened")])
    opened: Mapping[str, Any] = entries[0]["data"]
    try:
        check_job({"token": None, **opened["job"]})
        _plan_of(opened["job"])
    except ValidationError as error:
        raise InvalidRequest([_problem_of(one) for one in error.errors()]) from None
    except (ProtocolError, TypeError, KeyError, AttributeError, ValueError) as error:
        raise InvalidRequest([Problem("/0/data/job", f"{type(error).__name__}: {error}")]) from None
    return opened


def _plan_of(job: Mapping[str, Any]) -> Plan:
    """The plan of ``job``, which a person may have written: each field is looked at, an open batch size resolved."""
    ranks = sum(len(process["ranks"]) for process in job["processes"])
    given = {name: value for name, value in job["plan"].items() if value is not None}
    data = Plan.from_json(job["plan"] | {"global_batch_size": job["plan"]["per_device_batch_size"] * ranks} | given)
    plan = _PLAN.validate_python({name: getattr(data, name) for name in Plan.__dataclass_fields__})
    parse_topology(plan.topology)
    return plan


def _problem_of(error: Any) -> Problem:
    return Problem("/0/data/job/plan" + "".join(f"/{part}" for part in error["loc"]), error["msg"])


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
