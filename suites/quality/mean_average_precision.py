"""How well a network finds what is on images: VOC 2007's mean average precision, in numpy.

Of each region the network tells how likely each class is, and by what the region becomes a box of that class. Of boxes
of one class that share much the likeliest stays. Going down from the likeliest of all images, each is right if it
shares half or more with a box of that class that is annotated and not found yet. Precision is the share of the right
ones among those so far, recall that of the annotated ones that were found. The average precision of a class is the mean
over eleven recalls, 0, 0.1 … 1, of the best precision at that recall or beyond. What is difficult counts neither way.

Source: Everingham et al., "The Pascal Visual Object Classes (VOC) Challenge", 2010, section 4.2, and VOCevaldet.m of
the development kit of 2007, which counts pixels, the last one too: areas are the same. What stays is decided by the
numbers of Ren et al., "Faster R-CNN", 2015, in its code (fast_rcnn/test.py, config.py).

Dimensions: N images, R regions, K classes with 0 for none, B boxes.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from suites.assemble import boxes
from suites.datasets.pascal_voc.layout import CLASSES, Annotated
from suites.quality import Examples
from workers.trainer.base.signatures import Array

# Of what is told of an image: less likely ones are left out, those that share more are one, so many stay.
LEAST_LIKELY, MOST_SHARED, MOST = 0.05, 0.3, 100
# What a box has to share with an annotated one.
HALF = 0.5
# By what moves of regions are divided where they are learnt, to have a deviation of about 1: Ren et al.'s code.
DEVIATIONS = (0.1, 0.1, 0.2, 0.2)


class Found(NamedTuple):
    """A box that a network tells: the number of its class, how likely it is, and its edges in the image's pixels."""

    kind: int
    likely: float
    corners: Array


class Truths(NamedTuple):
    """What an evaluation judges by: ``images`` of this batch; ``scales``: by what their pixels became the network's;
    ``before``: what was found on those of the batches before, to which this one's is added; ``is_last``: of all."""

    images: Sequence[Annotated]
    scales: Sequence[float]
    before: List[Tuple[Annotated, List[Found]]]
    is_last: bool


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {"n", "precision", "classes"}: images, average precisions of all classes added up, and how many these are.

    Of a network's outputs (``suites/models/faster_rcnn``) the first four are read; of the fourth, what is learnt of a
    region, whether it counts. Precision is of all images together: only the last batch tells it, and
    ``examples.references`` (``Truths``) hands on what was found before.
    """
    truths, extents_N2 = examples.references, examples.inputs[1]  # type: Any, Array
    for number, image in enumerate(truths.images):
        logits_RK, shifts_RK4, regions_R4, learnt_R6 = (output[number] for output in outputs[:4])
        place = learnt_R6[:, 0], extents_N2[number], truths.scales[number]
        truths.before.append((image, found(logits_RK, shifts_RK4, regions_R4, *place)))
    counted = {"n": float(len(truths.images)), "precision": 0.0, "classes": 0.0}
    if truths.is_last:
        precisions = average_precisions(truths.before)
        counted.update(precision=sum(precisions.values()), classes=float(len(precisions)))
    return counted


def value(sums: Mapping[str, float]) -> float:
    return sums["precision"] / sums["classes"] if sums["classes"] else 0.0


def found(
    logits_RK: Array,
    shifts_RK4: Array,
    regions_R4: Array,
    used_R: Array,
    extent_2: Array,
    scale: float,
    most_shared: float = MOST_SHARED,
) -> List[Found]:
    """Return what a network tells of an image, where boxes that share more than ``most_shared`` are one; a network that
    gives what is no number tells nothing."""
    import numpy

    if not (numpy.isfinite(logits_RK).all() and numpy.isfinite(shifts_RK4).all()):
        return []
    likely_RK = numpy.exp(logits_RK - logits_RK.max(axis=1, keepdims=True).astype(float))
    likely_RK /= likely_RK.sum(axis=1, keepdims=True)
    told = []  # type: List[Found]
    for kind in range(1, logits_RK.shape[1]):
        some = numpy.flatnonzero((likely_RK[:, kind] > LEAST_LIKELY) & (used_R > 0))
        some = some[numpy.argsort(-likely_RK[some, kind], kind="mergesort")]
        moved_R4 = boxes.moved(regions_R4[some].astype(float), shifts_RK4[some, kind] * numpy.array(DEVIATIONS))
        corners_R4 = boxes.clipped(moved_R4, extent_2)
        stay = boxes.kept(corners_R4, most_shared)
        told += [Found(kind, float(likely_RK[some[one], kind]), corners_R4[one] / scale) for one in stay]
    return sorted(told, key=lambda one: -one.likely)[:MOST]


def average_precisions(images: Sequence[Tuple[Annotated, Sequence[Found]]]) -> Dict[str, float]:
    """Return {class: average precision} of those classes of which there is something to be found."""
    precisions = {}
    for kind, name in enumerate(CLASSES, start=1):
        wanted = [[box for box in image.boxes if box.kind == kind] for image, _ in images]
        count = sum(not box.difficult for some in wanted for box in some)
        if count:
            told = [(one, at) for at, (_, some) in enumerate(images) for one in some if one.kind == kind]
            precisions[name] = eleven_points(_judged(told, wanted), count)
    return precisions


def _judged(told, wanted):
    """Return for what is told, the likeliest first, whether it is right; without what counts neither way."""
    import numpy

    corners = [numpy.array([box.corners for box in some], float).reshape(-1, 4) for some in wanted]
    taken = [set() for _ in wanted]
    right = []
    for one, at in sorted(told, key=lambda pair: -pair[0].likely):
        shared_B = boxes.overlaps(one.corners[None], corners[at])[0]
        best = int(shared_B.argmax()) if len(shared_B) else None
        if best is None or shared_B[best] < HALF:
            right.append(False)
        elif not wanted[at][best].difficult:
            right.append(best not in taken[at])
            taken[at].add(best)
    return right


def eleven_points(right: Sequence[bool], count: int) -> float:
    """Return the average precision of what is told, the likeliest first, where ``count`` were to be found."""
    import numpy

    hits = numpy.cumsum(numpy.array(right, float))
    precisions = hits / numpy.arange(1, len(hits) + 1)
    # As whole numbers: three of ten have reached the recall 0.3.
    reached = [precisions[hits * 10 >= tenth * count] for tenth in range(11)]
    return float(sum(one.max() if len(one) else 0.0 for one in reached) / 11.0)
