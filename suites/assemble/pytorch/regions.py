"""What detectors of two stages do with regions, in PyTorch; a box is (left, top, right, bottom) in pixels.

Shapes: A anchors, B boxes, R regions, C channels, H height and W width of a map, S side of what a region becomes.
"""

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.nn import functional

from suites.assemble import boxes
from suites.assemble.pytorch.layers import single
from workers.trainer.base.signatures import Array

# Points of each bin along each axis (He et al., "Mask R-CNN", 2017, section 3: four in all).
POINTS = 2
# Boxes of which those that stay are found at once.
_BLOCK = 512
# In single precision whole numbers up to twice this are exact.
_ABOVE = 2.0**23
_LEAST = 1e-6


class Anchors(object):
    """Gives the anchors of images of so many pixels, a tensor for each map, on the device of ``like``; ``made``: gives
    arrays of them."""

    def __init__(self, made: Callable[[Tuple[int, ...]], Sequence[Array]]) -> None:
        self._made = made
        self._kept: Dict[Any, List[Tensor]] = {}

    def __call__(self, pixels: Tuple[int, ...], like: Tensor) -> List[Tensor]:
        key = (pixels, like.dtype, like.device)
        if key not in self._kept:
            self._kept[key] = [torch.from_numpy(one).to(like) for one in self._made(pixels)]
        return self._kept[key]


def overlaps(ones_A4: Tensor, others_B4: Tensor) -> Tensor:
    """See ``suites.assemble.boxes``."""
    low = torch.maximum(ones_A4[:, None, :2], others_B4[None, :, :2])
    high = torch.minimum(ones_A4[:, None, 2:], others_B4[None, :, 2:])
    shared_AB = (high - low).clamp(min=0.0).prod(dim=2)
    areas_A, areas_B = ((one[:, 2:] - one[:, :2]).prod(dim=1) for one in (ones_A4, others_B4))
    return shared_AB / (areas_A[:, None] + areas_B - shared_AB).clamp(min=_LEAST)


def shifts(boxes_A4: Tensor, references_A4: Tensor) -> Tensor:
    """See ``suites.assemble.boxes``."""
    sides, before = ((one[:, 2:] - one[:, :2]).clamp(min=_LEAST) for one in (boxes_A4, references_A4))
    middle, middle_before = ((one[:, 2:] + one[:, :2]) / 2.0 for one in (boxes_A4, references_A4))
    return torch.cat([(middle - middle_before) / before, (sides / before).log()], dim=1)


def moved(references_A4: Tensor, shifts_A4: Tensor) -> Tensor:
    """See ``suites.assemble.boxes``."""
    before = references_A4[:, 2:] - references_A4[:, :2]
    middles = (references_A4[:, 2:] + references_A4[:, :2]) / 2.0 + shifts_A4[:, :2] * before
    halves = before * shifts_A4[:, 2:].clamp(max=math.log(boxes.MOST_GROWTH)).exp() / 2.0
    return torch.cat([middles - halves, middles + halves], dim=1)


def clipped(boxes_A4: Tensor, extent_2: Tensor) -> Tensor:
    """See ``suites.assemble.boxes``."""
    return torch.minimum(boxes_A4.clamp(min=0.0), extent_2.repeat(2))


def kept(boxes_A4: Tensor, there_A: Tensor, most: int, most_overlap: float) -> Tensor:
    """Return the numbers of the boxes that stay, ``most`` at most, as ``suites.assemble.boxes.kept`` does; ``there_A``:
    which are boxes at all.

    Within a block those that stay are found by turns: whoever is taken away by one that stays. After k turns this is
    right of the first k, and so of all where a turn changes nothing.
    """
    found = torch.zeros(0, dtype=torch.int64, device=boxes_A4.device)
    for begin in range(0, len(boxes_A4), _BLOCK):
        block = boxes_A4[begin : begin + _BLOCK]
        taken = (overlaps(boxes_A4[found], block) > most_overlap).any(dim=0)
        left = stay = there_A[begin : begin + _BLOCK] & ~taken
        takes = (overlaps(block, block) > most_overlap).triu(1)
        while True:
            before, stay = stay, left & ~(takes & stay[:, None]).any(dim=0)
            if torch.equal(stay, before):
                break
        found = torch.cat([found, begin + stay.nonzero().squeeze(1)])
        if len(found) >= most:
            break
    return found[:most]


def proposals(
    scores_A: Tensor,
    boxes_A4: Tensor,
    candidates: int,
    most: int,
    most_overlap: float,
    levels: Optional[Sequence[int]] = None,
) -> Tuple[Tensor, Tensor]:
    """Return (numbers, mask) of ``most`` boxes: of the ``candidates`` with the highest scores those that stay, in the
    order of their numbers. Where fewer do, and of boxes less than a pixel wide or high, the mask is 0.

    ``levels``: how many boxes come of each map of a pyramid. Each has its own candidates, which only these can take
    away; of all that stay those with the highest scores are proposed.
    """
    scores_A = scores_A.masked_fill(((boxes_A4[:, 2:] - boxes_A4[:, :2]) < 1.0).any(dim=1), -float("inf"))
    found, begin = [], 0
    for count in levels or (len(scores_A),):
        best_C, order_C = scores_A[begin : begin + count].sort(descending=True, stable=True)
        best_C, order_C = best_C[:candidates], begin + order_C[:candidates]
        found.append(order_C[kept(boxes_A4[order_C], best_C > -float("inf"), most, most_overlap)])
        begin += count
    stay = torch.cat(found)
    stay = stay[scores_A[stay].sort(descending=True, stable=True).indices[:most]].sort().values
    numbers = functional.pad(stay, (0, most - len(stay)), value=len(boxes_A4))
    return numbers.clamp(max=len(boxes_A4) - 1), (numbers < len(boxes_A4)).to(boxes_A4.dtype)


def drawn(shared_A: Tensor, there_A: Tensor, keys_A: Tensor, most: int, half: float) -> Tuple[Tensor, Tensor]:
    """Return (numbers, mask) of ``most`` boxes, those with the largest keys, whole numbers below ``_ABOVE``: a quarter
    at most of those that share ``half`` or more with a box, and then of those that share less; mask 0: neither.
    Source: Girshick, "Fast R-CNN", 2015, section 2.3."""
    ahead_A = there_A.bool() & (shared_A >= half)
    first = torch.where(ahead_A, keys_A, -1.0).topk(most // 4)
    of_first = torch.zeros_like(ahead_A).scatter(0, first.indices, first.values >= 0)
    behind_A = there_A.bool() & ~ahead_A
    order_A = torch.where(of_first, keys_A + _ABOVE, torch.where(behind_A, keys_A, -1.0))
    best, numbers = order_A.topk(most)
    return numbers, (best >= 0).to(keys_A.dtype)


def align(map_CHW: Tensor, regions_R4: Tensor, side: int) -> Tensor:
    """RoIAlign: return (R, C, S, S), each number the mean of ``POINTS`` x ``POINTS`` points of a region's bin, each by
    bilinear interpolation of the map's four nearest places; regions in pixels. No gradient flows to the regions.

    Source: He et al., "Mask R-CNN", 2017, section 3, with the middle of a place half a place from its edge. A bag for
    each number adds up places of a table by their weights: indexing took twenty times as long.
    """
    return align_levels([map_CHW], regions_R4, side, boxes.STRIDE, 1.0)


def align_levels(maps_CHW: Sequence[Tensor], regions_R4: Tensor, side: int, stride: int, canonical: float) -> Tensor:
    """``align`` by that map of a pyramid that is a region's own: the first has a place every ``stride`` pixels, each
    further one half as many; a square of ``canonical`` pixels belongs to the third.

    Source: Lin et al., "Feature Pyramid Networks for Object Detection", 2017, equation 1.
    """
    areas_R1 = (regions_R4[:, 2:] - regions_R4[:, :2]).prod(dim=1, keepdim=True)
    steps = [(areas_R1 >= (canonical * 2.0 ** (level - 2)) ** 2) for level in range(1, len(maps_CHW))]

    def own(values):
        # No tensor is made of numbers, for which the host would wait.
        found_R1 = torch.full_like(areas_R1, values[0])
        for step, value in zip(steps, values[1:]):
            found_R1 = found_R1.masked_fill(step, value)
        return found_R1

    heights, widths = ([one.shape[axis] for one in maps_CHW] for axis in (1, 2))
    counts = [height * width for height, width in zip(heights, widths)]
    edges_R4 = regions_R4 / own([stride * 2**level for level in range(len(maps_CHW))])
    wide_R1, first_R1 = own(widths), own([sum(counts[:level]) for level in range(len(counts))])
    at_RSP, weight_RSP = _points(edges_R4[:, 1::2], own(heights), side)
    across_RSP, weight_across_RSP = _points(edges_R4[:, 0::2], wide_R1, side)
    rows_RSP = at_RSP * wide_R1.to(torch.int64)[..., None] + first_R1.to(torch.int64)[..., None]
    places = rows_RSP[:, :, None, :, None] + across_RSP[:, None, :, None, :]
    weights = weight_RSP[:, :, None, :, None] * weight_across_RSP[:, None, :, None, :]
    table = torch.cat([single(one).flatten(1) for one in maps_CHW], dim=1).t().contiguous()
    bags = functional.embedding_bag(
        places.flatten(0, 2).flatten(1),
        table,
        None,
        mode="sum",
        per_sample_weights=weights.flatten(0, 2).flatten(1).to(table.dtype),
    )
    return bags.unflatten(0, (-1, side, side)).permute(0, 3, 1, 2).to(maps_CHW[0].dtype)


def aligned(maps: Sequence[Tensor], regions_NR4: Tensor, side: int, canonical: float) -> Tensor:
    """``align_levels`` of all images of a batch, one behind the other."""
    place = side, boxes.PYRAMID_STRIDE, canonical
    return torch.cat([align_levels(one, found_R4, *place) for *one, found_R4 in zip(*maps, regions_NR4)])


def _points(edges_R2, count_R1, side):
    """Return (places, weights) along an axis of as many places, (R, S, 2 * POINTS): of each point the places before and
    behind it."""
    low_R1, high_R1 = edges_R2.split(1, dim=1)
    steps_T = (torch.arange(side * POINTS, device=edges_R2.device) + 0.5) / (side * POINTS)
    points_RT = low_R1 + (high_R1 - low_R1) * steps_T.to(edges_R2.dtype) - 0.5
    points_RT = torch.minimum(points_RT.clamp(min=0.0), count_R1 - 1.0)
    before_RT = torch.minimum(points_RT.floor(), (count_R1 - 2.0).clamp(min=0.0))
    part_RT = points_RT - before_RT
    places = torch.stack([before_RT, torch.minimum(before_RT + 1.0, count_R1 - 1.0)], dim=2).to(torch.int64)
    weights = torch.stack([1.0 - part_RT, part_RT], dim=2) / POINTS
    return (one.unflatten(1, (side, POINTS)).flatten(2) for one in (places, weights))


def cut(masks_BMM: Tensor, which_R: Tensor, parts_R4: Tensor, side: int) -> Tensor:
    """Return (R, S, S): of the middle of each bin of a region whether the mask of its box, number ``which``, is there.
    ``parts``: the region's edges, from 0 to 1 within the box; a mask is nothing outside."""
    extent = masks_BMM.shape[1]
    steps_S = ((torch.arange(side, device=parts_R4.device) + 0.5) / side).to(parts_R4.dtype)
    places = [
        low + (high - low) * steps_S
        for low, high in ((parts_R4[:, [axis]], parts_R4[:, [axis + 2]]) for axis in (0, 1))
    ]
    inside_RS = [(one >= 0.0) & (one < 1.0) for one in places]
    x_RS, y_RS = ((one * extent).to(torch.int64).clamp(0, extent - 1) for one in places)
    found_RSS = masks_BMM[which_R[:, None, None], y_RS[:, :, None], x_RS[:, None, :]]
    return found_RSS * (inside_RS[1][:, :, None] & inside_RS[0][:, None, :])


def masked(regions_NM4: Tensor, kinds_NM: Tensor, which_NM: Tensor, boxes_NB4: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Return regions of which a mask is learnt, their classes, and what is learnt (N, M, 6): whether there is a class,
    the number of the box, and the region's edges within that, from 0 to 1."""
    own_NM4 = boxes_NB4.gather(1, which_NM[..., None].expand(-1, -1, 4))
    sides_NM2 = (own_NM4[..., 2:] - own_NM4[..., :2]).clamp(min=1.0)
    parts_NM4 = (regions_NM4 - own_NM4[..., :2].repeat(1, 1, 2)) / sides_NM2.repeat(1, 1, 2)
    return regions_NM4, kinds_NM, torch.cat([(kinds_NM > 0)[..., None], which_NM[..., None], parts_NM4], dim=2)


def given(boxes_NB4: Tensor, kinds_NB: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """``masked`` of boxes, each of which is its own."""
    which_NB = torch.arange(kinds_NB.shape[1], device=kinds_NB.device).expand_as(kinds_NB)
    return masked(boxes_NB4, kinds_NB, which_NB, boxes_NB4)


def loss_of_masks(masks_NMSS: Tensor, masks_NBHW: Tensor, masked_NM6: Tensor) -> Tensor:
    """Return the mean over all places of the masks that are learnt; ``masks_NBHW``: of the boxes, ``masked``: as above.
    Source: He et al., "Mask R-CNN", 2017, section 3."""
    used_NM, masks_NMSS = masked_NM6[..., 0], single(masks_NMSS)
    each = zip(masks_NBHW, masked_NM6[..., 1].to(torch.int64), masked_NM6[..., 2:])
    wanted_NMSS = torch.stack([cut(*one, masks_NMSS.shape[2]) for one in each]).to(masks_NMSS.dtype)
    unlikely = functional.binary_cross_entropy_with_logits(masks_NMSS, wanted_NMSS, reduction="none").mean(dim=(2, 3))
    return (unlikely * used_NM).sum() / used_NM.sum().clamp(min=1)
