"""How well a network finds objects and their masks on images: COCO's average precision, in numpy.

Of boxes of one class that share much the likeliest stays (``mean_average_precision.found``), and the network is asked
for the masks of those 100 that are left. Going down from the likeliest of a class, one is right if it shares enough
with an annotated one that is not found yet, and takes that with which it shares most; what is annotated as a crowd
counts neither way, and may take many. Precision at a recall is the best at that recall or beyond; its mean over
101 recalls, over ten shares from 0.5 to 0.95, and over the classes is the average precision: of masks, and beside it of
boxes.

Source: Lin et al., "Microsoft COCO", 2014, and cocodataset.org, "Detection evaluation"; equal to pycocotools' COCOeval,
whose pixels masks have (``suites.datasets.coco.index``). Masks are resized and cut at one half, and 100 are asked for,
as in He et al., "Mask R-CNN", 2017, section 3.1.

Dimensions: N images, B boxes, D detections, G annotated ones, T shares.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from suites.datasets.coco import loading
from suites.datasets.coco.layout import Outlined
from suites.quality import Examples
from suites.quality.mean_average_precision import Found, found
from workers.trainer.base.signatures import Array

# Of what is told of an image, boxes that share more are one (torchvision's; the paper's code).
MOST_SHARED = 0.5


class Judged(NamedTuple):
    """What of one class was found on one image, the likeliest first: how likely (D), whether it is right at each share
    (T, D), whether it counts at all (T, D); and how many were to be found."""

    likely: Array
    right: Array
    counts: Array
    wanted: int


# {class: what was judged of it, image after image}, of masks and of boxes.
Before = Dict[str, Dict[int, List[Judged]]]


class Truths(NamedTuple):
    """What an evaluation judges by: ``images`` of this batch; ``scales``: by what their pixels became the network's;
    ``before``: what was judged of the batches before, to which this one's is added; ``is_last``: of all."""

    images: Sequence[Outlined]
    scales: Sequence[float]
    before: Before
    is_last: bool


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {"n", "masks", "boxes", "classes"}: images, average precisions of all classes added up, and how many these
    are. Precision is of all images together: only the last batch tells it."""
    truths, extents_N2 = examples.references, examples.inputs[1]  # type: Any, Array
    told = []
    for number, scale in enumerate(truths.scales):
        logits_RK, shifts_RK4, regions_R4, learnt_R6 = (output[number] for output in outputs[:4])
        place = learnt_R6[:, 0], extents_N2[number], scale
        told.append(found(logits_RK, shifts_RK4, regions_R4, *place, most_shared=MOST_SHARED))
    masks_NBSS = _masks(told, examples, compute)
    for number, image in enumerate(truths.images):
        judge(image, told[number], masks_NBSS[number], truths.before)
    counted = {"n": float(len(truths.images)), "masks": 0.0, "boxes": 0.0, "classes": 0.0}
    if truths.is_last:
        for kind in ("masks", "boxes"):
            precisions = average_precisions(truths.before.get(kind, {}))
            counted.update({kind: sum(precisions.values()), "classes": float(len(precisions))})
    return counted


def value(sums: Mapping[str, float]) -> float:
    return sums["masks"] / sums["classes"] if sums["classes"] else 0.0


def _masks(told, examples, compute):
    """Return what the network tells of the masks of boxes that it found."""
    import numpy

    images, extents, boxes_NB4, kinds_NB, keys = examples.inputs
    boxes_NB4, kinds_NB = numpy.zeros_like(boxes_NB4), numpy.zeros_like(kinds_NB)
    for number, (some, scale) in enumerate(zip(told, examples.references.scales)):
        for place, one in enumerate(some):
            boxes_NB4[number, place], kinds_NB[number, place] = one.corners * scale, one.kind
    return compute((images, extents, boxes_NB4, kinds_NB, keys))[6]


def judge(image: Outlined, told: Sequence[Found], masks_BSS: Sequence[Array], before: Before) -> None:
    """Add what was found on an image to what was judged ``before``; ``masks``: the logits of each mask within its
    box."""
    import numpy

    sides = image.height, image.width
    pasted = [pasted_mask(logits_SS, one.corners, *sides) for one, logits_SS in zip(told, masks_BSS)]
    wanted = [loading.mask(runs, *sides) for runs in image.outlines]
    kinds_D, kinds_G = (numpy.array([one.kind for one in some], int) for some in (told, image.boxes))
    crowd_G = numpy.array([one.difficult for one in image.boxes], bool)
    corners_D4, corners_G4 = (numpy.array([one.corners for one in some]).reshape(-1, 4) for some in (told, image.boxes))
    likely_D = numpy.array([one.likely for one in told])
    for kind in sorted(set(kinds_D) | set(kinds_G)):
        some, those = numpy.flatnonzero(kinds_D == kind), numpy.flatnonzero(kinds_G == kind)
        of_masks = mask_shares([pasted[at] for at in some], [wanted[at] for at in those], crowd_G[those])
        of_boxes = _box_shares(corners_D4[some], corners_G4[those], crowd_G[those])
        for name, shares_DG in (("masks", of_masks), ("boxes", of_boxes)):
            right_TD, counts_TD = matched(shares_DG, crowd_G[those])
            one = Judged(likely_D[some], right_TD, counts_TD, int((~crowd_G[those]).sum()))
            before.setdefault(name, {}).setdefault(int(kind), []).append(one)


def pasted_mask(logits_SS: Array, corners: Sequence[float], height: int, width: int) -> Array:
    """Return (H, W) of bool: a mask of a box, resized bilinearly over it, where it is likelier than not."""
    import numpy

    found_HW = numpy.zeros((height, width), bool)
    side = len(logits_SS)
    axes = []
    for low, high, count in ((corners[1], corners[3], height), (corners[0], corners[2], width)):
        pixels = numpy.arange(max(0, int(numpy.floor(low))), min(count, int(numpy.ceil(high))))
        # Of pixels whose middle is within.
        pixels = pixels[(pixels + 0.5 >= low) & (pixels + 0.5 < high)]
        at = numpy.clip((pixels + 0.5 - low) / max(high - low, 1e-6) * side - 0.5, 0.0, side - 1.0)
        before = numpy.minimum(at.astype(int), side - 2)
        axes.append((pixels, before, at - before))
    (rows, above, down), (columns, left, across) = axes
    likely_SS = 1.0 / (1.0 + numpy.exp(-numpy.clip(logits_SS.astype(float), -80.0, 80.0)))
    by_rows = likely_SS[above] * (1.0 - down)[:, None] + likely_SS[above + 1] * down[:, None]
    found = by_rows[:, left] * (1.0 - across) + by_rows[:, left + 1] * across
    found_HW[rows[:, None], columns] = found >= 0.5
    return found_HW


def mask_shares(told: Sequence[Array], wanted: Sequence[Array], crowd_G: Array) -> Array:
    """Return (D, G) in double precision, as pycocotools has it: 13 pixels of 20 share 0.65, and not a bit less."""
    import numpy

    shapes = len(told), len(wanted)
    if not all(shapes):
        return numpy.zeros(shapes)
    told_DP, wanted_GP = (numpy.stack(some).reshape(len(some), -1).astype(numpy.float32) for some in (told, wanted))
    both_DG = (told_DP @ wanted_GP.T).astype(numpy.float64)  # counts, which single precision holds exactly
    return _shares(both_DG, told_DP.sum(axis=1), wanted_GP.sum(axis=1), crowd_G)


def _box_shares(told_D4, wanted_G4, crowd_G):
    import numpy

    low = numpy.maximum(told_D4[:, None, :2], wanted_G4[None, :, :2])
    high = numpy.minimum(told_D4[:, None, 2:], wanted_G4[None, :, 2:])
    areas = ((one[:, 2:] - one[:, :2]).prod(axis=1) for one in (told_D4, wanted_G4))
    return _shares(numpy.maximum(high - low, 0.0).prod(axis=2), *areas, crowd_G)


def _shares(both_DG, told_D, wanted_G, crowd_G):
    """Of a crowd what is found need only be part."""
    import numpy

    all_DG = told_D[:, None] + numpy.where(crowd_G, 0.0, wanted_G - both_DG)
    return both_DG / numpy.maximum(all_DG, 1e-9)


def matched(shares_DG: Array, crowd_G: Array) -> Tuple[Array, Array]:
    """Return for what was found, the likeliest first, whether it is right and whether it counts, (T, D) each."""
    import numpy

    least_T, count = numpy.linspace(0.5, 0.95, 10), len(shares_DG)
    right_TD, counts_TD = numpy.zeros((len(least_T), count), bool), numpy.ones((len(least_T), count), bool)
    for row, least in enumerate(least_T):
        taken_G = numpy.zeros(len(crowd_G), bool)
        for at, shares_G in enumerate(shares_DG):
            # One that counts comes before any crowd; of equal ones the last is taken.
            for some in (~crowd_G & ~taken_G, crowd_G):
                open_G = numpy.where(some, shares_G, -1.0)
                best = len(open_G) - 1 - int(open_G[::-1].argmax()) if len(open_G) else -1
                if best >= 0 and open_G[best] >= min(least, 1 - 1e-10):
                    right_TD[row, at], counts_TD[row, at] = not crowd_G[best], not crowd_G[best]
                    taken_G[best] = True
                    break
    return right_TD, counts_TD


def average_precisions(judged: Mapping[int, Sequence[Judged]]) -> Dict[int, float]:
    """Return {class: average precision} of those classes of which there is something to be found."""
    precisions = {}
    for kind, some in sorted(judged.items()):
        wanted = sum(one.wanted for one in some)
        if wanted:
            precisions[kind] = _precision(some, wanted)
    return precisions


def _precision(some, wanted):
    import numpy

    order = numpy.argsort(-numpy.concatenate([one.likely for one in some]), kind="mergesort")
    right_TD, counts_TD = (
        numpy.concatenate([getattr(one, name) for one in some], axis=1)[:, order] for name in ("right", "counts")
    )
    found = []
    for right_D, counts_D in zip(right_TD, counts_TD):
        hits, misses = numpy.cumsum(right_D & counts_D), numpy.cumsum(~right_D & counts_D)
        precision = hits / numpy.maximum(hits + misses, numpy.spacing(1.0))
        best = numpy.maximum.accumulate(precision[::-1])[::-1]
        at = numpy.searchsorted(hits / float(wanted), numpy.linspace(0.0, 1.0, 101), side="left")
        found.append(numpy.concatenate([best, [0.0]])[numpy.minimum(at, len(best))].mean())
    return float(numpy.mean(found))
