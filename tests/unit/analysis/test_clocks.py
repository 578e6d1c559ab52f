"""Logs of several nodes on one axis: the true offsets of made-up clocks are found within the stated uncertainty."""

import random

import pytest

from orchestrator.analysis.log.clocks import MAX_DRIFT, axis_of, merged
from workers.trainer.control.clocks import clock_of


def opened(node, t, wall=0.0, nodes=("one", "two")):
    processes = [{"name": f"worker{rank}", "ranks": [rank], "node": name} for rank, name in enumerate(nodes)]
    return {
        "seq": 1,
        "t": t,
        "wall": wall,
        "kind": "log_opened",
        "data": {"node": node, "job": {"processes": processes}},
    }


def a_log(node, *entries, opened_t, **more):
    numbered = [{"seq": seq, "wall": 0.0, **entry} for seq, entry in enumerate(entries, start=2)]
    return [opened(node, opened_t, **more), *numbered]


def a_clock(at_t, offset_s, uncertainty_s=0.001, peer_rank=1):
    data = {"peer_rank": peer_rank, "offset_s": offset_s, "uncertainty_s": uncertainty_s, "pings": 8, "at_t": at_t}
    return {"t": at_t, "kind": "clock", "data": data}


def a_loss(t):
    return {"t": t, "kind": "loss", "data": {}}


def test_entries_of_nodes_whose_clocks_differ_come_in_the_order_in_which_they_happened():
    leading = a_log("one", a_clock(100.0, 4000.0), a_loss(110.0), a_loss(130.0), opened_t=99.0)
    other = a_log("two", a_loss(4120.0), a_loss(4140.0), opened_t=4099.5)
    found = merged({"two": other, "one": leading})
    assert [entry["node"] for entry in found if entry["kind"] == "loss"] == ["one", "two", "one", "two"]
    assert [entry["t"] for entry in found if entry["kind"] == "loss"] == [110.0, 120.0, 130.0, 140.0]
    assert [entry["kind"] for entry in found][:3] == ["log_opened", "log_opened", "clock"]


def test_the_leading_nodes_own_times_are_exact_and_keep_what_the_log_says():
    (loss,) = [entry for entry in merged({"one": a_log("one", a_loss(5.0), opened_t=1.0)}) if entry["kind"] == "loss"]
    assert (loss["t"], loss["node_t"], loss["uncertainty_s"]) == (5.0, 5.0, 0.0)


def test_a_drift_between_beginning_and_end_is_accounted_for():
    drift = 2e-4
    leading = a_log("one", a_clock(100.0, 50.0, 1e-5), a_clock(1100.0, 50.0 + 1000 * drift, 1e-5), opened_t=99.0)
    axis = axis_of({"one": leading, "two": a_log("two", opened_t=149.0)})
    for true_t in (90.0, 100.0, 600.0, 1100.0, 1200.0):
        t, uncertainty_s = axis.common("two", true_t + 50.0 + (true_t - 100.0) * drift)
        assert abs(t - true_t) <= uncertainty_s
        assert uncertainty_s < 2e-4 if 100 <= true_t <= 1100 else uncertainty_s < 1e-3


def test_the_uncertainty_grows_with_the_distance_from_the_only_comparison():
    axis = axis_of({"one": a_log("one", a_clock(100.0, 0.0, 1e-4), opened_t=99.0), "two": a_log("two", opened_t=99.0)})
    assert axis.common("two", 100.0)[1] == pytest.approx(1e-4)
    assert axis.common("two", 110.0)[1] == pytest.approx(1e-4 + 10 * MAX_DRIFT)
    assert axis.common("two", 90.0)[1] == pytest.approx(1e-4 + 10 * MAX_DRIFT)


def test_of_several_ranks_of_a_node_the_best_comparison_counts():
    nodes = ("one", "two", "two")
    clocks = [a_clock(100.0, 7.3, 0.5, peer_rank=1), a_clock(100.1, 7.0, 0.001, peer_rank=2)]
    ends = [a_clock(200.0, 7.0, 0.001, peer_rank=1), a_clock(200.1, 7.4, 0.5, peer_rank=2)]
    leading = a_log("one", *clocks, *ends, opened_t=99.0, nodes=nodes)
    axis = axis_of({"one": leading, "two": a_log("two", opened_t=106.0, nodes=nodes)})
    assert axis.common("two", 157.0) == (pytest.approx(150.0), pytest.approx(0.001))


def test_a_node_whose_clock_was_never_compared_is_placed_by_real_time_without_a_bound():
    logs = {"one": a_log("one", opened_t=10.0, wall=1000.0), "two": a_log("two", opened_t=510.0, wall=1001.0)}
    found = merged(logs)
    assert [(entry["node"], entry["t"], entry["uncertainty_s"]) for entry in found] == [
        ("one", 10.0, 0.0),
        ("two", 11.0, None),
    ]


def test_logs_without_that_of_the_leading_node_are_merged_by_real_time():
    nodes = ("zero", "one", "two")
    logs = {
        "two": a_log("two", opened_t=510.0, wall=1000.5, nodes=nodes),
        "one": a_log("one", opened_t=10.0, wall=1000.0, nodes=nodes),
    }
    assert [(entry["node"], entry["t"]) for entry in merged(logs)] == [("one", 10.0), ("two", 10.5)]


def test_a_log_that_does_not_begin_is_refused():
    with pytest.raises(ValueError, match="log_opened"):
        merged({"one": [a_loss(1.0)]})


@pytest.mark.parametrize("seed", range(5))
def test_pings_with_uneven_delays_find_the_offset_within_the_stated_uncertainty(seed):
    chance = random.Random(seed)
    for _ in range(200):
        true_s, answers, now = chance.uniform(-1e6, 1e6), [], chance.uniform(0, 1e5)
        for _ in range(8):
            there, back = chance.expovariate(1000), chance.expovariate(300)
            answers.append((now, now + there + true_s, now + there + back))
            now += there + back
        found = clock_of(answers)
        assert abs(found["offset_s"] - true_s) <= found["uncertainty_s"] + 1e-9
        assert found["uncertainty_s"] <= min(received - sent for sent, _, received in answers) / 2 + 1e-9
