"""Real logs, good and bad, are analysed to what they were analysed to when they were recorded: see README.md."""

from pathlib import Path
from statistics import fmean

import pytest

from tests.replays.replay import EXPECTED, LOGS, MADE, analysed, entries_of, raw, told, whole_lines
from workers.trainer import protocol

RATED = [name for name, expected in EXPECTED.items() if "throughput" in expected]
FAILED = [name for name, expected in EXPECTED.items() if "failure" in expected]


def test_every_log_has_its_expectation_and_its_line_in_the_readme():
    names = sorted([*LOGS, *MADE])
    readme = (Path(__file__).parent / "README.md").read_text()
    assert names == sorted(EXPECTED)
    assert [name for name in names if f"`{name}`" not in readme] == []


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log_says_what_it_said_when_it_was_recorded(name):
    assert told(analysed(whole_lines(raw(name)), "vm")) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log_holds_no_secret_and_nobodys_home(name):
    text = raw(name).decode()
    assert [word for word in ('"token"', "/root/", "/home/", "password") if word in text] == []


def test_the_kinds_of_a_good_and_a_bad_day_are_all_there():
    kinds = {expected.get("failure") for expected in EXPECTED.values()}
    assert kinds >= {None, *protocol.FAILURE_KINDS} - {"unsupported"}
    assert {expected.get("steady") for expected in EXPECTED.values()} >= {"steady", "drifting", "unsteady", "too_short"}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_run_that_trained_rightly_has_a_throughput_and_no_other(name):
    analysis = analysed(whole_lines(raw(name)), "vm")
    found = analysis.measurement("throughput") is not None or bool(analysis.calibrations)
    assert found == (not analysis.validity.broken)
    assert analysis.failure is None or not analysis.measurements


@pytest.mark.parametrize("name", RATED)
def test_the_throughput_of_a_run_is_the_work_over_the_time_of_its_steady_part(name):
    analysis = analysed(entries_of(name))
    first = analysis.summary["steady"]["first_interval"]
    unit = entries_of(name)[0]["data"]["job"]["model"]["work_unit"]
    longest, work = {}, {}
    for entry in entries_of(name):
        data = entry["data"]
        if entry["kind"] == "interval" and data["phase"] == "timed":
            step = data["first_step"]
            longest[step] = max(longest.get(step, 0.0), data["duration_s"])
            work[step] = work.get(step, 0) + data["work"].get(unit, sum(data["work"].values()))
    steps = sorted(longest)[first:]
    by_hand = sum(work[step] for step in steps) / sum(longest[step] for step in steps)
    rate = analysis.measurement("throughput")
    assert rate.value == pytest.approx(by_hand)
    assert rate.ci_low is None or rate.ci_low < rate.value < rate.ci_high


@pytest.mark.parametrize(
    ("name", "warmup", "half_width"), [("steady_pytorch", 37, 0.0146), ("steady_tensorflow", 6, 0.0135)]
)
def test_a_real_training_that_nothing_disturbed_is_steady_with_its_interval(name, warmup, half_width):
    entries = entries_of(name)
    assert entries[0]["data"]["job"]["plan"]["model"] == "resnet-50"
    analysis = analysed(entries)
    assert analysis.validity.sound
    steady, rate = analysis.summary["steady"], analysis.measurement("throughput")
    assert (steady["state"], steady["warmup_steps"]) == ("steady", warmup)
    assert (rate.ci_high - rate.ci_low) / 2 / rate.value == pytest.approx(half_width, rel=0.05)
    # without the method: no quarter of what is left is 2 % off their mean
    times = [entry["data"]["duration_s"] for entry in entries if entry["kind"] == "interval"][1:][
        steady["first_interval"] :
    ]
    quarters = [fmean(times[len(times) * part // 4 : len(times) * (part + 1) // 4]) for part in range(4)]
    assert max(abs(quarter / fmean(quarters) - 1) for quarter in quarters) < 0.02


@pytest.mark.parametrize("name", ["steady_pytorch", "steady_tensorflow", "disturbed_lstm"])
def test_whether_others_computed_beside_a_training_is_in_its_readings(name):
    """By hand: what all cores did less what the attempt and its agent did."""
    timed = [entry["t"] for entry in entries_of(name) if entry["kind"] == "interval"]
    inside = [e for e in entries_of(name) if e["kind"] == "reading" and timed[0] < e["t"] < timed[-1]]
    total = dict.fromkeys(("core_active_s", "attempt", "own", "window_s"), 0.0)
    for reading in (entry["data"] for entry in inside):
        total["window_s"] += 2 * reading["window_s"]
        for metric, subject, value in reading["values"]:
            key = metric if metric == "core_active_s" else subject if metric == "cpu_s" else None
            if key in total:
                total[key] += value
    foreign = (total["core_active_s"] - total["attempt"] - total["own"]) / total["window_s"]
    assert (foreign > 0.4) == (name == "disturbed_lstm")
    assert foreign > 0.4 or foreign < 0.01


def test_a_killed_rank_is_named_with_its_signal_though_its_peer_spoke_first():
    kinds = [entry["kind"] for entry in entries_of("killed_rank")]
    assert kinds.index("error") < kinds.index("process_exited")
    failure = analysed(entries_of("killed_rank")).failure
    assert (failure.ranks, failure.signal, failure.message) == ((1,), "SIGKILL", "killed by SIGKILL")


def test_ranks_that_silently_never_exchanged_are_told_apart_by_their_weights():
    """Nothing else would have told: all processes ended well, and the loss fell on each."""
    entries = entries_of("keras_fit")
    assert {entry["data"]["exit_code"] for entry in entries if entry["kind"] == "process_exited"} == {0}
    for rank in (0, 1):
        losses = [entry["data"]["value"] for entry in entries if entry["kind"] == "loss" and entry["rank"] == rank]
        assert losses[-1] < losses[0] / 10
    reason = analysed(entries).validity.reasons[0]
    assert (reason.code, reason.replaceable) == ("replicas_differ", False)
    assert "2 different sets of weights on 2 ranks, 0.11 apart where 0 is allowed" in reason.text


@pytest.mark.parametrize(("name", "words"), [("crashed", "asked to crash"), ("nan_pytorch", "the loss is nan")])
def test_a_failure_keeps_the_last_words_of_its_rank(name, words):
    failure = analysed(entries_of(name)).failure
    assert words in failure.message
    assert words in failure.stderr_tail


def test_running_out_of_memory_keeps_what_the_framework_wanted():
    assert "you tried to allocate" in analysed(entries_of("out_of_memory_pytorch")).failure.message


def test_a_failed_run_still_tells_its_rig():
    for name in FAILED:
        entries = whole_lines(raw(name))
        if entries and entries[0]["kind"] == "log_opened":
            assert analysed(entries).circumstances["nodes"]["vm"]["provenance"]["commit"], name
