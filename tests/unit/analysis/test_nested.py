"""Intervals within processes within nodes."""

import math

import numpy as np
import pytest
from scipy import stats

from orchestrator.analysis.cell.between_runs import compare, over_runs, over_the_fleet, variation
from orchestrator.analysis.statistics.nested import components, of_the_fleet, of_these_devices
from orchestrator.domain.value.measurement import Measurement


def run(value, error=0.0):
    half = math.exp(error / value * float(stats.t.ppf(0.975, 59)))
    return Measurement("throughput", value, "images/s", "m", ci_low=value / half, ci_high=value * half, n=60.0)


def logs(groups):
    return [[math.log(value) for value in group] for group in groups]


def nodes(rng, count, each, node, process):
    return [list(100 * (1 + node * rng.standard_normal() + process * rng.standard_normal(each))) for _ in range(count)]


def test_the_components_are_those_of_the_simulation():
    rng = np.random.default_rng(1)
    found = components(logs(nodes(rng, 400, 3, 0.08, 0.01)), [0.004])
    assert found.node_ratio == pytest.approx(0.08, rel=0.1)
    assert found.interval_ratio == pytest.approx(0.004, rel=0.02)
    assert math.hypot(found.process_ratio, 0.004) == pytest.approx(0.01, rel=0.1)


def test_what_the_runs_cannot_tell_is_not_told():
    one_each = components(logs([[99.0], [101.0]]))
    assert (one_each.node_ratio, one_each.process_ratio, one_each.interval_ratio) == (None, None, None)
    one_node = components(logs([[99.0, 101.0]]))
    assert one_node.node_ratio is None
    assert one_node.process_ratio == pytest.approx(math.sqrt(2) / 100, rel=1e-4)


def test_a_component_is_never_less_than_nothing():
    found = components(logs([[99.0, 101.0], [99.0, 101.0]]), [0.5])
    assert (found.node_ratio, found.process_ratio) == (0.0, 0.0)


def test_every_node_counts_the_same_and_their_difference_is_no_noise():
    found = of_these_devices([[100.0, 101.0, 99.0, 100.0], [110.0, 112.0]])
    assert found.value == pytest.approx((100.0 + 111.0) / 2)
    assert found.degrees == 4
    assert found.half_width < 3.0
    assert of_these_devices([[1.0], [2.0]]) is None


@pytest.mark.parametrize("each", [2, 3])
def test_the_interval_for_these_devices_holds_their_mean(each):
    rng = np.random.default_rng(2)
    held = []
    for _ in range(2000):
        levels = 100 * (1 + 0.08 * rng.standard_normal(3))
        found = of_these_devices([list(level + rng.standard_normal(each)) for level in levels])
        held.append(abs(found.value - levels.mean()) <= found.half_width)
    assert 0.935 <= np.mean(held) <= 0.965


def test_the_interval_for_the_fleet_holds_the_fleets_mean_and_takes_five_nodes():
    rng = np.random.default_rng(3)
    found = [of_the_fleet(nodes(rng, 5, 2, 0.08, 0.01)) for _ in range(2000)]
    assert 0.935 <= np.mean([abs(one.value - 100) <= one.half_width for one in found]) <= 0.965
    assert of_the_fleet(nodes(rng, 4, 2, 0.08, 0.01)) is None


def test_a_cell_on_several_nodes_says_so():
    runs = [run(100.0), run(101.0), run(110.0), run(111.0)]
    cell = over_runs(runs, places=["a", "a", "b", "b"])
    assert "4 runs on 2 nodes" in cell.scope
    assert cell.ci_high - cell.ci_low < 6
    assert "each on a node of its own" in over_runs(runs, places=["a", "b", "c", "d"]).scope
    assert over_the_fleet(runs, ["a", "b", "c", "d"]) is None
    fleet = over_the_fleet([*runs, run(105.0)], ["a", "b", "c", "d", "e"])
    assert "fleet" in fleet.scope
    assert fleet.n == 5


def test_the_variation_of_a_cell_takes_the_runs_own_intervals_into_account():
    found = variation([run(99.0, 0.5), run(101.0, 0.5)], ["a", "a"])
    assert found.interval_ratio == pytest.approx(0.005, rel=1e-3)
    assert found.process_ratio == pytest.approx(math.sqrt(2 - 0.25) / 100, rel=1e-3)
    assert variation([run(99.0)], ["a"]) is None


def test_an_interval_after_steins_rule_rests_on_the_first_stage_alone():
    first = [99.0, 101.0, 100.0, 98.0, 102.0]
    cell = over_runs([run(rate) for rate in [*first, *[100.0] * 15]], first_stage=5)
    half = float(stats.t.ppf(0.975, 4)) * float(np.std(np.log(first), ddof=1)) / math.sqrt(20)
    assert math.log(cell.ci_high / cell.value) == pytest.approx(half)
    assert "Stein" in cell.method
    plain = over_runs([run(rate) for rate in first])
    assert over_runs([run(rate) for rate in first], first_stage=5).ci_low == pytest.approx(plain.ci_low)


def test_two_cells_are_compared_node_by_node_where_both_ran_on_the_same_nodes():
    a, b = [100.0, 101.0, 120.0, 121.0], [98.0, 99.0, 118.0, 119.0]
    places = ["x", "x", "y", "y"]
    blocked = compare(a, b, (places, places))
    assert "node by node" in blocked.method
    assert blocked.verdict == "slower"
    assert compare(a, b).verdict == "no_difference_found", "the nodes' difference hides it"
    other = compare(a, b, (places, ["x", "x", "z", "z"]))
    assert "node by node" not in other.method


def test_equal_cells_on_the_same_nodes_are_called_different_in_one_case_of_twenty():
    rng = np.random.default_rng(4)
    places = ["x"] * 3 + ["y"] * 3
    verdicts = []
    for _ in range(300):
        levels = np.repeat(100 * (1 + 0.08 * rng.standard_normal(2)), 3)
        a, b = levels * (1 + 0.01 * rng.standard_normal(6)), levels * (1 + 0.03 * rng.standard_normal(6))
        verdicts.append(compare(list(a), list(b), (places, places)).verdict)
    assert 0.91 <= verdicts.count("no_difference_found") / 300 <= 0.985


def test_one_run_on_each_of_several_nodes_tells_nothing_node_by_node():
    found = compare([100.0, 110.0], [99.0, 109.0], (["x", "y"], ["x", "y"]))
    assert found.verdict == "too_few_runs"
    assert "on each node" in found.text


def test_what_was_repeated_for_a_precision_is_compared_by_the_noise_of_its_first_stage():
    first = [99.0, 101.0, 100.0, 98.0, 102.0]
    repeated = [*first, *[100.0] * 15]
    found = compare(repeated, repeated, first_stages=(5, 5))
    deviation = float(np.std(np.log(first), ddof=1))
    half = float(stats.t.ppf(0.975, 4)) * deviation * math.sqrt(2 / 20)
    assert found.ci_high == pytest.approx(math.exp(half))
    assert "first stage" in found.method
    assert compare(repeated, repeated).ci_high < found.ci_high
