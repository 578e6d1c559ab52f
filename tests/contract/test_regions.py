"""What a detector does with regions, in every framework, against plain loops: which boxes stay, which are proposed and
drawn (as whole numbers), and what a region's bins are, with their gradient. One process of each computes all cases."""

import math
import os
import subprocess
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy
import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.assemble import boxes
from suites.inputs.images import POOL
from tests.trainer_process import ROOT, environment_for, make_job, run

SCRIPT = Path(__file__).parent / "scripts" / "regions.py"
LONG = {"tensorflow": [pytest.mark.after_change]}
FRAMEWORKS, PYRAMIDS = (
    [
        pytest.param(name, marks=[pytest.mark.framework(name), *LONG.get(name, [])])
        for name in load_catalog().models[model].frameworks
    ]
    for model in ("faster-rcnn", "mask-rcnn")
)
GENERATOR = numpy.random.RandomState(1)


def some_boxes(count, side=100.0):
    corners = GENERATOR.uniform(0, side, (count, 2))
    return numpy.concatenate([corners, corners + GENERATOR.uniform(0, side / 2, (count, 2))], axis=1).astype("float32")


# Equal ones; empty ones, which share nothing; beyond a block, many of which go; some that are none; none at all.
MANY = [
    (numpy.array([[0, 0, 10, 10]] * 5, "float32"), [1] * 5),
    (numpy.array([[5, 5, 5, 5], [0, 0, 10, 10], [5, 5, 5, 5], [3, 3, 3, 9]], "float32"), [1] * 4),
    (some_boxes(1300), [1] * 1300),
    (some_boxes(600), [number % 3 > 0 for number in range(600)]),
    (some_boxes(20), [0] * 20),
]
SCORES = GENERATOR.permutation(300).astype("float32")
SCORED = some_boxes(300)
SCORED[:20, 2] = SCORED[:20, 0] + 0.9  # less than a pixel wide
KEYS = GENERATOR.permutation(40).astype("float32")
SHARED = [GENERATOR.uniform(0, 1, 40).astype("float32"), numpy.zeros(40, "float32"), numpy.ones(40, "float32")]
THERE = (GENERATOR.uniform(0, 1, 40) < 0.8).astype("float32")
PLANES = [GENERATOR.standard_normal(shape).astype("float32") for shape in ((3, 5, 7), (2, 1, 4), (2, 3, 1))]
SIDE = 4


# Of a pyramid with a place every 4, 8 and 16 pixels; squares of 7, 8, 15, 16 and 31 pixels, where one of 16 is looked
# up in the third map, and others.
PYRAMID = [GENERATOR.standard_normal((2, 24 >> level, 32 >> level)).astype("float32") for level in range(3)]
LEVELED = [(5, 6, 5 + side, 6 + side) for side in (7, 8, 15, 16, 31)] + [(0, 0, 128, 96), (9, 9, 9, 9), (60, 3, 64, 90)]
LEVELED = numpy.array(LEVELED, "float32")
# Masks whose places have different numbers, and parts of a box: it, a corner, around it, beside it, an empty one.
MASKS = numpy.arange(2 * 12 * 12, dtype="float32").reshape(2, 12, 12) + 1
PARTS = [(0, 0, 1, 1), (0.5, 0.5, 1, 1), (-0.4, -0.25, 1.5, 1.25), (2, 0, 3, 1), (0.3, 0.3, 0.3, 0.3)]
PARTS = numpy.array(PARTS, "float32")


def regions_of(plane):
    """Inside, all of it, an equal one, empty ones, partly and wholly outside."""
    height, width = (count * boxes.STRIDE for count in plane.shape[1:])
    found = [(3, 4, 50, 30), (0, 0, width, height), (3, 4, 50, 30), (9, 9, 9, 9), (0, 0, 0, 0)]
    found += [(-40, -8, 30, 20), (width + 5, 0, width + 60, 40), (20, height - 3, 22, height + 90)]
    return numpy.array(found, "float32")


def factors_of(plane):
    return numpy.random.RandomState(2).standard_normal((8, plane.shape[0], SIDE, SIDE)).astype("float32")


# Operator -> its arguments in each case.
CASES = {
    "kept": [(some, numpy.array(there, bool), *rest) for some, there in MANY for rest in ((2000, 0.7), (50, 0.3))],
    "proposals": [
        (SCORES[: len(some)], some, best, most, 0.5)
        for some, best, most in ((SCORED, 100, 10), (SCORED, 280, 300), (SCORED[:20], 15, 10))
    ],
    "leveled": [(SCORES, SCORED, best, most, 0.5, numpy.array([40, 200, 60])) for best, most in ((30, 20), (300, 250))],
    "drawn": [
        (shared, there, KEYS, most, 0.5)
        for shared in SHARED
        for there in (THERE, THERE * 0, THERE * 0 + 1)
        for most in (8, 36)
    ],
    "align": [(plane, regions_of(plane), SIDE) for plane in PLANES],
    "gradient": [(plane, regions_of(plane), SIDE, factors_of(plane)) for plane in PLANES],
    "align_levels": [(*PYRAMID, LEVELED, SIDE, 4, 16.0)],
    "cut": [(MASKS, numpy.array([0, 1, 1, 0, 1]), PARTS, side) for side in (4, 12)],
}
# What only networks with a pyramid and masks do; which operator it is.
OF_PYRAMIDS = {"leveled": "proposals", "align_levels": "align_levels", "cut": "cut"}


@pytest.fixture(scope="module")
def computed(python_of, tmp_path_factory):
    @cache
    def compute(framework):
        """{operator: what a framework gives in each of its cases, a list of arrays}."""
        folder, python = tmp_path_factory.mktemp(framework), python_of(framework)
        has_pyramids = framework in load_catalog().models["mask-rcnn"].frameworks
        names = [name for name in CASES if has_pyramids or name not in OF_PYRAMIDS]
        calls = [(name, case) for name in names for case in CASES[name]]
        given = {
            f"{number}.{OF_PYRAMIDS.get(name, name)}.{place}": numpy.asarray(one)
            for number, (name, case) in enumerate(calls)
            for place, one in enumerate(case)
        }
        numpy.savez(folder / "calls.npz", **given)
        command = [python, str(SCRIPT), framework, str(folder / "calls.npz"), str(folder / "found.npz")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)}
        subprocess.run(command, env=environment, check=True, cwd=folder)
        found = {name: [] for name in CASES}
        with numpy.load(folder / "found.npz") as arrays:
            for number, (name, _) in enumerate(calls):
                found[name].append([arrays[key] for key in arrays if key.startswith(f"{number}.")])
        return found

    return compute


def overlap(one, other):
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    both = (one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1]) - width * height
    return width * height / both if both > 0 else 0.0


def stays(corners, there, most, most_overlap):
    found = []
    for number, box in enumerate(corners.tolist()):
        if there[number] and all(overlap(box, corners[other]) <= most_overlap for other in found):
            found.append(number)
    return found[:most]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_those_stay_that_a_plain_loop_keeps(computed, framework):
    for case, (found,) in zip(CASES["kept"], computed(framework)["kept"], strict=True):
        assert found.tolist() == stays(*case)


def test_the_same_stay_in_numpy():
    for corners, there, most, shared in CASES["kept"]:
        some = corners[there]
        assert boxes.kept(some, shared)[:most] == stays(some, [1] * len(some), most, shared)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_proposals_are_the_best_that_stay_in_the_order_of_their_numbers(computed, framework):
    for case, (numbers, mask) in zip(CASES["proposals"], computed(framework)["proposals"], strict=True):
        scores, corners, best, most, shared = case
        wide = [number for number, box in enumerate(corners) if min(box[2:] - box[:2]) >= 1]
        order = sorted(wide, key=lambda number: -scores[number])[:best]
        wanted = sorted(order[place] for place in stays(corners[order], [1] * len(order), most, shared))
        assert numbers[mask > 0].tolist() == wanted
        assert mask.tolist() == [1] * len(wanted) + [0] * (most - len(wanted))
        assert (numbers < len(corners)).all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_quarter_is_drawn_of_those_that_hit_and_the_rest_of_those_that_do_not(computed, framework):
    for case, (numbers, mask) in zip(CASES["drawn"], computed(framework)["drawn"], strict=True):
        shared, there, keys, most, half = case
        by_key = [int(number) for number in numpy.argsort(-keys) if there[number]]
        ahead = [number for number in by_key if shared[number] >= half][: most // 4]
        behind = [number for number in by_key if shared[number] < half][: most - len(ahead)]
        assert sorted(numbers[mask > 0]) == sorted(ahead + behind)
        assert len(set(numbers.tolist())) == len(numbers) == most


@pytest.mark.parametrize("framework", PYRAMIDS)
def test_of_each_map_of_a_pyramid_its_own_are_proposed_and_then_the_best_of_all(computed, framework):
    for case, (numbers, mask) in zip(CASES["leveled"], computed(framework)["leveled"], strict=True):
        scores, corners, best, most, shared, counts = case
        found, begin = [], 0
        for count in counts:
            wide = [at for at in range(begin, begin + count) if min(corners[at][2:] - corners[at][:2]) >= 1]
            order = sorted(wide, key=lambda number: -scores[number])[:best]
            found += [order[place] for place in stays(corners[order], [1] * len(order), most, shared)]
            begin += count
        assert numbers[mask > 0].tolist() == sorted(sorted(found, key=lambda number: -scores[number])[:most])


@pytest.mark.parametrize("framework", PYRAMIDS)
def test_a_region_is_looked_up_in_the_map_that_is_its_own(computed, framework):
    ((found,),) = computed(framework)["align_levels"]
    for region, aligned in zip(LEVELED, found, strict=True):
        side = max(1e-6, float(numpy.prod(region[2:] - region[:2]))) ** 0.5
        level = min(2, max(0, math.floor(2 + math.log2(side / 16))))
        assert aligned == pytest.approx(bins(PYRAMID[level], region, SIDE, 4 << level)[0], abs=1e-5)


@pytest.mark.parametrize("framework", PYRAMIDS)
def test_a_region_holds_of_a_mask_what_is_below_the_middles_of_its_bins(computed, framework):
    for (masks, which, parts, side), (found,) in zip(CASES["cut"], computed(framework)["cut"], strict=True):
        for number, i, j in numpy.ndindex(len(parts), side, side):
            left, top, right, bottom = (Fraction(float(one)) for one in parts[number])
            down, across = (Fraction(2 * at + 1, 2 * side) for at in (i, j))
            y, x = top + (bottom - top) * down, left + (right - left) * across
            inside = 0 <= y < 1 and 0 <= x < 1
            assert found[number, i, j] == (masks[which[number], int(y * 12), int(x * 12)] if inside else 0)


def bins(plane, region, side, stride=boxes.STRIDE):
    """RoIAlign by a plain loop over bins, points and places; also the part of each place in each bin."""
    channels, height, width = plane.shape
    left, top, right, bottom = (edge / stride for edge in region)
    found, parts = numpy.zeros((channels, side, side)), numpy.zeros((side, side, height, width))
    for i, j, a, b in numpy.ndindex(side, side, 2, 2):
        y = top + (bottom - top) * (i + (a + 0.5) / 2) / side - 0.5
        x = left + (right - left) * (j + (b + 0.5) / 2) / side - 0.5
        y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
        for row, column in numpy.ndindex(height, width):
            part = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column)) / 4
            parts[i, j, row, column] += part
            found[:, i, j] += part * plane[:, row, column]
    return found, parts


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_bins_of_a_region_and_their_gradient_are_those_of_a_plain_loop(computed, framework):
    found = computed(framework)
    for plane, (aligned,), (gradient,) in zip(PLANES, found["align"], found["gradient"], strict=True):
        wanted = [bins(plane, region, SIDE) for region in regions_of(plane)]
        assert aligned == pytest.approx(numpy.stack([one for one, _ in wanted]), abs=1e-5)
        pairs = zip(factors_of(plane), (parts for _, parts in wanted), strict=True)
        by_place = sum(numpy.einsum("cij,ijhw->chw", *pair) for pair in pairs)
        assert gradient == pytest.approx(by_place, abs=1e-4)


_BOUND = """
import sys
from mxnet import ndarray
made = ndarray.CachedOp
def told(*given):
    print("a graph is bound", file=sys.stderr, flush=True)
    return made(*given)
ndarray.CachedOp = told
"""


@pytest.mark.framework("mxnet")
def test_lying_and_upright_images_are_bound_once_each_however_often_they_come(python_of, tmp_path):
    job = make_job("faster_rcnn", "mxnet", max_steps=2 * POOL + 2)
    (trainer,) = run(job, tmp_path, python_of("mxnet"), planted=[_BOUND])
    assert trainer.popen.returncode == 0, trainer.output
    assert trainer.output.count("a graph is bound") == 2
