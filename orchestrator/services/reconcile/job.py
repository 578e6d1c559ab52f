"""From a plan and a placement to the job that goes out to the hosts (``workers.trainer.protocol``)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from orchestrator.analysis.cell.prospect import Prospect, prospect
from orchestrator.domain.asked.catalog import Catalog, StrategyFacts
from orchestrator.domain.asked.placement import Node, Placement
from orchestrator.domain.asked.plan import DEFINITION, SUITE, VARIABLE, Plan
from orchestrator.domain.expansion.convergence import CONVERGENCE
from orchestrator.domain.runs.run import Attempt, Run
from orchestrator.domain.runs.stored import StoredCalibration
from orchestrator.domain.value.calibration import DeviceKey
from orchestrator.domain.value.peaks import ARITHMETIC, data_sheet
from orchestrator.domain.words.errors import JobRefused
from workers.trainer.protocol import OWN_DATA, PROTOCOL_VERSION, local_node

# Judgement: a run that has no limit of its own ends its timed phase in half the time that its attempt has, so that slow
# steps end in a shorter run and not in a time-out.
SHARE_OF_TIMEOUT = 0.5
# One step an interval on CPU devices; 0.2 s or more on GPUs, where a step can be shorter than the
# cost of a synchronisation.
GPU_INTERVAL_S = 0.2
# Between two readings. The power and the clocks of a GPU move fast; a host's counters miss nothing in between.
SAMPLE_S = {"cuda": 0.5, "cpu": 1.0}


# node -> purpose -> port, as ``Cluster.reserve`` answers.
Ports = Mapping[str, Mapping[str, int]]
Calibrated = Mapping[DeviceKey, StoredCalibration]


def build_job(
    run: Run,
    attempt: Attempt,
    catalog: Catalog,
    nodes: Sequence[Node] = (),
    ports: Ports | None = None,
    calibrated: Calibrated | None = None,
    expected: Prospect | None = None,
) -> dict[str, Any]:
    """The job of ``attempt``, the same for all its nodes.

    Args:
        nodes: those of the cluster; where several take part, their fabrics say how they reach each other.
        ports: those reserved on each node; not needed where one node takes part, whose agent picks them.
        calibrated: the latest calibration of each device in the arithmetic of the plan's precision, where there is one.
        expected: what the cell's runs that are over say about this one; None: as if there were none.

    Raises:
        JobRefused: a node of the placement is not there or lacks the plan's fabric or dataset, or the nodes define
            the interpreter differently.
    """
    plan = run.plan
    strategy = catalog.frameworks[plan.framework].strategies[plan.strategy]
    places = _places(plan, attempt.placement, nodes, ports or {})
    return {
        "protocol": PROTOCOL_VERSION,
        "attempt_id": attempt.id,
        "run_id": run.id,
        "token": attempt.token,
        "plan": plan.to_json(),
        "model": catalog.models[plan.model].facts_with(dict(plan.options)),
        "dataset": _dataset(plan, attempt.placement, catalog, nodes),
        "interpreter": {
            "name": plan.interpreter,
            "definition": dict(plan.pins).get(DEFINITION) or _definition(plan, attempt.placement, nodes),
            "python": None,
            "environment": {},
            **_pinned(plan),
        },
        "strategy": strategy.to_job(),
        "nodes": places,
        "processes": processes_of(attempt.placement, strategy, catalog.models[plan.model].roles),
        "world_size": plan.world_size,
        "control": {"host": places[0]["address"], "port": places[0]["ports"]["control"]},
        **_lasting(plan, expected or prospect((), (), plan.max_measure_s)),
        "interval_s": GPU_INTERVAL_S if plan.device == "cuda" else 0.0,
        "sample_s": SAMPLE_S[plan.device],
        "peaks": _peaks(plan, attempt.placement, catalog, calibrated or {}),
    }


def _pinned(plan: Plan) -> dict[str, Any]:
    """What a confirmation fixes beside the environment's hash; nothing of other plans."""
    pins = dict(plan.pins)
    variables = {name.removeprefix(VARIABLE): value for name, value in pins.items() if name.startswith(VARIABLE)}
    return ({"variables": variables} if variables else {}) | ({"suite_commit": pins[SUITE]} if SUITE in pins else {})


def device_keys(placement: Placement) -> list[DeviceKey]:
    """The devices of a placement as calibrations know them."""
    return [
        DeviceKey(share.node, device.id, device.name, len(device.cores))
        for share in placement.shares
        for device in share.devices
    ]


def _peaks(plan: Plan, placement: Placement, catalog: Catalog, calibrated: Calibrated) -> list[dict[str, Any]]:
    """What the devices can do at best in the plan's precision, as it is known now: the job's ``peaks``."""
    arithmetic = ARITHMETIC.get(plan.precision, plan.precision)
    found = []
    for key in device_keys(placement):
        sheet = data_sheet(catalog.data_sheets, key.device_name) if plan.device == "cuda" else None
        stored = calibrated.get(key)
        found.append(
            {
                "node": key.node,
                "device": key.device_id,
                "arithmetic": arithmetic,
                "data_sheet": sheet.to_json(arithmetic) if sheet else None,
                "calibrated": stored.to_job() if stored else None,
            }
        )
    return found


def _definition(plan: Plan, placement: Placement, nodes: Sequence[Node]) -> str | None:
    """The hash by which all nodes that have the interpreter define it; None where none has it, or one node takes part:
    then its agent says."""
    if len(placement.nodes) == 1:
        return None
    built = {node.name: node.inventory.get("interpreters", {}).get(plan.interpreter) for node in nodes}
    known = {name: built[name] for name in placement.nodes if built.get(name)}
    if len(set(known.values())) > 1:
        told = ", ".join(f"{name}: {definition}" for name, definition in known.items())
        raise JobRefused(
            f"the nodes have different definitions of the interpreter {plan.interpreter} ({told}): "
            "install the same version of tbd, and the environment with the same Python, on all of them"
        )
    return next(iter(known.values()), None)


def _dataset(plan: Plan, placement: Placement, catalog: Catalog, nodes: Sequence[Node]) -> dict[str, Any] | None:
    if plan.data in ("synthetic", OWN_DATA):
        return None
    if plan.data_sha256 is None:
        return dict(catalog.datasets[plan.data].facts) | {"root": None}
    for node in nodes:
        if node.name in placement.nodes and node.has_dataset(plan.data, plan.data_sha256):
            return dict(node.inventory["datasets"][plan.data]) | {"root": None}
    raise JobRefused(f"the dataset {plan.data} is no longer registered on {', '.join(placement.nodes)}")


def _lasting(plan: Plan, expected: Prospect) -> dict[str, Any]:
    """The job's ``stopping`` and ``history``: the length, fixed now, and the limits that a person set."""
    found = expected.to_job()
    stopping = found["stopping"]
    if plan.mode == CONVERGENCE:
        # It is no sample of steady state: its own loop ends it, at the target or at its budget.
        found["stopping"] = dict.fromkeys(stopping) | {"seconds": 0.0, "why": "trains to its target or its budget"}
        return found
    stopping["seconds"] = max(stopping["seconds"], plan.min_measure_s or 0.0)
    stopping["max_steps"] = plan.max_steps
    stopping["max_duration_s"] = plan.max_measure_s or max(SHARE_OF_TIMEOUT * plan.timeout_s, plan.min_measure_s or 0.0)
    return found


def _places(plan: Plan, placement: Placement, nodes: Sequence[Node], ports: Ports) -> list[dict[str, Any]]:
    """Where the processes of one node reach those of another: the job's ``nodes``."""
    if len(placement.nodes) == 1:
        return [local_node(placement.nodes[0])]
    known = {node.name: node for node in nodes}
    return [_place(plan.fabric, known.get(name), name, ports[name]) for name in placement.nodes]


def _place(fabric: str | None, node: Node | None, name: str, ports: Mapping[str, int]) -> dict[str, Any]:
    found = node.fabrics.get(fabric or "") if node else None
    if found is None:
        raise JobRefused(f"node {name} has no fabric {fabric} now")
    return {
        "name": name,
        "address": found["address"],
        "interface": found["interface"],
        "fabric": fabric,
        "ports": dict(ports),
        **{name: found[name] for name in ("adapters", "by_ip", "net") if name in found},
    }


def processes_of(
    placement: Placement, strategy: StrategyFacts, roles: Mapping[str, int] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """The processes of an attempt: those that others wait for come first, workers in the order of their ranks.

    Args:
        roles: how many processes of each of the model's own roles every rank has. They come before the workers: of one
            that dies and of its worker, which has then lost it, the first is named.
    """
    first = placement.shares[0].node
    found = [_process("scheduler", "scheduler", first)] if strategy.scheduler else []
    if strategy.servers == "per-node":
        found += [_process(f"server{index}", "server", node) for index, node in enumerate(placement.nodes)]
    workers = _one_worker_per_node(placement) if strategy.workers == "per-node" else _one_worker_per_device(placement)
    if strategy.launcher != "none":
        found += [_process(f"launcher{index}", "launcher", node) for index, node in enumerate(placement.nodes)]
        workers = [worker | {"started_by": "launcher0"} for worker in workers]
    return found + [own for worker in workers for own in _beside(worker, roles)] + workers


def _beside(worker: Mapping[str, Any], roles: Mapping[str, int]) -> list[dict[str, Any]]:
    """The processes of the model's own roles for each rank of ``worker``, on the cores of the rank's device."""
    return [
        _process(f"{role}{rank}-{number}", role, worker["node"])
        | {"beside": worker["name"], "of_rank": rank, "cores": device["cores"]}
        for rank, device in zip(worker["ranks"], worker["devices"], strict=True)
        for role, count in roles.items()
        for number in range(count)
    ]


def _process(name: str, role: str, node: str) -> dict[str, Any]:
    return {"name": name, "role": role, "node": node, "ranks": [], "local_ranks": [], "devices": []}


def _one_worker_per_device(placement: Placement) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for share in placement.shares:
        for local_rank, device in enumerate(share.devices):
            rank = len(found)
            ranks = {"ranks": [rank], "local_ranks": [local_rank], "devices": [device.to_json()]}
            found.append(_process(f"worker{rank}", "worker", share.node) | ranks)
    return found


def _one_worker_per_node(placement: Placement) -> list[dict[str, Any]]:
    """A worker for each node; it drives all devices of its share, a rank each."""
    found: list[dict[str, Any]] = []
    rank = 0
    for index, share in enumerate(placement.shares):
        count = len(share.devices)
        ranks = {"ranks": list(range(rank, rank + count)), "local_ranks": list(range(count))}
        devices = [device.to_json() for device in share.devices]
        found.append(_process(f"worker{index}", "worker", share.node) | ranks | {"devices": devices})
        rank += count
    return found
