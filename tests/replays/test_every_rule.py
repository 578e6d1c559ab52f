"""Every reason that grades a run, tripped by a replay: a log of a real run, where need be with one thing in it
falsified as its rule means it. What the machine of the recordings has not (a GPU, swap, a hypervisor that takes half of
it) is written into the readings of a run that was recorded."""

import copy
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.analysis.run import validity
from tests.replays.replay import analysed, entries_of

GPU = "device:GPU-0"


def of(entries, kind, rank=None):
    return [entry for entry in entries if entry["kind"] == kind and rank in (None, entry.get("rank"))]


def timed(entries, rank=None):
    return [entry for entry in of(entries, "interval", rank) if entry["data"]["phase"] == "timed"]


def without(entries, *lost):
    kept = [entry for entry in entries if not any(entry is one for one in lost)]
    kept[-1]["data"]["entries"] = len(kept)
    return [{**entry, "seq": number} for number, entry in enumerate(kept, start=1)]


def job(entries):
    return entries[0]["data"]["job"]


def promise(entries, kind):
    job(entries)["model"]["loss"] = kind
    return entries


def a_rank_never_finished(entries):
    return without(entries, of(entries, "finished", rank=1)[0])


def three_ranks_joined(entries):
    for entry in of(entries, "joined"):
        entry["data"]["world_size"] = 3
    return entries


def a_rank_without_device(entries):
    job(entries)["processes"][1]["devices"] = []
    return entries


def an_interval_of_one_rank_is_missing(entries):
    return without(entries, timed(entries, rank=1)[20])


def an_interval_is_missing(entries):
    return without(entries, timed(entries)[20])


def no_timed_interval(entries):
    return without(entries, *timed(entries))


def a_step_that_trained_nothing(entries):
    data = timed(entries)[20]["data"]
    data["work"] = dict.fromkeys(data["work"], 0)
    return entries


def durations_of_another_clock(entries):
    for entry in of(entries, "interval"):
        entry["data"]["duration_s"] /= 1000
    return entries


def a_loss_that_is_not_a_number(entries):
    of(entries, "loss")[40]["data"]["value"] = "NaN"
    return entries


def no_loss(entries):
    return promise(without(entries, *of(entries, "loss")), "falling")


def losses(entries, course):
    for entry in of(entries, "loss"):
        entry["data"]["value"] = course(entry["data"]["step"])
    return promise(entries, "falling")


def a_replica_is_missing(entries):
    return without(entries, of(entries, "replica")[0])


def readings(entries, values, every=4):
    """The log with a reading after every fourth timed interval; ``values`` of the share of the run that has passed."""
    found, marks = [], timed(entries)[::every]
    for entry in entries:
        found.append(entry)
        if any(entry is mark for mark in marks):
            share = marks.index(entry) / len(marks)
            rows = [[metric, subject, value] for (metric, subject), value in values(share).items()]
            reading = {"window_s": every * entry["data"]["duration_s"], "values": rows, "missed": 0, "sampler_cpu_s": 0}
            found.append({**entry, "kind": "reading", "rank": None, "source": "agent", "data": reading})
    return without(found)


def on_a_gpu(entries, values):
    for process in job(entries)["processes"]:
        process["devices"] = [{"id": "GPU-0", "kind": "cuda", "name": "a GPU", "cores": [], "memory_bytes": 2**34}]
    return readings(entries, lambda share: {(metric, GPU): value for metric, value in values(share).items()})


def throttled(entries):
    return on_a_gpu(entries, lambda share: {"throttle_reasons": 0x40 if share > 0.7 else 0})


def shared(entries):
    return on_a_gpu(entries, lambda share: {"foreign_device_processes": int(share > 0.9)})


def errors(entries):
    return on_a_gpu(entries, lambda share: {"xid": 63 if share > 0.9 else 0})


def lost(entries):
    entries = on_a_gpu(entries, lambda share: {"power_w": None if share > 0.5 else 300.0})
    of(entries, "reading")[-1]["data"]["nvml"] = {"GPU-0": {"power_w": "lost"}}
    return entries


def slowed_down(entries):
    return on_a_gpu(entries, lambda share: {"sm_clock_hz": 1.98e9 - 0.2e9 * (share > 0.5)})


def stolen(entries):
    return readings(entries, lambda share: {("stolen_s", "host"): 0.05})


def swapping(entries):
    return readings(entries, lambda share: {("swap_in_bytes", "host"): 2**20})


# reason -> (log, what is falsified in it)
TRIPPED = {
    "ranks_missing": ("good_gang", a_rank_never_finished),
    "world_size": ("good_gang", three_ranks_joined),
    "devices_missing": ("good_gang", a_rank_without_device),
    "ranks_disagree": ("good_gang", an_interval_of_one_rank_is_missing),
    "steps_missing": ("good_sleep", an_interval_is_missing),
    "no_intervals": ("good_sleep", no_timed_interval),
    "no_work": ("good_sleep", a_step_that_trained_nothing),
    "clocks_disagree": ("good_sleep", durations_of_another_clock),
    "loss_not_finite": ("good_sleep", a_loss_that_is_not_a_number),
    "loss_missing": ("good_sleep", no_loss),
    "loss_rises": ("good_sleep", lambda log: losses(log, lambda step: 1.0 + 0.02 * step)),
    "loss_not_falling": ("foreign_load", lambda log: losses(log, lambda step: 1.0 + 1e-3 * (step % 7))),
    "replicas_differ": ("keras_fit", None),
    "replicas_missing": ("keras_fit", a_replica_is_missing),
    "foreign_load": ("foreign_load", None),
    "throttled": ("good_sleep", throttled),
    "device_shared": ("good_sleep", shared),
    "device_error": ("good_sleep", errors),
    "device_lost": ("good_sleep", lost),
    "clock_changed": ("good_sleep", slowed_down),
    "stolen_time": ("good_sleep", stolen),
    "swapping": ("good_sleep", swapping),
}


def reasons_of(name, falsify):
    entries = copy.deepcopy(entries_of(name))
    analysis = analysed(falsify(entries) if falsify else entries)
    assert analysis.failure is None, analysis.failure
    return {reason.code: reason for reason in analysis.validity.reasons}, analysis


@pytest.mark.parametrize("code", TRIPPED)
def test_a_replay_trips_the_rule(code):
    found, analysis = reasons_of(*TRIPPED[code])
    assert code in found
    assert (analysis.measurement("throughput") is None) == analysis.validity.broken
    assert analysis.validity.broken == any(not reason.replaceable for reason in found.values())


@pytest.mark.parametrize(
    ("name", "word"), [("two_speeds", "unsteady"), ("drifting", "drifting"), ("too_short", "too short")]
)
def test_how_the_times_of_a_replay_look_is_noted_and_is_no_reason(name, word):
    found, analysis = reasons_of(name, None)
    assert set(found) <= {"foreign_load"}
    assert any(note.startswith(f"{word}: ") for note in analysis.validity.notes)


def test_there_is_a_replay_for_every_reason_that_the_rules_give():
    text = Path(validity.__file__).read_text()
    codes = set(re.findall(r'_(?:broken|disturbed)\(\s*"(\w+)"', text))
    assert codes == set(TRIPPED)


@pytest.mark.parametrize("name", ["good_sleep", "good_gang"])
def test_the_logs_that_are_falsified_are_sound_before(name):
    found, _ = reasons_of(name, None)
    assert not found


def test_memory_that_goes_on_growing_is_noted_as_a_drift():
    def growing(log):
        return readings(log, lambda share: {("memory_bytes", "attempt"): 2**30 * (1 + share)})

    _, analysis = reasons_of("good_sleep", growing)
    assert any(note.startswith("drifting: ") and "still grows" in note for note in analysis.validity.notes)


def test_memory_that_has_come_to_rest_is_none():
    def grown(log):
        return readings(log, lambda share: {("memory_bytes", "attempt"): 2**30 * (1 + (share > 0.2))})

    assert not reasons_of("good_sleep", grown)[0]


def notes_of(values):
    _, analysis = reasons_of("good_sleep", lambda log: on_a_gpu(log, values))
    assert analysis.validity.sound
    return " ".join(analysis.validity.notes)


def test_a_power_cap_and_a_device_that_warms_up_are_noted():
    assert "power cap" in notes_of(lambda share: {"throttle_reasons": 0x4})
    assert "warmed up by" in notes_of(lambda share: {"temperature_c": 40 + 30 * share})


@pytest.mark.parametrize(("joules", "noted"), [(150.0, False), (155.0, False), (180.0, True), (120.0, True)])
def test_a_power_sensor_that_disagrees_with_the_energy_counter_is_noted(joules, noted):
    values = {("power_w", GPU): 300.0, ("energy_j", GPU): joules}
    readings = [SimpleNamespace(values=values, start_t=k / 2, end_t=(k + 1) / 2, window_s=0.5) for k in range(20)]
    node = SimpleNamespace(
        gpus=lambda: [GPU], log=SimpleNamespace(readings=readings, node="n0"), span=SimpleNamespace(start_t=0, end_t=10)
    )
    told = validity.energy_is_noted(SimpleNamespace(spans=[node]))
    assert (told is not None) == noted, told


def test_a_host_whose_clock_changes_is_noted():
    def slower(log):
        return readings(log, lambda share: {("cpu_frequency_hz", "host"): 3e9 - 1e9 * share})

    _, analysis = reasons_of("good_sleep", slower)
    assert "cores' clock" in " ".join(analysis.validity.notes)
