"""The merged timeline: every rank and node on one clock, as Perfetto takes it."""

import json
import math
import re

import pytest

from orchestrator.analysis.profile.trace import KINDS, trace_of
from tests.replays.replay import EXPECTED, raw, whole_lines
from tests.support import perfetto
from tests.unit.analysis.logs import NODE, a_job, quiet
from tests.unit.analysis.test_profiles import KINDS as KERNEL_KINDS
from tests.unit.analysis.test_profiles import a_profiled_log, cost, kernel_event, layer_event

OTHER = "node-2"


def spans_event(rank=0, start=150.0, items=None):
    items = items or [[0, 0, start, 0.5], [1, 0, start + 0.1, 0.2], [1, 1, start + 0.2, 0.1]]
    return "spans", rank, {"names": ["aten::addmm", "aten::relu"], "lanes": ["thread 1", "thread 2"], "items": items}


def a_log(*events, **changes):
    return a_profiled_log(*events, readings=quiet(), **changes)


def opened(trace):
    """The trace as Perfetto's importer takes it, which has nothing to complain of."""
    found = perfetto.imported(json.dumps(trace, allow_nan=False, ensure_ascii=False))
    assert not found.errors, found.examples
    return found


def complete(trace, **wanted):
    return [
        event
        for event in trace["traceEvents"]
        if event["ph"] == "X" and all(event.get(key) == value for key, value in wanted.items())
    ]


def test_perfetto_opens_a_trace_and_loses_nothing_of_it():
    events = [kernel_event(), spans_event(), cost("kernels", 2.0), layer_event(), cost("layers", 2.0)]
    trace = trace_of({NODE: a_log(*events)})
    found = opened(trace)
    assert len(found.slices) == len(complete(trace))
    assert found.processes == {0: f"rank 0 on {NODE}", 1_000_000: f"telemetry of {NODE}"}
    assert {"steps", "profiling phases", "thread 1", "thread 2"} <= set(found.threads.values())
    assert trace["displayTimeUnit"] == "ms"


X = {"ph": "X", "name": "a", "pid": 0, "tid": 1, "ts": 1.0, "dur": 2.0, "args": {}}
C = {"ph": "C", "name": "loss", "pid": 0, "tid": 0, "ts": 1.0, "args": {"loss": 2.5}}
M = {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "rank 0"}}


@pytest.mark.parametrize(
    ("events", "stat"),
    [
        ([X, {**X, "ts": 2.999}], perfetto.OVERLAP),
        ([{**X, "dur": 1.0}, X], perfetto.OVERLAP),  # a thread's events are taken in the order of the file
        ([{**X, "ph": "Q"}], perfetto.IGNORED),
        ([{"name": "a"}], perfetto.TOKENIZER),
        ([{**X, "ts": None}], perfetto.TOKENIZER),
        ([{**X, "ts": -0.5}], perfetto.NEGATIVE),
        ([{**X, "pid": -1}], perfetto.TOKENIZER),
        ([{**X, "dur": -1.0}], perfetto.PARSER),
        ([{**X, "name": ""}], perfetto.IGNORED),
        ([{**C, "args": {}}], perfetto.PARSER),
        ([{**C, "args": {"loss": None}}], perfetto.PARSER),
        ([{**C, "args": {"loss": 0.00012345678901234567}}], perfetto.MISREAD),
        ([{**C, "args": {"loss": 2**64}}], perfetto.MISREAD),
        ([{**M, "args": {"name": ""}}], perfetto.PARSER),
        ([{**M, "name": "processname"}], perfetto.IGNORED),
    ],
)
def test_what_perfetto_would_not_take_is_noticed(events, stat):
    found = perfetto.imported(json.dumps({"traceEvents": events}))
    assert stat in found.errors


@pytest.mark.parametrize(
    "text", ['{"traceEvents": NaN}', '{"events": []}', '{"traceEvents": [{"ph": "X", "name": "\\ud83d\\ude00"}]}']
)
def test_what_perfetto_would_not_open_is_refused(text):
    with pytest.raises(ValueError, match=r"JSON|array|reserved"):
        perfetto.imported(text)


def test_slices_that_abut_or_lie_within_each_other_are_well():
    inner = [
        {**X, "dur": 3.0},
        {**X, "dur": 2.0},
        {**X, "ts": 3.0, "dur": 1.0},
        {**X, "ts": 4.0},
        {**X, "ts": 4.0, "dur": 0.0},
    ]
    found = perfetto.imported(json.dumps({"traceEvents": inner}))
    assert not found.errors
    assert [one.depth for one in found.slices] == [0, 1, 1, 0, 1]


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected.get("steps")])
def test_perfetto_opens_the_timeline_of_every_recorded_run_that_took_a_step(name):
    found = opened(trace_of({"vm": whole_lines(raw(name))}))
    of_steps = [one.name for one in found.slices if re.match("steps? [0-9]", one.name)]
    # On a GPU a slice is an interval of several: "steps 15 to 18".
    spans = [[int(number) for number in re.findall("[0-9]+", told)] for told in of_steps]
    assert sum(span[-1] - span[0] + 1 for span in spans) >= EXPECTED[name]["steps"]
    assert any(counter.startswith("core_active_s per s") for _, counter in found.counters)


def test_small_levels_are_written_so_that_perfetto_reads_them():
    small = 0.00012345678901234567
    trace = trace_of({NODE: a_log(losses=[small] * 121)})
    levels = opened(trace).counters[0, "loss loss"]
    assert levels[0][1] == pytest.approx(small, rel=1e-8)


def test_large_levels_are_whole():
    readings = [["memory_bytes", "attempt", 25_276_514_305]]
    trace = trace_of({NODE: a_profiled_log(readings=readings)})
    assert opened(trace).counters[1_000_000, "memory_bytes attempt"][0][1] == 25_276_514_305


def test_steps_kernels_exchanges_and_telemetry_stand_on_one_axis():
    trace = trace_of({NODE: a_log(kernel_event(), spans_event(), layer_event())}, KERNEL_KINDS)
    (first, *_) = complete(trace, cat="timed")
    # The log opens at 100 s, and its build began half a second before: there the trace begins. The warm-up takes 3 s.
    assert first["ts"] == pytest.approx(3.5e6)
    (product,) = complete(trace, name="aten::addmm")
    assert (product["ts"], product["dur"]) == (pytest.approx(50.5e6), pytest.approx(0.5e6))
    assert product["cat"] == "matrix product"
    (exchange,) = complete(trace, cat="exchange")
    assert exchange["args"] == {"bytes": 400, "moment": "within the phase not known"}
    counters = {event["name"] for event in trace["traceEvents"] if event["ph"] == "C"}
    assert {"loss", "core_active_s per s", "memory_bytes"} <= counters


def test_the_moment_of_an_exchange_is_that_of_its_backward_pass_where_it_is_known():
    trace = trace_of({NODE: a_log(layer_event(backward_t=120.0))})
    (exchange,) = complete(trace, cat="exchange")
    assert (exchange["ts"], exchange["dur"]) == (pytest.approx(20.6e6), pytest.approx(0.05e6))


def test_a_profiling_phase_stands_where_it_began_not_where_it_was_told_of():
    _, rank, told = cost("kernels", 2.0)
    trace = trace_of({NODE: a_log(("profiled", rank, {**told, "begun_t": 150.0}))})
    (phase,) = complete(trace, name="kernels")
    assert (phase["ts"], phase["dur"]) == (pytest.approx(50.5e6), pytest.approx(2e6))


def test_the_nodes_of_an_attempt_are_brought_to_the_clock_of_the_one_that_leads():
    job = a_job(2)
    job["processes"][1]["node"] = OTHER
    job["plan"] |= {"framework": "pytorch"}
    logs = {}
    for node, rank, ahead_s in ((NODE, 0, 0.0), (OTHER, 1, 1000.0)):
        entries = [dict(entry) for entry in a_profiled_log(spans_event(rank, 150.0))]
        for entry in entries:
            entry["t"] += ahead_s
            entry["rank"] = None if entry["rank"] is None else rank
        entries[0]["data"] = {**entries[0]["data"], "node": node, "job": job}
        (spans,) = (entry for entry in entries if entry["kind"] == "spans")
        spans["data"] = {**spans["data"], "items": [[0, 0, 150.0 + ahead_s, 0.5]]}
        logs[node] = entries
    comparison = {"peer_rank": 1, "offset_s": 1000.0, "uncertainty_s": 1e-4, "pings": 8, "at_t": 100.0}
    last = logs[NODE][-1]
    logs[NODE].insert(-1, {**last, "kind": "clock", "rank": 0, "data": comparison})
    trace = trace_of(logs)
    mine, other = (complete(trace, name="aten::addmm", pid=rank) for rank in (0, 1))
    assert mine[0]["ts"] == pytest.approx(other[0]["ts"], abs=1.0)
    assert trace["otherData"]["clock"] == f"CLOCK_MONOTONIC of {NODE}"
    assert trace["otherData"]["uncertainty_s"][NODE] == 0.0
    assert 0 < trace["otherData"]["uncertainty_s"][OTHER] < 1.0
    opened(trace)


def test_what_crosses_on_one_thread_is_drawn_on_two():
    items = [[0, 0, 150.0, 0.5], [1, 0, 150.4, 0.5], [1, 0, 150.45, 0.1], [1, 0, 151.0, 0.1]]
    trace = trace_of({NODE: a_log(spans_event(items=items))})
    opened(trace)
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"]
    assert names.count("thread 1") == 2
    assert len(complete(trace, name="aten::relu")) == 3


def test_the_entries_of_the_kinds_that_are_asked_for_are_enough():
    log = a_log(kernel_event(), spans_event(), layer_event())
    assert (
        trace_of({NODE: [entry for entry in log if entry["kind"] in KINDS]})["traceEvents"]
        == (trace_of({NODE: log})["traceEvents"])
    )


def test_a_loss_that_is_no_number_is_left_out():
    losses = [2.0, math.nan] + [1.0] * 119
    trace = trace_of({NODE: a_log(losses=losses)})
    opened(trace)
