"""What detectors of two stages do with regions, in PyTorch; a box is (left, top, right, bottom) in pixels.

Shapes: A anchors, B boxes, R regions, C channels, H height and W width of a map, S side of what a region becomes.
"""

import math
from typing import Tuple

import torch
from torch import Tensor
from torch.nn import functional

from suites.assemble import boxes
from suites.assemble.pytorch.layers import single

# Points of each bin along each axis (He et al., "Mask R-CNN", 2017, section 3: four in all).
POINTS = 2
# Boxes of which those that stay are found at once.
_BLOCK = 512
# In single precision whole numbers up to twice this are exact.
_ABOVE = 2.0**23
_LEAST = 1e-6


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
    scores_A: Tensor, boxes_A4: Tensor, candidates: int, most: int, most_overlap: float
) -> Tuple[Tensor, Tensor]:
    """Return (numbers, mask) of ``most`` boxes: of the ``candidates`` with the highest scores those that stay, in the
    order of their numbers. Where fewer do, and of boxes less than a pixel wide or high, the mask is 0."""
    scores_A = scores_A.masked_fill(((boxes_A4[:, 2:] - boxes_A4[:, :2]) < 1.0).any(dim=1), -float("inf"))
    best_C, order_C = scores_A.sort(descending=True, stable=True)
    best_C, order_C = best_C[:candidates], order_C[:candidates]
    stay = order_C[kept(boxes_A4[order_C], best_C > -float("inf"), most, most_overlap)].sort().values
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
    channels, height, width = map_CHW.shape
    at_RSP, weight_RSP = _points(regions_R4[:, 1::2], height, side)
    across_RSP, weight_across_RSP = _points(regions_R4[:, 0::2], width, side)
    places = at_RSP[:, :, None, :, None] * width + across_RSP[:, None, :, None, :]
    weights = weight_RSP[:, :, None, :, None] * weight_across_RSP[:, None, :, None, :]
    table = single(map_CHW).flatten(1).t().contiguous()
    bags = functional.embedding_bag(
        places.flatten(0, 2).flatten(1),
        table,
        None,
        mode="sum",
        per_sample_weights=weights.flatten(0, 2).flatten(1).to(table.dtype),
    )
    return bags.unflatten(0, (-1, side, side)).permute(0, 3, 1, 2).to(map_CHW.dtype)


def _points(edges_R2, count, side):
    """Return (places, weights) along an axis of ``count`` places, (R, S, 2 * POINTS): of each point the places before
    and behind it."""
    low_R1, high_R1 = (edges_R2 / boxes.STRIDE).split(1, dim=1)
    steps_T = (torch.arange(side * POINTS, device=edges_R2.device) + 0.5) / (side * POINTS)
    points_RT = (low_R1 + (high_R1 - low_R1) * steps_T.to(edges_R2.dtype) - 0.5).clamp(0.0, count - 1.0)
    before_RT = points_RT.floor().clamp(max=max(0, count - 2))
    part_RT = points_RT - before_RT
    places = torch.stack([before_RT, (before_RT + 1).clamp(max=count - 1)], dim=2).to(torch.int64)
    weights = torch.stack([1.0 - part_RT, part_RT], dim=2) / POINTS
    return (one.unflatten(1, (side, POINTS)).flatten(2) for one in (places, weights))
