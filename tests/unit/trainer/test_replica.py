"""What ranks say of their weights, and what the analysis makes of it."""

import numpy
import pytest

from workers.trainer import replica


def arrays(seed, noise=0.0):
    generator = numpy.random.RandomState(seed)
    found = [generator.standard_normal((40, 50)).astype(numpy.float32), generator.standard_normal(33).astype("f4")]
    return [array + numpy.float32(noise) * generator.standard_normal(array.shape).astype("f4") for array in found]


def distance(one, other):
    return sum((a - b) ** 2 for a, b in zip(one["sketch"], other["sketch"], strict=True)) ** 0.5


def test_equal_weights_are_equal_in_every_number():
    assert replica.describe(arrays(1)) == replica.describe(arrays(1))
    assert replica.describe(arrays(1))["sha256"] == replica.digest(arrays(1))
    assert replica.describe(arrays(1))["weights"] == 2033


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 1.0])
def test_the_distance_of_two_sketches_is_that_of_the_weights(noise):
    one, other = arrays(1), arrays(1, noise)
    true = numpy.sqrt(sum(((a.astype("f8") - b) ** 2).sum() for a, b in zip(one, other, strict=True)))
    # Relative standard error sqrt(2 / 512) of the square, half of it of the distance; four of them.
    assert distance(replica.describe(one), replica.describe(other)) == pytest.approx(true, rel=4 * 0.032)


def test_the_norm_is_exact_and_weights_in_pieces_are_the_same_weights(monkeypatch):
    whole = replica.describe(arrays(1))
    assert whole["norm"] == pytest.approx(numpy.sqrt(sum((a.astype("f8") ** 2).sum() for a in arrays(1))))
    monkeypatch.setattr(replica, "CHUNK", 7)
    pieces = replica.describe(arrays(1))
    assert pieces["sha256"] == whole["sha256"]
    assert pieces["sketch"] == pytest.approx(whole["sketch"])


def test_weights_that_change_places_are_other_weights():
    (first, *rest) = arrays(1)
    assert distance(replica.describe([first, *rest]), replica.describe([first[::-1], *rest])) > 1.0


def test_no_weights_are_described_too():
    nothing = replica.describe(iter(()))
    assert (nothing["norm"], nothing["weights"], set(nothing["sketch"])) == (0.0, 0, {0.0})
