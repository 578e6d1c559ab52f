"""Small builders of domain objects for tests: everything has a default, a test names what it is about."""

from collections.abc import Sequence
from typing import Any

from orchestrator.domain.asked.catalog import (
    Catalog,
    ExchangeFacts,
    FrameworkFacts,
    ModelFacts,
    OptionFacts,
    StrategyFacts,
)
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.placement import Device, Node, NodeShare, NodeState, Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec, parse_spec
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.expansion.sweep import expand
from orchestrator.domain.runs.run import TERMINAL, Attempt, Run, RunState
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis, Reason, Validity
from orchestrator.services.facts.catalog import load_catalog

_FACTS = load_catalog()
KERNEL_KINDS, XIDS = _FACTS.kernel_kinds, _FACTS.xids


def catalog() -> Catalog:
    options = {
        "depth": OptionFacts("depth", "int", 50, choices=(50, 101)),
        "rate": OptionFacts("rate", "float", 0.1, minimum=0.0, maximum=1.0),
    }
    model = ModelFacts(
        name="net",
        module="suites.models.net",
        domain="images",
        frameworks=("pytorch", "tensorflow"),
        work_unit="images",
        work_unit_definition="images of 96 x 96 pixels",
        sizes={"full": {}, "small": {}},
        options=options,
        datasets=("synthetic",),
        facts={"name": "net"},
    )
    single = {
        "single": StrategyFacts("single", "pytorch", 1, 1),
        "ddp": StrategyFacts(
            "ddp", "pytorch", 8, 8, lacks=("layers", "bf16"), exchange=ExchangeFacts(True, {"cpu": "gloo"})
        ),
    }
    frameworks = {
        "pytorch": FrameworkFacts(
            "pytorch",
            ("cpu", "cuda"),
            ("fp32", "tf32", "bf16"),
            ("kernels", "layers"),
            single,
            {"cuda": ("kernels",), "cpu": ("tf32",)},
        ),
        "tensorflow": FrameworkFacts(
            "tensorflow", ("cpu",), ("fp32",), (), {"single": StrategyFacts("single", "tensorflow", 1, 1)}
        ),
        "sleep": FrameworkFacts("sleep", ("cpu",), ("fp32",), (), {"single": StrategyFacts("single", "system", 1, 1)}),
    }
    return Catalog({"net": model}, frameworks, {}, kernel_kinds=KERNEL_KINDS, xids=XIDS)


def facts(device: str = "cpu", pool: tuple[int, int] = (1, 1)) -> Facts:
    return Facts(catalog(), device, pool)


def spec(**changes: Any) -> ExperimentSpec:
    fields: dict[str, Any] = {
        "name": "test",
        "model": "net",
        "framework": "pytorch",
        "per_device_batch_size": 4,
        "repeats": 3,
    }
    return parse_spec(fields | changes)


def plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "model": "net",
        "options": (),
        "framework": "pytorch",
        "strategy": "single",
        "interpreter": "pytorch",
        "topology": Topology.parse(changes.pop("topology", "1x1")),
        "fabric": None,
        "device": "cpu",
        "precision": "fp32",
        "per_device_batch_size": 4,
        "global_batch_size": 4,
        "data": "synthetic",
        "size": "full",
        "seed": 1,
    }
    return Plan(**(fields | changes))


def node(
    name: str = "n0", devices: int = 1, kind: str = "cpu", state: NodeState = NodeState.AVAILABLE, **facts: Any
) -> Node:
    found = tuple(Device(f"{kind}:{k}", kind, f"a {kind}", (k,)) for k in range(devices))
    ethernet = {"interface": "eth0", "address": "10.0.0.1", "speed_bits_per_s": None, "source": "kernel"}
    return Node(name, found, state, inventory={"fabrics": {"ethernet": ethernet}, **facts})


def placement(*nodes: str) -> Placement:
    return Placement(tuple(NodeShare(name, (Device("cpu:0", "cpu", "a cpu", (0,)),)) for name in nodes or ("n0",)))


def attempt(run_id: str = "run_1", number: int = 1, nodes: tuple[str, ...] = ("n0",), **changes: Any) -> Attempt:
    fields: dict[str, Any] = {
        "id": f"att_{run_id}_{number}",
        "run_id": run_id,
        "number": number,
        "token": "secret",
        "placement": placement(*nodes),
        "created_at": 0.0,
    }
    return Attempt(**(fields | changes))


def run(run_id: str = "run_1", state: RunState = RunState.QUEUED, **changes: Any) -> Run:
    fields: dict[str, Any] = {
        "id": run_id,
        "experiment_id": "exp_1",
        "plan": plan(),
        "state": state,
        "created_at": 0.0,
    }
    return Run(**(fields | changes))


def is_over(spec: ExperimentSpec, facts: Facts, runs: Sequence[Run]) -> bool:
    """Whether the experiment has nothing left to run."""
    return all(run.state in TERMINAL for run in runs) and not expand(spec, facts, runs)


def analysis(*reasons: Reason, failure: Failure | None = None) -> Analysis:
    return Analysis(validity=Validity(reasons), failure=failure)


LOADED = Reason("foreign_load", "others had a third of the cores", replaceable=True)
REPLICAS_DIFFER = Reason("replicas_differ", "the weights of the ranks differ", replaceable=False)
