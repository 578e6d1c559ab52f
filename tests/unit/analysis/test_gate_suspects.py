"""Suspects of simulated nights: since when they are over, and since when what was lost is back."""

import numpy as np
import pytest

from orchestrator.analysis.gate.suspects import suspects_of
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
    (found,) = suspects_of(nights)
    assert found.begins.point == 20
    assert (found.recovered and found.recovered.point) == recovered
    assert found.ends is not None
    assert found.ends.point == (30 if back else found.called.point + 14)
