"""Suspects of simulated nights: since when they are over, since when what was lost is back; and what would be seen."""

import numpy as np
import pytest

from orchestrator.analysis.gate.sight import runs_for, sight_of
from orchestrator.analysis.gate.suspects import moves_of
from orchestrator.analysis.history.baselines import Observation


@pytest.mark.parametrize(
    ("back", "recovered"),
    [(0.0, None), (0.04, None), (0.06, 30), (0.1, 30)],
)
def test_nights_that_win_back_more_than_half_of_a_loss_of_ten_per_cent_look_as_before(
    back: float, recovered: int | None
) -> None:
    noise = 0.003 * np.random.default_rng(2).standard_normal(45)
    values = noise - 0.1 * (np.arange(45) >= 20) + back * (np.arange(45) >= 30)
    nights = [Observation(n, 86_400.0 * n, "n0", {}, {}, float(value), True) for n, value in enumerate(values)]
    found, *others = moves_of(nights)
    assert [one.difference > 0.0 for one in others] == [True] * (back > 0.0)
    assert found.begins.point == 20
    assert (found.recovered and found.recovered.point) == recovered
    assert found.ends is not None
    assert found.ends.point == (30 if back else found.called.point + 14)


@pytest.mark.parametrize(("then", "recovered"), [(0.04, 38), (-0.05, None)])
def test_what_is_back_may_go_again_and_what_came_nearer_may_come_back_anew(then: float, recovered: int | None) -> None:
    night = np.arange(50)
    noise = 0.003 * np.random.default_rng(2).standard_normal(50)
    values = noise - 0.1 * (night >= 20) + 0.06 * (night >= 30) + then * (night >= 38)
    nights = [Observation(n, 86_400.0 * n, "n0", {}, {}, float(value), True) for n, value in enumerate(values)]
    found = moves_of(nights)[0]
    assert (found.begins.point, found.recovered and found.recovered.point) == (20, recovered)


def test_fewer_runs_than_it_takes_see_a_larger_drop_and_nights_that_differ_by_themselves_no_smaller_one() -> None:
    noise = 0.005 * np.random.default_rng(3).standard_normal(40)
    seen = sight_of(noise)
    assert seen is not None
    by_runs = runs_for(seen.drop / 2, seen.drop, seen.deviation, seen.deviation * 2, runs=4.0)
    assert by_runs == pytest.approx(16.0, rel=0.05)  # all of the noise is that of the runs
    assert runs_for(seen.drop / 2, seen.drop, seen.deviation, seen.deviation / 10, runs=4.0) is None
    assert sight_of(noise[:7]) is None
    louder = sight_of(2.0 * noise)
    assert louder is not None
    assert louder.drop == pytest.approx(2.0 * seen.drop, rel=0.05)
