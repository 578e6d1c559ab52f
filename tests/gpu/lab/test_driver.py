"""What tbd makes of a machine's driver: the real Python bindings on a library of ours, situation by situation."""

from __future__ import annotations

import json
import time

import pytest

from tests.gpu.lab.machine import H100, Machine, needs_compiler
from tests.integration.node_attempts import NODE, a_job, carried_out, failure_of, log_of, of_kind, steps_begin, until
from workers.node.agent import Agent
from workers.node.event_log import EventLog
from workers.node.inventory import Inventory, usable_cores
from workers.node.telemetry.nvml import Nvml
from workers.node.telemetry.sampler import Observer, Sampler
from workers.trainer import protocol

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def nobody_chooses(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "TBD_GPUS", "TBD_GPU_SHARE", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def on(tmp_path):
    """A function: enter a machine for the rest of the test."""
    entered = []

    def enter(gpus=1, **keys):
        machine = Machine(tmp_path, gpus, **keys)
        here = machine.here()
        here.__enter__()
        entered.append(here)
        return machine

    yield enter
    for here in entered:
        here.__exit__(None, None, None)


@pytest.fixture
def agent_on(on, tmp_path):
    """A function: an agent on a machine; returns both."""
    agents = []

    def start(gpus=1, **keys):
        machine = on(gpus, **keys)
        agents.append(Agent(tmp_path / "agent", NODE, fence_s=60))
        return agents[-1], machine

    yield start
    for agent in agents:
        agent.close()


def on_gpus(machine, ranks=1, **changes):
    told = {"device": "cuda", "options": {"step_time_s": 0.02}, "max_steps": 50, "warm_up_s": 0.0}
    job = a_job(ranks, **{**told, **changes})
    for process, uuid in zip(job["processes"], machine.uuids):
        process["devices"] = [{"id": uuid, "kind": "cuda", "name": H100, "cores": [], "memory_bytes": 80 * 10**9}]
    return job


def read_of(entries, metric, uuid):
    """The values of a metric of a device, oldest first."""
    found = []
    for data in of_kind(entries, "reading"):
        found += [value for name, subject, value in data["values"] if (name, subject) == (metric, f"device:{uuid}")]
    return found


def known_of(entries, metric, uuid):
    """Those of them that are known."""
    return [value for value in read_of(entries, metric, uuid) if value is not None]


def told_of(entries, metric, uuid):
    """What the driver said of a metric in the end."""
    return [data["nvml"][uuid].get(metric) for data in of_kind(entries, "reading") if "nvml" in data][-1]


def test_the_bindings_find_eight_gpus_by_uuid(on):
    machine = on(8)
    nvml = Nvml()
    assert [(gpu.id, gpu.number) for gpu in nvml.gpus()] == [(one, str(i)) for i, one in enumerate(machine.uuids)]
    assert {(gpu.name, gpu.memory_bytes, gpu.power_limit_w) for gpu in nvml.gpus()} == {(H100, 80 * 10**9, 700.0)}
    assert (nvml.driver_version, nvml.cuda_version, nvml.reason) == ("580.95.05", 13000, None)
    nvml.close()


def test_a_run_on_a_gpu_has_every_reading_of_the_protocol(agent_on):
    agent, machine = agent_on()
    machine.change(gpu__0__power_w=300, gpu__0__busy_percent=90)
    (uuid,) = machine.uuids
    entries = carried_out(agent, on_gpus(machine))
    assert failure_of(entries) is None
    of_gpu = {name for data in of_kind(entries, "reading") for name, subject, _ in data["values"] if uuid in subject}
    assert of_gpu <= set(protocol.READINGS)
    assert set(read_of(entries, "power_w", uuid)) == {300}
    assert set(read_of(entries, "busy_ratio", uuid)) == {0.9}
    assert known_of(entries, "fp32_pipe_ratio", uuid)[-1] == pytest.approx(0.2)
    assert known_of(entries, "pcie_sent_bytes_per_s", uuid)[-1] == 100 * 2**20
    assert known_of(entries, "nvlink_received_bytes_per_s", uuid)[-1] == 3000 * 2**20
    assert known_of(entries, "foreign_device_processes", uuid)[-1] == 0
    energy_j = sum(read_of(entries, "energy_j", uuid)[1:])
    read_t = [entry["t"] for entry in entries if entry["kind"] == "reading"]
    assert energy_j == pytest.approx(300 * (read_t[-1] - read_t[0]), rel=0.2)


def test_somebody_else_on_the_device_is_counted(agent_on):
    agent, machine = agent_on()
    with machine.somebody_computes_on(0):
        entries = carried_out(agent, on_gpus(machine))
    assert max(known_of(entries, "foreign_device_processes", machine.uuids[0])) == 1


@pytest.mark.parametrize("pids", ["host", "none"])
@pytest.mark.after_change
def test_where_own_processes_never_appear_in_the_drivers_list_nobody_is_called_foreign(agent_on, pids):
    agent, machine = agent_on(pids=pids)
    entries = carried_out(agent, on_gpus(machine))
    assert set(read_of(entries, "foreign_device_processes", machine.uuids[0])) == {None}
    assert told_of(entries, "foreign_device_processes", machine.uuids[0]) == "own_pids_unseen"


@pytest.mark.parametrize(("held", "told"), [(0, None), (5e9, 5 * 10**9)])
def test_a_process_that_holds_no_byte_holds_an_unknown_number_of_them(on, held, told):
    machine = on(each={"process_bytes": held})
    with machine.somebody_computes_on(0):
        assert Nvml().processes_memory(machine.uuids[0]) == told


def test_a_driver_too_old_for_the_bindings_newest_list_still_tells_who_computes(agent_on):
    agent, machine = agent_on(driver="470.256.02", cuda=11040)
    (uuid,) = machine.uuids
    machine.change(gpu__0__throttle_reasons=4)
    entries = carried_out(agent, on_gpus(machine))
    assert failure_of(entries) is None
    assert known_of(entries, "foreign_device_processes", uuid)[-1] == 0
    assert set(read_of(entries, "throttle_reasons", uuid)) == {4}
    assert told_of(entries, "fp32_pipe_ratio", uuid) == "unsupported"


def test_counters_that_this_user_may_not_read_are_null_and_say_why(agent_on):
    agent, machine = agent_on(**{"error.nvmlGpmSampleGet": 4})
    entries = carried_out(agent, on_gpus(machine))
    (uuid,) = machine.uuids
    assert failure_of(entries) is None
    assert set(read_of(entries, "tensor_pipe_ratio", uuid)) == {None}
    assert told_of(entries, "tensor_pipe_ratio", uuid) == "no_permission"


def test_gpus_that_share_a_node_get_the_cores_that_the_driver_says_are_near(on, tmp_path, monkeypatch):
    first, second = usable_cores()[:2]
    machine = on(2, **{"gpu.0.near_cores": hex(1 << second), "gpu.1.near_cores": hex(1 << first)})
    monkeypatch.setattr("workers.node.inventory.usable_cores", lambda: [first, second])
    devices = {one["id"]: one for one in Inventory("n", tmp_path, Nvml()).read()["devices"]}
    assert [devices[uuid]["near_cores"] for uuid in machine.uuids] == [[second], [first]]
    assert [devices[uuid]["cores"] for uuid in machine.uuids] == [[], []]


def test_a_gpu_without_error_correction_reads_as_such(on):
    machine = on()
    machine.change(gpu__0__ecc=None)
    nvml = Nvml()
    found = nvml.faults(machine.uuids[0])
    assert (found["uncorrected_ecc_errors"], found["xid"]) == (None, 0)
    assert nvml.availability[machine.uuids[0]]["uncorrected_ecc_errors"] == "unsupported"


def test_errors_of_the_hardware_are_told_once_and_of_the_device_that_had_them(on):
    machine = on(2)
    nvml = Nvml()
    devices = [{"id": uuid, "kind": "cuda"} for uuid in machine.uuids]
    observer = Observer("token", {}, devices, nvml)
    observer.faults()
    machine.change(gpu__1__xid=63, gpu__1__uncorrected_ecc_errors=2)
    told = {(metric, subject): value for metric, subject, value in observer.faults()}
    assert told[("xid", f"device:{machine.uuids[1]}")] == 63
    assert told[("uncorrected_ecc_errors", f"device:{machine.uuids[1]}")] == 2
    assert told[("xid", f"device:{machine.uuids[0]}")] == 0
    assert {value for _, _, value in observer.faults()} == {0}
    machine.change(gpu__0__field__94=3, gpu__0__field__161=7)
    told = {(metric, subject): value for metric, subject, value in observer.faults()}
    assert (
        told[("pcie_replays", f"device:{machine.uuids[0]}")],
        told[("nvlink_replays", f"device:{machine.uuids[0]}")],
    ) == (3, 7)
    nvml.close()


def test_time_that_clocks_were_held_down_is_told_by_cause_and_what_wraps_tells_nothing(on, monkeypatch):
    machine = on()
    now = [100.0]
    nvml, (uuid,) = Nvml(clock=lambda: now[0]), machine.uuids

    def read(**keys):
        machine.change(**{f"gpu__0__field__{number}": value for number, value in keys.items()})
        now[0] += 1.0
        return nvml.read(uuid)

    first = read(**{"74": int(5e9), "270": 10})
    assert (first["memory_temperature_c"], first["power_capped_s"]) == (60, None)
    second = read(**{"74": int(5.25e9), "270": 10})
    assert (second["power_capped_s"], second["hardware_slowed_s"]) == (pytest.approx(0.25), 0)
    assert "throttle_reasons" not in second
    assert read(**{"74": 3})["power_capped_s"] is None
    assert read(**{"74": int(1e9) + 3})["power_capped_s"] == 1.0
    # One that says no leaves the others, and is not asked for again.
    refused = read(**{"82__error": 4})
    assert (refused["memory_temperature_c"], refused["power_capped_s"]) == (None, 0)
    assert nvml.availability[uuid]["memory_temperature_c"] == "no_permission"
    nvml.close()


def test_before_hopper_traffic_is_read_by_field(on):
    links = {"field.197": 10**6, "field.198": 0, "field.138": 10, "field.139": 20}
    machine = on(driver="535.183.01", each={"gpm": None, **links})
    now = [0.0]
    nvml, (uuid,) = Nvml(clock=lambda: now[0]), machine.uuids
    for number in range(4):
        now[0] += 0.5
        machine.change(gpu__0__field__197=10**6 * number, gpu__0__field__139=20 + number)
        found = nvml.read(uuid)
    assert found["pcie_sent_bytes_per_s"] == 2e6
    assert (found["nvlink_sent_bytes_per_s"], found["nvlink_received_bytes_per_s"]) == (0, 2048)
    assert (found["throttle_reasons"], found["hardware_slowed_s"], found["tensor_pipe_ratio"]) == (0, None, None)
    nvml.close()


def test_how_a_gpu_is_set_up_is_told_as_it_is_now(on, tmp_path):
    machine = on(each={"vbios": "96.00.A5", "nvlinks": 18})
    inventory = Inventory("n", tmp_path, Nvml())
    machine.change(gpu__0__power_limit_w=400, gpu__0__nvlinks=17, gpu__0__ecc=0)
    device = next(one for one in inventory.read()["devices"] if one["kind"] == "cuda")
    told = {name: device[name] for name in ("power_limit_w", "vbios", "pcie", "nvlinks", "ecc")}
    assert told == {"power_limit_w": 400.0, "vbios": "96.00.A5", "pcie": [5, 16], "nvlinks": 17, "ecc": False}
    assert "application_clock_hz" not in device  # this driver does not tell


def test_an_error_right_before_the_end_is_told(on, tmp_path):
    machine = on()
    log = EventLog(tmp_path / "log.jsonl")
    sampler = Sampler(log, 0.05, "token", {}, [{"id": machine.uuids[0], "kind": "cuda"}], Nvml())
    sampler.start()
    until(lambda: log.last_seq >= 3)  # two walks are over
    machine.change(gpu__0__xid=63)
    sampler.stop()
    values = [value for reading in of_kind(log.view(0, 100)[0], "reading") for value in reading["values"]]
    assert ["xid", f"device:{machine.uuids[0]}", 63] in values
    log.release()


def test_instances_of_a_divided_gpu_are_offered_and_the_whole_is_not(on, tmp_path):
    machine = on(2, **{"gpu.0.mig": 2})
    facts = Inventory("n", tmp_path, Nvml()).read()
    offered = [device for device in facts["devices"] if device["kind"] == "cuda"]
    instances = [machine.of(f"gpu.0.mig.{number}.uuid") for number in (1, 2)]
    assert [device["id"] for device in offered] == [*instances, machine.uuids[1]]
    assert offered[0]["memory_bytes"] == 10 * 10**9
    assert "MIG 1g.10gb" in offered[0]["name"]


def test_a_run_on_an_instance_reads_what_an_instance_has(agent_on):
    agent, machine = agent_on(**{"gpu.0.mig": 1})
    machine.uuids = [machine.of("gpu.0.mig.1.uuid")]
    entries = carried_out(agent, on_gpus(machine))
    assert failure_of(entries) is None
    assert told_of(entries, "power_w", machine.uuids[0]) == "unsupported"
    assert known_of(entries, "foreign_device_processes", machine.uuids[0])[-1] == 0


def test_a_divided_gpu_without_instances_is_withheld_with_what_to_do(on, tmp_path):
    machine = on(1, **{"gpu.0.mig": 0, "gpu.0.mig_without_instances": 1})
    facts = Inventory("n", tmp_path, Nvml()).read()
    assert "MIG mode" in facts["gpus_withheld"][machine.uuids[0]]
    assert "nvidia-smi -i 0 -mig 0" in facts["unavailable"]["gpus"]


def test_a_gpu_that_falls_off_the_bus_in_mid_run_is_told_and_no_longer_offered(agent_on):
    agent, machine = agent_on(2)
    job = on_gpus(machine, max_steps=75)
    assert agent.start(job)["state"] == "running"
    steps_begin(agent, job)
    machine.change(gpu__0__lost=1)
    entries = log_of(agent, job)
    assert failure_of(entries) is None  # the model waits, and does not feel it; a training would have ended
    assert read_of(entries, "power_w", machine.uuids[0])[-1] is None
    assert told_of(entries, "power_w", machine.uuids[0]) == "lost"
    facts = agent.inventory()
    assert [device["id"] for device in facts["devices"] if device["kind"] == "cuda"] == [machine.uuids[1]]
    assert "lost" in facts["gpus_withheld"][machine.uuids[0]]


def test_a_gpu_that_was_lost_before_the_agent_began_costs_only_itself(on, tmp_path):
    machine = on(8, **{"gpu.3.lost": 1})
    facts = Inventory("n", tmp_path, Nvml()).read()
    assert len([device for device in facts["devices"] if device["kind"] == "cuda"]) == 7
    assert list(facts["gpus_withheld"]) == ["GPU 3"]  # the driver does not tell its UUID any more
    assert machine.uuids[3] not in json.dumps(facts["devices"])


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"field.230": 1}, "nvidia-smi --gpu-reset"),
        ({"field.230": 9}, "action 9 of nvml.h"),
        ({"remapping_pending": 1}, "rows of its memory wait to be replaced"),
        ({"remapping_pending": 1, "remapping_failed": 1}, "the board has to be exchanged"),
        ({"fabric": 1}, "start nvidia-fabricmanager"),
        ({"fabric": 2}, "is still going on"),
        ({"fabric_status": 999}, "has failed (error 999 of NVML)"),
        ({"error.nvmlDeviceGetMemoryInfo": 999}, "start the container anew"),
        ({"error.nvmlDeviceGetMemoryInfo": 16}, "the driver has lost it; reset it"),
    ],
)
def test_a_gpu_that_is_not_well_is_withheld_and_the_others_are_not(on, tmp_path, keys, told):
    machine = on(2, **{f"gpu.0.{name}": value for name, value in keys.items()})
    inventory = Inventory("n", tmp_path, Nvml())
    facts = inventory.read()
    assert [device["id"] for device in facts["devices"] if device["kind"] == "cuda"] == machine.uuids[1:]
    assert told in facts["gpus_withheld"][machine.uuids[0]]
    assert told in facts["gpu_ailments"][machine.uuids[0]][-1]
    if "error" not in next(iter(keys)):
        machine.change(**{f"gpu__0__{name.replace('.', '__')}": None for name in keys})
        inventory.look()
        assert not inventory.read()["gpus_withheld"]


def test_links_that_are_narrow_or_fewer_than_those_beside_are_told(on, tmp_path):
    machine = on(3, each={"nvlinks": 18}, **{"gpu.1.pcie_width": 8})
    machine.change(gpu__2__nvlinks=17)
    facts = Inventory("n", tmp_path, Nvml()).read()
    assert [(one, told[0][:18]) for one, told in facts["gpu_doubts"].items()] == [
        (machine.uuids[1], "PCIe has 8 of 16 l"),
        (machine.uuids[2], "17 NVLinks are up,"),
    ]
    assert len([one for one in facts["devices"] if one["kind"] == "cuda"]) == 3


@pytest.mark.after_change
def test_what_happens_to_a_gpu_between_runs_is_heard_from_the_agents_start_on(agent_on):
    agent, machine = agent_on(2)
    assert agent.inventory()["gpu_xids"] == []
    machine.change(gpu__1__xid=79)
    agent.inventory()
    machine.change(gpu__1__xid=13)
    heard = agent.inventory()["gpu_xids"]
    assert [(one["device"], one["xid"]) for one in heard] == [(machine.uuids[1], 79), (machine.uuids[1], 13)]
    assert 0 <= time.time() - heard[-1]["at"] < 30
    told = [("xid", read_of(carried_out(agent, on_gpus(machine, ranks=2)), "xid", uuid)) for uuid in machine.uuids]
    assert {code for _, codes in told for code in codes} == {0}  # none of them is of the run
    assert agent.inventory()["gpu_xids"] == heard


def test_a_machine_whose_driver_is_not_loaded_has_no_gpus_and_says_why(on, tmp_path):
    on(1, **{"error.nvmlInitWithFlags": 9})
    facts = Inventory("n", tmp_path, Nvml()).read()
    assert {device["kind"] for device in facts["devices"]} == {"cpu"}
    assert "Driver Not Loaded" in facts["unavailable"]["gpus"]
