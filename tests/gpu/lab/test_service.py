"""The whole service on machines with GPUs that are not there: two hosts of eight, and what runs on them end with."""

from __future__ import annotations

import psutil
import pytest

from tests.gpu.lab.machine import H100, Machine, needs_compiler
from tests.integration.service_rig import Tbd, environment
from tests.support.service import Service, until

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(psutil.cpu_count() < 2, reason="two nodes need two cores"),
    pytest.mark.after_change,
]

SPEC = {
    "name": "lab",
    "model": "sleep",
    "framework": "sleep",
    "device": "cuda",
    "warm_up_s": 0,
    "per_device_batch_size": 1,
    "size": "tiny",
    "repeats": 1,
    "max_repeats": 1,
    "max_steps": 60,
    "timeout_s": 60,
    "options": {"step_time_s": 0.02},
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    """(machine, service, the command): sixteen GPUs, divided into two nodes."""
    folder = tmp_path_factory.mktemp("lab")
    machine = Machine(folder, 16, each={"power_w": 300, "busy_percent": 90})
    around = environment(folder, TBD_LOCAL_NODES="2", TBD_CPU_DEVICES="1", **machine.environment)
    around.pop("CUDA_VISIBLE_DEVICES", None)
    service = Service(folder / "data", **around).start()
    try:
        yield machine, service, Tbd(folder, service.url)
    finally:
        assert service.stop() == 0


def gpus_of(run):
    return [device["id"] for share in run["attempts"][-1]["placement"] for device in share["devices"]]


def offered(service, count):
    def look():
        nodes = service.all("/api/v1/nodes")
        return sum(device["kind"] == "cuda" for node in nodes for device in node["devices"]) == count

    until(look, 40, 0.2)


def test_one_gpu_a_node_of_eight_and_two_nodes_of_eight_run_and_read_their_devices(rig):
    machine, service, _ = rig
    offered(service, 16)
    runs = service.wait(service.submit({**SPEC, "topology": ["1x1", "1x8", "2x8"], "strategy": "auto"}), 120)
    assert [run["state"] for run in runs] == ["completed"] * 3, [run["failure"] for run in runs]
    held = {run["plan"]["topology"]: gpus_of(run) for run in runs}
    assert {topology: len(found) for topology, found in held.items()} == {"1x1": 1, "1x8": 8, "2x8": 16}
    assert set(held["2x8"]) == set(machine.uuids)
    for run in runs:
        of_run = service.call("GET", f"/api/v1/runs/{run['id']}/measurements")["items"]
        whole = {one["metric"]: one["value"] for one in of_run if one["subject"] in (None, "", "run")}
        devices = len(held[run["plan"]["topology"]])
        assert whole["compute_utilization_ratio"] == pytest.approx(0.9)
        assert whole["power_w"] == pytest.approx(300 * devices, rel=0.02)
        assert not {reason["code"] for reason in run["validity"]["reasons"]} & {"device_shared", "device_error"}


def test_a_node_of_eight_runs_eight_cells_at_once_where_they_want_their_device_alone(rig):
    _, service, _ = rig
    offered(service, 16)
    first = service.all("/api/v1/nodes")[0]["name"]
    spec = {**SPEC, "seed": list(range(10, 18)), "exclusive": "device", "nodes": {"names": [first]}, "max_steps": 400}
    experiment = service.submit(spec)
    until(lambda: [run["state"] for run in service.runs(experiment)] == ["running"] * 8, 60)
    assert len({gpu for run in service.runs(experiment) for gpu in gpus_of(run)}) == 8
    runs = service.wait(experiment, 120)
    assert [run["state"] for run in runs] == ["completed"] * 8, [run["failure"] for run in runs]
    assert {reason["code"] for run in runs for reason in run["validity"]["reasons"]} <= {"foreign_load", "stolen_time"}


def test_a_run_that_needs_a_gpu_on_which_somebody_computes_waits_and_says_for_what(rig):
    machine, service, tbd = rig
    with machine.somebody_computes_on(3) as pid:
        offered(service, 15)
        experiment = service.submit({**SPEC, "topology": "2x8", "seed": 2})
        told = f"7 and 1 withheld (GPU 3: process {pid} computes on it)"
        until(lambda: told in (service.runs(experiment)[0]["reason"] or ""), 30)
        assert f"withheld: GPU 3: process {pid} computes on it" in tbd("nodes").stdout
        (one,) = service.wait(service.submit({**SPEC, "topology": "1x1", "seed": 3}), 60)
        assert one["state"] == "completed"
        assert gpus_of(one) == [machine.uuids[0]]
    assert [run["state"] for run in service.wait(experiment, 60)] == ["completed"]


def test_a_gpu_that_had_an_error_between_runs_is_withheld_until_it_is_cleared(rig):
    machine, service, tbd = rig
    offered(service, 16)
    first, second = machine.uuids[:2]
    machine.change(gpu__0__xid=79)
    until(lambda: "bad: GPU 0: XID 79: it has fallen off the bus" in tbd("nodes").stdout, 30)
    named = service.submit({**SPEC, "seed": 5, "nodes": {"devices": [first]}})
    (one,) = service.wait(service.submit({**SPEC, "seed": 5, "nodes": {"devices": [second]}}), 60)
    assert (one["state"], gpus_of(one)) == ("completed", [second])
    until(lambda: "1 withheld (XID 79" in (service.runs(named)[0]["reason"] or ""), 30)
    assert "it has fallen off the bus" in tbd("nodes", first).stdout
    assert "well\n" in tbd("nodes", "clear", first).stdout
    (one,) = service.wait(named, 60)
    assert (one["state"], gpus_of(one)) == ("completed", [first])


def test_an_error_of_a_device_in_mid_run_disturbs_the_run_and_names_it(rig):
    machine, service, _ = rig
    offered(service, 16)
    # Seconds long: its first intervals may be stored late. Whether they are those of the warm-up makes no difference.
    experiment = service.submit({**SPEC, "topology": "1x1", "max_steps": 1500, "seed": 4})
    until(lambda: service.runs(experiment)[0]["state"] == "running", 30)
    until(lambda: service.call("GET", f"/api/v1/runs/{service.runs(experiment)[0]['id']}/intervals")["items"], 30)
    machine.change(gpu__0__xid=63)
    (run,) = [one for one in service.wait(experiment, 90) if one["state"] == "completed"][:1]
    assert [reason["code"] for reason in run["validity"]["reasons"] if "device" in reason["code"]] == ["device_error"]
    assert H100 in str(run["attempts"][-1]["placement"])
