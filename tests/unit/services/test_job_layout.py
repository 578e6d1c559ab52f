"""How the processes of an attempt are laid out over its nodes."""

from dataclasses import replace

import pytest

from orchestrator.domain.asked.catalog import StrategyFacts
from orchestrator.domain.asked.placement import Device, Node, NodeShare, Placement
from orchestrator.domain.runs.run import Attempt, Run, RunState
from orchestrator.domain.words.errors import JobRefused
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.job import build_job, processes_of
from tests.unit import builders
from workers.trainer.base.job import job_of
from workers.trainer.protocol import STRATEGY, check_job

PORTS = {"n0": {"control": 1, "framework": 2}, "n1": {"control": 3, "framework": 4}}


def devices(count: int) -> tuple[Device, ...]:
    return tuple(Device(f"cpu:{core}", "cpu", "a cpu", (core,)) for core in range(count))


def placed(nodes: int = 2, count: int = 2) -> Placement:
    return Placement(tuple(NodeShare(f"n{index}", devices(count)) for index in range(nodes)))


def laid_out(**facts: object) -> list[tuple[str, str, list[int]]]:
    strategy = StrategyFacts("any", "any", 8, 8, **facts)  # type: ignore[arg-type]
    return [(one["name"], one["node"], one["ranks"]) for one in processes_of(placed(), strategy)]


def test_a_worker_for_each_device_in_the_order_of_the_placement() -> None:
    assert laid_out() == [
        ("worker0", "n0", [0]),
        ("worker1", "n0", [1]),
        ("worker2", "n1", [2]),
        ("worker3", "n1", [3]),
    ]


def test_a_worker_for_each_node_drives_all_its_devices() -> None:
    assert laid_out(workers="per-node") == [("worker0", "n0", [0, 1]), ("worker1", "n1", [2, 3])]


def test_schedulers_and_servers_come_before_those_who_wait_for_them() -> None:
    names = [name for name, _, _ in laid_out(workers="per-node", scheduler=True, servers="per-node")]
    assert names == ["scheduler", "server0", "server1", "worker0", "worker1"]


def test_workers_of_mpirun_are_started_by_the_launcher_of_the_first_node() -> None:
    found = processes_of(placed(), StrategyFacts("mpi", "cntk", 8, 8, launcher="mpirun"))
    assert [(one["name"], one["role"]) for one in found[:2]] == [("launcher0", "launcher"), ("launcher1", "launcher")]
    assert {one["started_by"] for one in found[2:]} == {"launcher0"}


def test_each_rank_has_the_actors_of_its_model_on_its_own_cores_before_the_workers() -> None:
    strategy = StrategyFacts("any", "any", 8, 8, workers="per-node")
    found = processes_of(placed(), strategy, {"actor": 2})
    actors = [one for one in found if one["role"] == "actor"]
    assert [one["name"] for one in found[:4]] == ["actor0-0", "actor0-1", "actor1-0", "actor1-1"]
    assert [one["role"] for one in found[-2:]] == ["worker", "worker"]
    assert [(one["of_rank"], one["beside"], one["node"]) for one in actors[1::2]] == [
        (0, "worker0", "n0"),
        (1, "worker0", "n0"),
        (2, "worker1", "n1"),
        (3, "worker1", "n1"),
    ]
    assert [list(one["cores"]) for one in actors[::2]] == [[0], [1], [0], [1]]
    assert not any(one["ranks"] or one["devices"] for one in actors)


def test_the_facts_of_a_strategy_are_what_hosts_are_told() -> None:
    assert StrategyFacts("one", "any", 1, 1).to_job() == {"name": "one"} | STRATEGY


def a_job(nodes: list[Node], topology: str = "2x1") -> dict[str, object]:
    plan = replace(
        builders.plan(topology=topology), model="sleep", framework="sleep", strategy="gang", interpreter="system"
    )
    count = int(topology[0])
    placement = placed(count, 1)
    attempt = Attempt("att_1", "run_1", 1, "token", placement, 0.0)
    run = Run("run_1", "exp_1", replace(plan, fabric="ethernet" if count > 1 else None), RunState.PLACING, 0.0)
    made = check_job(build_job(run, attempt, load_catalog(), nodes, PORTS))
    assert len(job_of(made).processes) == len(made["processes"])  # a trainer can read it
    return made


def node(name: str, address: str = "10.0.0.1", **inventory: object) -> Node:
    fabric = {"interface": "eth0", "address": address, "speed_bits_per_s": None, "source": "kernel"}
    return Node(name, devices(1), inventory={"fabrics": {"ethernet": fabric}, **inventory})


def test_the_job_of_several_nodes_says_how_they_reach_each_other() -> None:
    job = a_job([node("n0"), node("n1", "10.0.0.2")])
    assert [(one["name"], one["address"], one["ports"]["control"]) for one in job["nodes"]] == [  # type: ignore[attr-defined]
        ("n0", "10.0.0.1", 1),
        ("n1", "10.0.0.2", 3),
    ]
    assert job["control"] == {"host": "10.0.0.1", "port": 1}


def test_a_job_says_which_adapters_carry_its_fabric_and_whether_ip_does() -> None:
    def node_with(name: str) -> Node:
        found = node(name)
        found.inventory["fabrics"]["ethernet"].update(adapters=["mlx5_0:1"], by_ip=False)  # type: ignore[index]
        return found

    told = a_job([node_with("n0"), node("n1")])["nodes"]
    assert [(one.get("adapters"), one.get("by_ip")) for one in told] == [(["mlx5_0:1"], False), (None, None)]  # type: ignore[attr-defined]


def test_the_job_of_one_node_leaves_its_ports_to_the_agent() -> None:
    job = a_job([], "1x1")
    assert job["control"] == {"host": "127.0.0.1", "port": None}


def test_a_node_that_has_lost_its_fabric_is_refused() -> None:
    with pytest.raises(JobRefused, match="n1 has no fabric ethernet"):
        a_job([node("n0"), Node("n1", devices(1))])


def test_nodes_that_define_the_interpreter_differently_are_refused() -> None:
    with pytest.raises(JobRefused, match=r"different definitions .* \(n0: aaa, n1: bbb\)"):
        a_job([node("n0", interpreters={"system": "aaa"}), node("n1", interpreters={"system": "bbb"})])
