"""VOC 2007's mean average precision: cases that can be counted by hand, and what a network's numbers tell."""

import math

import numpy
import pytest

from suites.datasets.pascal_voc.layout import Annotated, Box
from suites.quality import Examples
from suites.quality import mean_average_precision as metric

HERE, NEAR, HALF, APART = (0, 0, 10, 10), (0, 0, 10, 9), (0, 0, 10, 5), (50, 50, 60, 60)
CAT, DOG = 8, 12


def image(*corners, kind=CAT, difficult=()):
    return Annotated("it.jpg", 100, 100, tuple(Box(kind, one, one in difficult) for one in corners))


def told(likely, corners, kind=CAT):
    return metric.Found(kind, likely, numpy.array(corners, float))


# Name: (images with what is told of each, average precision of cats).
CASES = {
    "all is found": ([(image(HERE), [told(0.9, NEAR)])], 1.0),
    "nothing is told": ([(image(HERE), [])], 0.0),
    "half of the area is enough": ([(image(HERE), [told(0.9, HALF)])], 1.0),
    "less is not": ([(image(HERE), [told(0.9, (0, 0, 10, 4.9))])], 0.0),
    "one of two: recalls up to a half": ([(image(HERE, APART), [told(0.9, HERE)])], 6 / 11),
    "what is wrong and likelier": ([(image(HERE), [told(0.9, APART), told(0.8, HERE)])], 0.5),
    "what is wrong and less likely": ([(image(HERE), [told(0.8, APART), told(0.9, HERE)])], 1.0),
    "the same twice": (
        [(image(HERE, APART), [told(0.9, HERE), told(0.8, NEAR), told(0.7, APART)])],
        (6 + 5 * 2 / 3) / 11,
    ),
    "the likeliest box of another image": (
        [(image(HERE), []), (image(APART), [told(0.9, HERE), told(0.8, APART)])],
        3 / 11,
    ),
    "what is difficult counts neither way": (
        [(image(HERE, APART, difficult=[APART]), [told(0.9, APART), told(0.8, HERE)])],
        1.0,
    ),
    "nor where it is not told": ([(image(HERE, APART, difficult=[APART]), [told(0.8, HERE)])], 1.0),
    "another class is no cat": ([(image(HERE), [told(0.9, HERE, DOG)])], 0.0),
    "three of ten reach the recall 0.3": (
        [(image(HERE), [told(0.9, HERE)])] * 3 + [(image(HERE), [])] * 7,
        4 / 11,
    ),
}


@pytest.mark.parametrize(("images", "wanted"), CASES.values(), ids=CASES)
def test_the_average_precision_of_a_class_is_that_counted_by_hand(images, wanted):
    assert metric.average_precisions(images) == {"cat": pytest.approx(wanted)}


def test_a_class_of_which_nothing_is_to_be_found_has_none():
    assert metric.average_precisions([(image(HERE, difficult=[HERE]), [told(0.9, HERE)])]) == {}
    assert metric.value({"precision": 0.0, "classes": 0.0, "n": 3.0}) == 0.0


REGIONS = numpy.array([[0, 0, 20, 20], [0, 0, 20, 18], [100, 100, 120, 120], [40, 40, 60, 60]], numpy.float32)


def numbers(likely, shifts=()):
    """(logits, shifts) of the regions, of cats: the likelihoods, and by what the regions become boxes."""
    logits = numpy.full((len(likely), 21), -30.0, numpy.float32)
    logits[:, 0] = 0.0
    logits[:, CAT] = [math.log(one / (1 - one)) for one in likely]
    moves = numpy.zeros((len(likely), 21, 4), numpy.float32)
    for row, move in shifts:
        moves[row, CAT] = move
    return logits, moves


def test_regions_become_boxes_of_which_the_likeliest_of_each_place_stays_in_the_images_own_pixels():
    logits, shifts = numbers([0.8, 0.9, 0.04, 0.6], [(3, (5.0, 0.0, 5 * math.log(2), 0.0))])
    found = metric.found(logits, shifts, REGIONS, numpy.ones(4), numpy.array([100, 80]), scale=2.0)
    assert [(one.kind, round(one.likely, 4)) for one in found] == [(CAT, 0.9), (CAT, 0.6)]
    assert found[0].corners == pytest.approx([0, 0, 10, 9])
    assert found[1].corners == pytest.approx([20, 20, 40, 30])  # half a width on, twice as wide
    assert (
        metric.found(logits, shifts, REGIONS, numpy.array([1, 0, 1, 0]), numpy.array([100, 80]), 2.0)[0].likely < 0.81
    )


def test_a_network_that_gives_what_is_no_number_tells_nothing():
    logits, shifts = numbers([0.8, 0.9, 0.04, 0.6])
    logits[2, 3] = math.nan
    assert metric.found(logits, shifts, REGIONS, numpy.ones(4), numpy.array([100, 80]), 1.0) == []


def test_the_last_batch_tells_the_precision_of_all_images_whatever_the_batches_are():
    logits, shifts = numbers([0.8, 0.9, 0.04, 0.6])
    images = [image((0, 0, 20, 18)), image((40, 40, 60, 60)), image((70, 70, 80, 80))]
    values = []
    for parts in ([images], [images[:1], images[1:]], [[one] for one in images]):
        before, totals = [], {}
        for number, part in enumerate(parts, 1):
            outputs = [numpy.stack([one] * len(part)) for one in (logits, shifts, REGIONS, numpy.ones((4, 6)))]
            extents = numpy.full((len(part), 2), 200.0)
            truths = metric.Truths(part, [1.0] * len(part), before, number == len(parts))
            for name, amount in metric.sums(outputs, Examples((None, extents), (), truths), None).items():
                totals[name] = totals.get(name, 0.0) + amount
        assert (totals["n"], totals["classes"]) == (3.0, 1.0)
        values.append(metric.value(totals))
    assert values[0] == pytest.approx((4 + 3 * 2 / 5) / 11)
    assert values == [values[0]] * 3
