"""What a detector does with regions, in every framework, against plain loops: which boxes stay, which are drawn (as
whole numbers), and what a region's bins are, with their gradient."""

import os
import subprocess
from pathlib import Path

import numpy
import pytest

from suites.assemble import boxes
from tests.trainer_process import ROOT, environment_for

SCRIPT = Path(__file__).parent / "scripts" / "regions.py"
FRAMEWORKS = [pytest.param(name, marks=pytest.mark.framework(name)) for name in ("pytorch", "tensorflow")]
GENERATOR = numpy.random.RandomState(1)


def some_boxes(count, side=100.0):
    corners = GENERATOR.uniform(0, side, (count, 2))
    return numpy.concatenate([corners, corners + GENERATOR.uniform(0, side / 2, (count, 2))], axis=1).astype("float32")


@pytest.fixture
def computed(python_of, tmp_path):
    def compute(framework, calls):
        """What a framework gives for each (operator, arguments), a list of arrays each."""
        given = {
            f"{number}.{name}.{place}": numpy.asarray(one)
            for number, (name, *arguments) in enumerate(calls)
            for place, one in enumerate(arguments)
        }
        numpy.savez(tmp_path / "calls.npz", **given)
        python = python_of(framework)
        command = [python, str(SCRIPT), framework, str(tmp_path / "calls.npz"), str(tmp_path / "found.npz")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)}
        subprocess.run(command, env=environment, check=True, cwd=tmp_path)
        with numpy.load(tmp_path / "found.npz") as found:
            return [[found[key] for key in found if key.startswith(f"{number}.")] for number in range(len(calls))]

    return compute


def overlap(one, other):
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    both = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1]) - width * height
    return width * height / both if both > 0 else 0.0


def stays(corners, there, most, most_overlap):
    found = []
    for number, box in enumerate(corners):
        if there[number] and all(overlap(box, corners[other]) <= most_overlap for other in found):
            found.append(number)
    return found[:most]


# Equal ones; empty ones, which share nothing; beyond a block, many of which go; none at all.
MANY = [
    (numpy.array([[0, 0, 10, 10]] * 5, "float32"), [1] * 5),
    (numpy.array([[5, 5, 5, 5], [0, 0, 10, 10], [5, 5, 5, 5], [3, 3, 3, 9]], "float32"), [1] * 4),
    (some_boxes(1300), [1] * 1300),
    (some_boxes(600), [number % 3 > 0 for number in range(600)]),
    (some_boxes(20), [0] * 20),
]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_those_stay_that_a_plain_loop_keeps(computed, framework):
    cases = [(*one, most, shared) for one in MANY for most, shared in ((2000, 0.7), (50, 0.3))]
    calls = [("kept", corners, numpy.array(there, bool), most, shared) for corners, there, most, shared in cases]
    for case, (found,) in zip(cases, computed(framework, calls), strict=True):
        assert found.tolist() == stays(*case)
        corners, there, most, shared = case
        if all(there):
            assert boxes.kept(corners, shared)[:most] == found.tolist()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_proposals_are_the_best_that_stay_in_the_order_of_their_numbers(computed, framework):
    corners = some_boxes(300)
    corners[:20, 2] = corners[:20, 0] + 0.9  # less than a pixel wide
    scores = GENERATOR.permutation(300).astype("float32")
    narrow = {number for number, box in enumerate(corners) if min(box[2:] - box[:2]) < 1}
    cases = [(corners, 100, 10), (corners, 280, 300), (corners[:20], 15, 10)]
    calls = [("proposals", scores[: len(some)], some, best, most, 0.5) for some, best, most in cases]
    for (some, best, most), (numbers, mask) in zip(cases, computed(framework, calls), strict=True):
        order = [one for one in numpy.argsort(-scores[: len(some)]).tolist() if one not in narrow][:best]
        wanted = sorted(order[place] for place in stays(some[order], [1] * len(order), most, 0.5))
        assert numbers[mask > 0].tolist() == wanted
        assert len(numbers) == most
        assert mask.tolist() == [1] * len(wanted) + [0] * (most - len(wanted))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_quarter_is_drawn_of_those_that_hit_and_the_rest_of_those_that_do_not(computed, framework):
    keys = GENERATOR.permutation(40).astype("float32")
    shared = [GENERATOR.uniform(0, 1, 40).astype("float32"), numpy.zeros(40, "float32"), numpy.ones(40, "float32")]
    there = (GENERATOR.uniform(0, 1, 40) < 0.8).astype("float32")
    cases = [(one, some, most) for one in shared for some in (there, there * 0, there * 0 + 1) for most in (8, 36)]
    calls = [("drawn", one, some, keys, most, 0.5) for one, some, most in cases]
    for (one, some, most), (numbers, mask) in zip(cases, computed(framework, calls), strict=True):
        by_key = [int(number) for number in numpy.argsort(-keys) if some[number]]
        ahead = [number for number in by_key if one[number] >= 0.5][: most // 4]
        behind = [number for number in by_key if one[number] < 0.5][: most - len(ahead)]
        assert sorted(numbers[mask > 0]) == sorted(ahead + behind)
        assert len(set(numbers.tolist())) == len(numbers) == most


def bins(plane, region, side):
    """RoIAlign by a plain loop over bins, points and places."""
    channels, height, width = plane.shape
    left, top, right, bottom = (edge / boxes.STRIDE for edge in region)
    found, weights = numpy.zeros((channels, side, side)), numpy.zeros((side, side, height, width))
    for i in range(side):
        for j in range(side):
            for a in range(2):
                for b in range(2):
                    y = top + (bottom - top) * (i + (a + 0.5) / 2) / side - 0.5
                    x = left + (right - left) * (j + (b + 0.5) / 2) / side - 0.5
                    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
                    for row in range(height):
                        for column in range(width):
                            part = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column)) / 4
                            weights[i, j, row, column] += part
                            found[:, i, j] += part * plane[:, row, column]
    return found, weights


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 1, 4), (2, 3, 1)], ids=str)
def test_the_bins_of_a_region_and_their_gradient_are_those_of_a_plain_loop(computed, framework, shape):
    plane = GENERATOR.standard_normal(shape).astype("float32")
    height, width = shape[1] * boxes.STRIDE, shape[2] * boxes.STRIDE
    # Inside, all of it, an equal one, empty ones, partly and wholly outside.
    regions = [(3, 4, 50, 30), (0, 0, width, height), (3, 4, 50, 30), (9, 9, 9, 9), (0, 0, 0, 0)]
    regions += [(-40, -8, 30, 20), (width + 5, 0, width + 60, 40), (20, height - 3, 22, height + 90)]
    given = numpy.array(regions, "float32")
    factors = GENERATOR.standard_normal((len(regions), shape[0], 4, 4)).astype("float32")
    (found,), (gradient,) = computed(framework, [("align", plane, given, 4), ("gradient", plane, given, 4, factors)])
    wanted = [bins(plane, region, 4) for region in given]
    assert found == pytest.approx(numpy.stack([one for one, _ in wanted]), abs=1e-5)
    by_place = sum(
        numpy.einsum("cij,ijhw->chw", some, weights) for some, (_, weights) in zip(factors, wanted, strict=True)
    )
    assert gradient == pytest.approx(by_place, abs=1e-4)
