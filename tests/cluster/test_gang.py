"""One experiment on two hosts: what happens when all goes well, when a rank dies, and when a host does.

The model only waits, so this is about agents, fences and the network alone.
"""

from typing import Any

import pytest

from orchestrator.analysis.log.clocks import axis_of, merged
from tests.cluster.bench import Bench, trainers
from tests.support.service import until

FOREVER = 1_000_000


def spec(
    topology: str = "2x1", names: tuple[str, ...] = ("one", "two"), steps: int = 40, **more: Any
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": "gang",
        "model": "sleep",
        "framework": "sleep",
        "strategy": "gang",
        "topology": topology,
        "per_device_batch_size": 4,
        "options": {"step_time_s": 0.02, "noise_ratio": 0.3},
        "nodes": {"names": list(names)},
        "max_steps": steps,
        "min_measure_s": 3600,  # as many steps as are asked for
        "repeats": 1,
        "max_repeats": 1,
        "timeout_s": 120,
    }
    return fields | more


def running(bench: Bench, experiment: str) -> dict[str, Any]:
    """The only run of the experiment, once both hosts train."""
    until(lambda: trainers(bench.hosts["one"]) and trainers(bench.hosts["two"]), 60)

    def timed() -> Any:
        (run,) = bench.service.runs(experiment)
        return run if bench.service.call("GET", f"/api/v1/runs/{run['id']}/intervals?limit=1")["items"] else None

    return dict(until(timed, 60, 0.5))


def no_trainer_left(bench: Bench) -> bool:
    return not any(trainers(host) for host in bench.hosts.values())


@pytest.fixture(scope="module")
def completed(bench: Bench) -> dict[str, Any]:
    """A run over both hosts that has ended well."""
    (run,) = bench.service.wait(bench.service.submit(spec()), 120)
    assert run["state"] == "completed", run
    return run


def test_a_run_over_two_hosts_completes_and_both_logs_are_fetched(bench: Bench, completed: dict[str, Any]) -> None:
    logs = bench.logs(completed["id"])
    assert sorted(logs) == ["one", "two"]
    for rank, node in enumerate(("one", "two")):
        assert [entry["seq"] for entry in logs[node]] == list(range(1, len(logs[node]) + 1))
        assert logs[node][-1]["kind"] == "log_closed"
        assert {entry["rank"] for entry in logs[node] if entry["kind"] == "interval"} == {rank}
    steps = [sum(entry["data"]["n"] for entry in log if entry["kind"] == "interval") for log in logs.values()]
    assert steps == [40, 40]
    assert not {"replicas_differ", "ranks_missing", "world_size"} & {
        reason["code"] for reason in completed["validity"]["reasons"]
    }
    until(lambda: no_trainer_left(bench), 10)


@pytest.mark.after_change
def test_logs_of_hosts_whose_clocks_differ_are_merged_within_the_stated_uncertainty(
    bench: Bench, completed: dict[str, Any]
) -> None:
    logs = bench.logs(completed["id"])
    true_s = bench.hosts["two"].clock_offset_s - bench.hosts["one"].clock_offset_s
    found = merged(logs)
    of_two = [entry for entry in found if entry["node"] == "two"]
    assert len(of_two) > 80
    for entry in of_two:
        assert abs(entry["node_t"] - entry["t"] - true_s) <= entry["uncertainty_s"] < 0.05
    # A step of rank 1 is ordered before rank 0's next one and after its last one.
    ends = [(entry["data"]["first_step"], entry["node"]) for entry in found if entry["kind"] == "interval"]
    assert [step for step, _ in ends] == sorted(step for step, _ in ends)
    clocks = [entry["data"] for entry in logs["one"] if entry["kind"] == "clock"]
    assert [clock["peer_rank"] for clock in clocks] == [1, 1]
    assert all(clock["pings"] >= 1 for clock in clocks)
    assert abs(axis_of(logs).clocks["two"].drift) < 1e-3


@pytest.mark.after_change
def test_a_run_on_two_devices_of_one_host_completes(bench: Bench) -> None:
    (run,) = bench.service.wait(bench.service.submit(spec("1x2", ("three",))), 120)
    assert run["state"] == "completed", run
    assert not [entry for entry in bench.logs(run["id"])["three"] if entry["kind"] == "clock"]


@pytest.mark.after_change
def test_a_rank_that_dies_ends_the_gang_on_both_hosts_with_one_outcome(bench: Bench) -> None:
    options = {"step_time_s": 0.02, "fault": "crash", "fault_rank": 1, "fault_step": 5}
    (run,) = bench.service.wait(bench.service.submit(spec(steps=FOREVER, options=options)), 120)
    assert (run["state"], run["failure"]["kind"]) == ("failed", "crashed"), run
    assert run["failure"]["ranks"] == [1]
    assert len(run["attempts"]) == 1
    until(lambda: no_trainer_left(bench), 10)


@pytest.mark.after_change
def test_a_cancelled_gang_ends_on_both_hosts(bench: Bench) -> None:
    experiment = bench.service.submit(spec(steps=FOREVER))
    run = running(bench, experiment)
    bench.service.call("POST", f"/api/v1/runs/{run['id']}/cancel")
    (run,) = bench.service.wait(experiment, 60)
    assert run["state"] == "cancelled"
    assert no_trainer_left(bench)


@pytest.mark.after_change
def test_a_host_that_loses_power_is_noticed_and_the_run_is_carried_out_again_when_it_comes_back(bench: Bench) -> None:
    experiment = bench.service.submit(spec(steps=150, options={"step_time_s": 0.1}))
    running(bench, experiment)
    bench.hosts["two"].cut_power()
    # No word comes from it: beyond the fence and a margin its processes are dead, and the gang's others are ended.
    until(lambda: not trainers(bench.hosts["one"]), 60, 0.2)
    (run,) = until(lambda: [run for run in bench.service.runs(experiment) if run["state"] == "queued"], 30, 0.2)
    assert run["attempts"][0]["failure"]["kind"] == "node_lost", run
    until(lambda: "two" not in bench.available(), 30, 0.5)
    bench.network.boot("two")
    bench.start_ray("two")
    until(lambda: "two" in bench.available(), 60, 0.5)
    (run,) = bench.service.wait(experiment, 120)
    assert run["state"] == "completed", run
    assert len(run["attempts"]) == 2
    assert sorted(bench.logs(run["id"])) == ["one", "two"]


@pytest.mark.after_change
def test_a_host_that_is_cut_off_ends_its_processes_and_joins_again_as_a_new_node_of_ray(bench: Bench) -> None:
    experiment = bench.service.submit(spec(steps=FOREVER))
    run = running(bench, experiment)
    bench.network.pull("two")
    try:
        # The server cannot reach it: its own agent ends them.
        until(lambda: not trainers(bench.hosts["two"]), 20, 0.2)
        until(lambda: not trainers(bench.hosts["one"]), 60, 0.2)
        bench.service.call("POST", f"/api/v1/runs/{run['id']}/cancel")
        (run,) = bench.service.wait(experiment, 60)
        assert run["attempts"][0]["failure"]["kind"] in ("node_lost", "cancelled"), run
    finally:
        bench.network.push_back("two")
    # Ray gave the node up, and it ends itself when it learns of that.
    until(lambda: not any("raylet" in line for line in bench.hosts["two"].processes().values()), 60, 0.5)
    bench.start_ray("two")
    until(lambda: "two" in bench.available(), 60, 0.5)
    (run,) = bench.service.wait(bench.service.submit(spec()), 120)
    assert run["state"] == "completed", run
