"""From logs to measurements, validity and failures."""

import json
import math

import numpy as np
import pytest

from orchestrator.analysis.analyse import CODE_VERSION, analyse
from orchestrator.domain.value.failure import FailureKind
from orchestrator.domain.value.measurement import METRICS, Analysis, Grade
from tests.unit.analysis import logs
from tests.unit.analysis.logs import NODE, a_job, a_log, closed, durations, quiet


def _codes(analysis):
    return [reason.code for reason in analysis.validity.reasons]


def test_a_good_run_has_a_throughput_with_an_interval_around_the_truth():
    analysis = analyse({NODE: a_log(readings=quiet())})
    rate = analysis.measurement("throughput")
    assert analysis.failure is None
    assert analysis.validity.sound, analysis.validity.reasons
    assert rate.unit == "images/s"
    assert rate.unit_definition == "of 96 pixels"
    assert rate.ci_low < logs.BATCH / logs.STEP_S < rate.ci_high
    assert rate.value == pytest.approx(logs.BATCH / logs.STEP_S, rel=0.01)
    assert rate.n >= 50
    assert "this run only" in rate.scope
    assert analysis.summary["steady"]["state"] == "steady"
    assert analysis.code_version == CODE_VERSION


def test_what_every_rank_and_node_did_over_the_time_of_a_run_is_told_on_one_clock():
    slow = durations()
    slow[50] = 9.0
    log = a_log(slow, ranks=2, readings=quiet())
    first = next(entry for entry in log if entry["kind"] == "reading")
    first["data"]["window_s"] = 0.0  # tells nothing, and takes nothing away from the others
    analysis = analyse({NODE: log})
    told = {(one.metric, one.subject): one.points for one in analysis.time_series}
    assert list(told) == [("step_time_s", "rank 0"), ("step_time_s", "rank 1"), ("cpu_cores_busy", NODE)]
    steps, busy = told["step_time_s", "rank 0"], told["cpu_cores_busy", NODE]
    assert (steps.at_s[0], steps.at_s[-1]) == (pytest.approx(3.0), pytest.approx(3.0 + slow.sum()))
    assert max(steps.greatest) == pytest.approx(9.0)
    assert busy.least[0] == pytest.approx(2 * 0.32 / slow[0])
    phases = analysis.summary["phase_ends"]
    assert 3.0 <= phases["warm-up"] < phases["timed"]
    assert phases["timed"] == steps.at_s[-1]
    assert "time_series" not in analysis.to_json()


def test_every_measurement_is_a_known_metric_in_its_unit_and_all_travel_as_json():
    analysis = analyse({NODE: a_log(readings=quiet())})
    for measurement in analysis.measurements:
        unit = METRICS[measurement.metric][0]
        assert unit in (None, measurement.unit)
        assert measurement.value is not None or measurement.reason
        assert measurement.method
    assert Analysis.from_json(json.loads(json.dumps(analysis.to_json()))) is not None


def test_utilisation_memory_loss_and_warm_up_are_measured():
    analysis = analyse({NODE: a_log(readings=quiet())})
    values = {measurement.metric: measurement.value for measurement in analysis.measurements}
    assert values["compute_utilization_ratio"] == pytest.approx(0.9)
    assert analysis.measurement("compute_utilization_ratio").method == "operator-union"
    assert values["cpu_utilization_ratio"] == pytest.approx(0.8, rel=0.05)
    assert values["peak_memory_bytes"] == 2**30
    assert values["loss_first"] == pytest.approx(7.0)
    assert 5.0 <= values["loss_last"] <= 5.2
    assert values["warmup_steps"] >= 1
    assert values["warmup_s"] >= 3.0
    assert values["build_s"] == 0.5
    assert values["input_ratio"] == pytest.approx(0.1)
    assert values["power_w"] is None


def test_of_a_model_that_plays_games_the_input_is_told_by_its_parts():
    entries = a_log(durations(20))
    for entry in entries:
        if entry["kind"] == "interval":
            waited_s = entry["data"]["input_s"]
            entry["data"]["work"].update(emulator_s=0.75 * waited_s, acting_s=0.25 * waited_s)
    values = {measurement.metric: measurement.value for measurement in analyse({NODE: entries}).measurements}
    found = [values[metric] for metric in ("input_ratio", "emulator_ratio", "acting_ratio")]
    assert found == pytest.approx([0.1, 0.075, 0.025])


def test_the_time_of_a_device_is_told_by_its_parts():
    entries = a_log(durations(20))
    for entry in entries:
        entry["t"] += {"log_opened": -4.0, "versions": -2.0, "joined": -1.0, "log_closed": 2.0}.get(entry["kind"], 0.0)
    told = analyse({NODE: entries}).summary["device_time"]
    parts = {"start_s": 3.0, "build_s": 1.0, "warmup_s": 3.0, "timed_s": float(durations(20).sum()), "end_s": 2.0}
    assert told == pytest.approx(parts)


def test_what_the_logs_tell_of_the_rig_is_among_the_circumstances():
    told = analyse({NODE: a_log()}).circumstances
    assert told["versions"]["version"] == "2.13.0"
    assert told["mathematics"] == {"tf32": False}
    assert told["interpreter"]["definition"] == "abc"
    assert told["devices"][0]["id"] == "cpu:0-1"
    assert told["nodes"][NODE]["provenance"]["commit"] == "c0ffee"
    assert told["nodes"][NODE]["inventory"]["driver"] == "550"


def test_the_world_interval_is_the_longest_over_the_ranks_and_its_work_their_sum():
    rate = analyse({NODE: a_log(ranks=2, readings=quiet())}).measurement("throughput")
    assert rate.value == pytest.approx(2 * logs.BATCH / logs.STEP_S, rel=0.01)


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        (lambda: a_log(readings=quiet(values={("cpu_s", "attempt"): 0.4})), "foreign_load"),
        (lambda: a_log(readings=quiet(values={("stolen_s", "host"): 0.1})), "stolen_time"),
        (lambda: a_log(readings=quiet(values={("swap_in_bytes", "host"): 5e6})), "swapping"),
    ],
)
def test_a_disturbed_run_has_a_rate_and_is_graded(entries, code):
    analysis = analyse({NODE: entries()})
    assert _codes(analysis) == [code]
    assert analysis.failure is None
    assert analysis.validity.grade is Grade.DISTURBED
    assert analysis.measurement("throughput").value > 0


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        (lambda: a_log(timed=durations() * np.linspace(1, 1.2, 120)), "drifting"),
        (lambda: a_log(timed=np.concatenate([durations(90), 1.2 * durations(60)])), "unsteady"),
        (lambda: a_log(timed=durations(30)), "too short"),
    ],
)
def test_how_the_times_look_is_a_finding_and_grades_nothing(entries, word):
    analysis = analyse({NODE: entries()})
    assert analysis.validity.grade is Grade.SOUND
    assert any(note.startswith(f"{word}: ") for note in analysis.validity.notes)
    assert analysis.measurement("throughput").value > 0


def test_the_load_of_runs_that_share_the_node_by_its_plan_is_noted_and_is_not_foreign():
    values = {("cpu_s", "attempt"): 0.4, ("cpu_s", "neighbours"): 0.4}
    found = analyse({NODE: a_log(readings=quiet(values=values))}).validity
    assert found.sound
    assert found.notes[-1].startswith(f"exclusive: device: other runs of tbd used 1.0 cores of {NODE} meanwhile; with")
    assert found.advice == found.notes[-1:]


def test_load_on_cores_that_the_node_may_not_use_is_no_load_on_the_node():
    beside = quiet(values={("core_active_s", "core:2"): 0.4, ("core_active_s", "core:3"): 0.4})
    assert analyse({NODE: a_log(readings=beside)}).validity.sound


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        (lambda: a_log(losses=np.linspace(3.0, 9.0, 121)), "loss_rises"),
        (lambda: a_log(timed=durations(250), losses=[5.0] * 251), "loss_not_falling"),
        (lambda: a_log(losses=[*[5.0] * 120, math.inf]), "loss_not_finite"),
        (lambda: a_log(ranks=2, weights=["a", "b"]), "replicas_differ"),
        (lambda: a_log(timed=[]), "no_intervals"),
        (lambda: _without(a_log(), "finished"), "ranks_missing"),
        (lambda: _without(a_log(), "interval", at=50), "steps_missing"),
        (lambda: _without(a_log(ranks=2), "interval", at=50), "ranks_disagree"),
        (lambda: a_log(job=a_job(world_size=2)), "world_size"),
    ],
)
def test_a_broken_run_has_no_rate_at_all(entries, code):
    analysis = analyse({NODE: entries()})
    assert code in _codes(analysis)
    assert analysis.validity.grade is Grade.BROKEN
    assert analysis.measurement("throughput") is None


def _without(entries, kind, at=0):
    """The log without the ``at``-th entry of ``kind``, numbered and counted anew."""
    found = [entry for entry in entries if entry["kind"] == kind]
    return closed([entry for entry in entries[:-1] if entry is not found[at]])


def test_a_loss_that_has_not_fallen_in_a_short_run_is_noted_not_failed():
    analysis = analyse({NODE: a_log(losses=[5.0] * 121)})
    assert analysis.validity.sound
    assert any("not enough steps to judge" in note for note in analysis.validity.notes)
    assert not any("loss" in text for text in analysis.validity.advice), "nobody can do anything about it"


def test_asynchronous_replicas_may_differ():
    job = a_job(ranks=2, strategy={"name": "kvstore-dist-async", "synchronous": False})
    assert analyse({NODE: a_log(ranks=2, job=job, weights=["a", "b"])}).validity.sound


GPU = {"id": "GPU-1", "kind": "cuda", "name": "a gpu", "cores": [], "memory_bytes": 2**34}


def _gpu_log(**values):
    gpu = "device:GPU-1"
    read = {
        ("busy_ratio", gpu): 0.95,
        ("energy_j", gpu): 0.4 * 300,
        ("power_w", gpu): 300.0,
        ("throttle_reasons", gpu): 0,
    }
    read.update({(metric, gpu): value for metric, value in values.items()})
    return a_log(job=a_job(device=GPU), readings=quiet(values=read))


def test_on_a_gpu_busy_time_power_and_energy_come_from_its_readings():
    analysis = analyse({NODE: _gpu_log()})
    assert analysis.measurement("compute_utilization_ratio").value == pytest.approx(0.95)
    assert "NVML" in analysis.measurement("compute_utilization_ratio").method
    assert analysis.measurement("power_w").value == pytest.approx(300)
    assert analysis.measurement("energy_per_work_j").value == pytest.approx(300 * logs.STEP_S / logs.BATCH, rel=0.05)


def test_a_device_that_slows_itself_down_is_throttled_and_its_power_cap_is_only_noted():
    assert _codes(analyse({NODE: _gpu_log(throttle_reasons=0x40)})) == ["throttled"]
    capped = analyse({NODE: _gpu_log(throttle_reasons=0x4)})
    assert capped.validity.sound
    assert any("power cap" in note for note in capped.validity.notes)
    # Where the driver adds up the seconds of each cause, they count and not what a moment shows.
    assert _codes(analyse({NODE: _gpu_log(hardware_slowed_s=0.02, throttle_reasons=0)})) == ["throttled"]
    counted = analyse({NODE: _gpu_log(hardware_slowed_s=0.0, power_capped_s=0.1, throttle_reasons=0x40)})
    assert counted.validity.sound
    assert any("power cap in 25%" in note for note in counted.validity.notes)


def test_a_device_that_others_compute_on_is_shared():
    assert _codes(analyse({NODE: _gpu_log(foreign_device_processes=1)})) == ["device_shared"]


def test_where_the_driver_does_not_tell_who_computes_a_note_says_so_and_nobody_is_called_foreign():
    log = _gpu_log(foreign_device_processes=None)
    reading = next(entry for entry in log if entry["kind"] == "reading")
    reading["data"]["nvml"] = {"GPU-1": {"foreign_device_processes": "own_pids_unseen"}}
    analysis = analyse({NODE: log})
    assert analysis.validity.sound
    assert any("never lists our own processes" in note for note in analysis.validity.notes)


def test_errors_of_a_devices_hardware_disturb_the_run():
    analysis = analyse({NODE: _gpu_log(uncorrected_ecc_errors=1)})
    assert _codes(analysis) == ["device_error"]
    assert "beyond correction" in analysis.validity.reasons[0].text


def test_the_agents_word_on_a_failure_counts():
    failure = {"kind": "crashed", "ranks": [0], "exit_code": None, "signal": 9, "message": "killed by SIGKILL"}
    analysis = analyse({NODE: a_log(failure=failure)})
    assert analysis.failure.kind is FailureKind.CRASHED
    assert analysis.failure.signal == "SIGKILL"
    assert analysis.failure.ranks == (0,)
    assert not analysis.validity.sound
    assert analysis.measurements == ()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda log: [],
        lambda log: log[1:],
        lambda log: log[:-1],
        lambda log: log[:40] + log[41:],
        lambda log: [*log, {**log[-1], "seq": len(log) + 1}],
        lambda log: [*log[:40], {**log[40], "kind": "gossip"}, *log[41:]],
        lambda log: [*log[:40], {**log[40], "data": None}, *log[41:]],
        lambda log: [*log[:40], {"seq": 41}, *log[41:]],
        lambda log: [{**log[0], "data": {**log[0]["data"], "job": {}}}, *log[1:]],
        lambda log: [{**log[0], "data": {**log[0]["data"], "protocol": 99}}, *log[1:]],
        lambda log: [*log[:-1], {**log[-1], "data": {"entries": 3, "failure": None}}],
        lambda log: [*log[:-1], {**log[-1], "data": {"entries": len(log), "failure": {"kind": "bored"}}}],
    ],
)
def test_a_log_that_is_not_whole_is_an_invalid_log_and_never_an_exception(spoil):
    analysis = analyse({NODE: spoil(a_log())})
    assert analysis.failure.kind is FailureKind.INVALID_LOG
    assert analysis.failure.message
    assert analysis.measurement("throughput") is None


def test_no_log_at_all_is_an_invalid_log():
    assert analyse({}).failure.kind is FailureKind.INVALID_LOG


def test_a_node_whose_log_is_missing_is_named():
    job = a_job(ranks=2)
    job["processes"][1]["node"] = "node-2"
    assert "node-2" in analyse({NODE: a_log(job=job)}).failure.message


def test_an_interval_that_cannot_be_makes_the_log_invalid():
    log = a_log()
    at = next(index for index, entry in enumerate(log) if entry["kind"] == "interval")
    for change in ({"duration_s": -1.0}, {"duration_s": "NaN"}, {"n": 0}, {"work": {}}, {"phase": "nap"}):
        spoiled = [*log[:at], {**log[at], "data": {**log[at]["data"], **change}}, *log[at + 1 :]]
        assert analyse({NODE: spoiled}).failure.kind is FailureKind.INVALID_LOG
