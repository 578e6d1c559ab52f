"""A quick version of ``make coverage``: the figures of docs/read_results/statistics.md, on few series, wide margins."""

import numpy as np
import pytest

from bench import coverage, held_out, recorded, repeats
from tests.replays.replay import EXPECTED, LOGS


@pytest.mark.parametrize(("name", "generator", "wanted"), coverage.HELD_OUT)
@pytest.mark.after_change
def test_the_generator_that_was_kept_out_of_the_tuning_is_classified(name, generator, wanted):
    tally = coverage.measure(generator, (), 40, np.random.default_rng(1))
    assert tally.share(wanted) >= 0.85


@pytest.mark.parametrize("deviation", [0.00012, 0.005, 0.027])
def test_repeats_for_a_precision_leave_the_interval_true(deviation):
    rng = np.random.default_rng(3)
    ended = [repeats.experiment(rng, deviation, most=200) for _ in range(800)]
    assert np.mean([held for _, met, held in ended if met]) >= 0.93
    assert np.mean([met for _, met, _ in ended]) > 0.9


def test_the_kept_out_generator_is_what_it_says():
    durations, works, truth = held_out.steady(np.random.default_rng(4))
    assert len(durations) == len(works) >= 250
    assert (durations / works)[len(durations) // 2 :].mean() == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("name", recorded.RIGHT)
def test_a_recorded_series_is_what_was_done_to_it(name):
    n, _, correlation, state = recorded.described(name)
    assert state is recorded.RIGHT[name][0]
    assert n >= 29
    assert -0.3 < correlation < 1.0


def test_every_recorded_run_that_came_to_an_end_is_in_the_table():
    """But for those of a GPU, which lasted seconds."""
    ended = {name for name, expected in EXPECTED.items() if "steady" in expected}
    assert set(recorded.RIGHT) == {name for name in ended if LOGS[name].parent.name == "logs"}
