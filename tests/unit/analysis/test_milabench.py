"""milabench's result files: what they tell, and what becomes of those that are not what they should be."""

import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from orchestrator.analysis.history import milabench
from orchestrator.analysis.history.milabench import GREATEST_RATE, LONGEST_LINE, Process, read_process
from orchestrator.domain.around.imported_points import SERIES_PREFIX, id_of, series_of
from orchestrator.domain.words.errors import InvalidRequest
from tests.support.milabench.files import CONFIG, event, lines, rate

SAMPLES = Path(__file__).resolve().parents[2] / "support" / "milabench" / "rijubigo"


def read(*between: bytes, name: str = "run/resnet50.D0.data", **more: Any) -> Process:
    found = read_process(name, lines(*between, **more))
    assert found is not None
    return found


def refused(raw: list[bytes], name: str = "f.data") -> tuple[str, str]:
    """(pointer, text) of why the lines are refused."""
    with pytest.raises(InvalidRequest) as caught:
        read_process(name, raw)
    (problem,) = caught.value.problems
    return problem.pointer, problem.message


def test_milabench_s_own_sample_has_the_mean_that_its_rule_gives() -> None:
    found = [read_process(path.name, path.open("rb")) for path in sorted(SAMPLES.glob("*.data"))]
    processes = [one for one in found if one is not None]
    assert {one.session for one in processes} == {"rijubigo.2023-03-24_13:45:27.512446"}
    ((*session,),) = milabench.sessions_of(processes)
    assert len(session) == 4
    by_hand = []
    for path in sorted(SAMPLES.glob("*.data")):
        told = [json.loads(line) for line in path.read_text().splitlines()]
        rates = sorted(one["data"]["rate"] for one in told if one["event"] == "data" and "rate" in one["data"])
        by_hand.append(fmean(rates[1:-1]))
    number, reason = milabench.throughput_of(session)
    assert number is not None
    assert reason is None
    assert number.value == pytest.approx(fmean(by_hand))
    assert (number.unit, number.n, number.confidence) == ("items/s", 4.0, 0.95)


def test_the_interval_is_students_t_between_processes_and_one_process_has_none() -> None:
    processes = [read(rates=(value,) * 6, device=place) for place, value in enumerate((99.0, 100.0, 101.0))]
    number, _ = milabench.throughput_of(processes)
    assert number is not None
    assert number.ci_high is not None
    assert number.value == pytest.approx(100.0)
    assert math.log(number.ci_high / 100.0) == pytest.approx(0.043027 / math.sqrt(3), rel=1e-4)
    alone, _ = milabench.throughput_of(processes[:1])
    assert alone is not None
    assert (alone.ci_low, alone.confidence, alone.n) == (None, None, 1.0)
    assert "1 of 1 processes" in str(alone.scope)
    assert "warm-up is not known" in str(alone.scope)


def test_the_least_and_the_greatest_are_left_out_of_five_or_more() -> None:
    assert read(rates=(1.0, 100.0, 100.0, 100.0, 900.0)).rate == 100.0
    assert read(rates=(1.0, 100.0, 100.0, 199.0)).rate == 100.0


def test_rates_of_other_tasks_are_not_those_of_training() -> None:
    found = read(rate(7.0, task="early_stop"), rates=(100.0,))
    assert (found.rates, found.other_tasks) == ([100.0], 1)


@pytest.mark.parametrize(
    ("between", "more", "why"),
    [
        ((), {"code": None}, "it has no end"),
        ((), {"code": 1}, "return code 1"),
        ((), {"rates": ()}, "no rate of its task"),
        ((rate(math.nan),), {}, "a rate of nan"),
        ((rate(math.inf),), {}, "a rate of inf"),
        ((rate(-1.0),), {}, "a rate of -1.0"),
        ((rate(0),), {}, "a rate of 0"),
        ((rate(1e300),), {}, "a rate of 1e\\+300"),
        ((rate(10**400),), {}, "a rate of 1000"),
        ((rate(5.0, units="Tok/s"),), {}, "rates in Tok/s after rates in items/s"),
    ],
)
def test_a_process_that_went_wrong_is_kept_without_a_rate_and_says_why(
    between: tuple[bytes, ...], more: dict[str, Any], why: str
) -> None:
    found = read(*between, **more)
    assert found.rate is None
    number, reason = milabench.throughput_of([found])
    assert number is None
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(reason)


def test_a_process_that_milabench_stopped_early_ended_well() -> None:
    assert read(event("stop", None), code=-15).rate == 100.0


def test_a_loss_that_is_no_number_is_none_of_our_business() -> None:
    assert read(event("data", {"task": "train", "loss": math.nan})).rate == 100.0


def test_a_last_line_that_is_cut_short_belongs_to_a_process_that_was_killed() -> None:
    found = read_process("f.data", [*lines(code=None), b'{"event": "data", "da'])
    assert found is not None
    assert found.why_not == "it was cut off while it wrote line 9"


@pytest.mark.parametrize(
    ("raw", "line", "text"),
    [
        ([*lines()[:3], b'{"event": "da\n', *lines()[3:]], 4, "it is no JSON"),
        ([b'{"event": "con'], 1, "it is no JSON"),
        ([b"\xff\xfe{\x00\n"], 1, "it is not in UTF-8 (byte 0 of the line)"),
        ([*lines(), '{"event": "line", "data": "é"}\n'.encode("latin-1")], 10, "it is not in UTF-8"),
        ([b"[" * 100_000 + b"\n"], 1, "it is no JSON"),
        ([b"[1, 2]\n"], 1, "it is no event"),
        ([b'{"event": 5}\n'], 1, "it is no event"),
        ([event("start", {"time": 1.0})], 1, "comes before 'config'"),
        ([event("config", [])], 1, "is no object"),
        ([event("config", {"run_name": "r"})], 1, "the config's name is no name"),
        ([event("config", CONFIG | {"run_name": "a\nb"})], 1, "the config's run_name is no name"),
        ([event("config", CONFIG), event("config", CONFIG)], 2, "a second 'config'"),
        ([*lines()[:3], event("start", {"time": 5.0})], 4, "a second 'start'"),
        ([event("config", CONFIG), event("start", {"time": "now"})], 2, "no time from 1970 to 9999"),
        ([event("config", CONFIG), event("start", {"time": math.nan})], 2, "no time from 1970 to 9999"),
        ([event("config", CONFIG), event("end", {"time": 5.0, "return_code": "0"})], 2, "no integer"),
        ([event("config", CONFIG), rate("fast")], 2, "a rate is 'fast', no number"),
        ([event("config", CONFIG), rate(True)], 2, "a rate is True, no number"),
        ([event("config", CONFIG), rate(None)], 2, "a rate is None, no number"),
        ([event("config", CONFIG), rate(5.0, units=["items"])], 2, "the unit of a rate is"),
        ([event("config", CONFIG), rate(5.0, units="\x1b[31m")], 2, "no text that can be shown"),
        ([event("config", CONFIG), b'{"event": "data", "data": {"rate": ' + b"9" * 5000 + b"}}\n"], 2, "it is no JSON"),
        ([b" " * (LONGEST_LINE + 1)], 1, "a line of more than"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_by_file_and_line(
    raw: list[bytes], line: int, text: str
) -> None:
    pointer, message = refused(raw, "run/a~b.data")
    assert pointer == f"/run~1a~0b.data/{line}"
    assert text in message


def test_a_file_with_a_message_alone_is_none_of_a_run() -> None:
    assert read_process("f.data", [event("message", {"message": "Skip it"})]) is None
    assert read_process("f.data", []) is None


def test_events_that_nobody_knows_yet_are_passed_over() -> None:
    assert read(event("holiday", 5)).rate == 100.0


def test_a_file_that_is_there_twice_counts_once() -> None:
    twice = [read(name="a/x.data"), read(name="b/x.data")]
    ((*session,),) = milabench.sessions_of(twice)
    assert [one.name for one in session] == ["a/x.data"]


def test_a_series_is_of_a_benchmark_its_arguments_and_its_devices_and_keeps_runs_that_failed() -> None:
    good, failed = read(), read(code=1, rates=())
    workload = milabench.workload_of([good], "cluster-a")
    assert workload["device_models"] == ["NVIDIA L40S"]
    assert workload["arguments"] == ["--batch-size 128"], "places on a disk differ from machine to machine"
    key = series_of(workload)
    assert key == series_of(milabench.workload_of([failed], "cluster-a"))
    assert key.startswith(SERIES_PREFIX)
    others = [read(argv={"--batch-size": 64}), read(name="x", devices=[0, 1])]
    keys = {key, series_of(milabench.workload_of([good], "cluster-b"))}
    assert len(keys | {series_of(milabench.workload_of([one], "cluster-a")) for one in others}) == 4


def test_versions_and_machine_are_what_the_file_tells() -> None:
    assert milabench.subject_of([read()]) == {
        "milabench": "v1.1.0",
        "milabench_commit": "51a0993",
        "torch": "2.6.0+cu126",
    }
    assert milabench.rig_of([read()])["driver"] == "560.35.03"
    hostile = read_process("f", [event("config", CONFIG), event("meta", {"os": {"nodename": "a\x1b[2Jb"}, "cpu": 5})])
    assert hostile is not None
    assert milabench.rig_of([hostile]) == {"host": "a[2Jb"}


def test_processes_of_several_units_give_no_number() -> None:
    other = read(rate(5.0, units="Tok/s"), rates=())
    number, reason = milabench.throughput_of([read(), other])
    assert (number, reason) == (None, "its processes have rates in several units: Tok/s, items/s")


def test_the_greatest_rate_that_is_believed_is_taken() -> None:
    assert read(rates=(GREATEST_RATE,)).rate == GREATEST_RATE


def test_ids_are_of_session_benchmark_and_source() -> None:
    ids = {id_of("milabench", source, "s", bench) for source in ("", "a") for bench in ("x", "y")}
    assert len(ids) == 4
