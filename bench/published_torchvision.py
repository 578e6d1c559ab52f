"""Mask R-CNN of torchvision (https://pypi.org/project/torchvision) with the weights of the suite's.

Its compiled operators need the libraries of CUDA, which PyTorch's build for CPUs lacks. RoIAlign it has in Python, too,
and has it compiled; of the suppression of boxes it has nothing else, and is given the suite's. What is drawn by chance,
and by which regions are learnt, is the suite's: the two would draw differently.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from suites.assemble import boxes
from suites.assemble.pytorch import regions
from suites.models.faster_rcnn.pytorch import learnt
from suites.models.mask_rcnn import network
from workers.trainer.base.job import Job

# What a part is called there, by the beginning of its names in the suite.
NAMES = {
    "fpn.inner.": "backbone.fpn.inner_blocks.{}.0",
    "fpn.outer.": "backbone.fpn.layer_blocks.{}.0",
    "rpn.conv": "rpn.head.conv.0.0",
    "rpn.objects": "rpn.head.cls_logits",
    "rpn.moves": "rpn.head.bbox_pred",
    "box.fc": "roi_heads.box_head.fc{}",
    "box.classes": "roi_heads.box_predictor.cls_score",
    "box.moves": "roi_heads.box_predictor.bbox_pred",
    "mask.conv": "roi_heads.mask_head.{}.0",
    "mask.up": "roi_heads.mask_predictor.conv5_mask",
    "mask.told": "roi_heads.mask_predictor.mask_fcn_logits",
}


def make(name: str, ours: nn.Module, job: Job) -> tuple[nn.Module, Callable[..., Any]]:
    """Return torchvision's network with the weights of ``ours``, and what computes by it what ``ours`` computes.

    Raises:
        RuntimeError: it has other parameters.
    """
    for operator in ("nms", "qnms"):
        # They are declared as they would be by what is compiled: else torchvision is not imported.
        torch.library.define("torchvision::" + operator, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision import ops
    from torchvision.models import detection, resnet
    from torchvision.models.detection import backbone_utils
    from torchvision.ops import MultiScaleRoIAlign, misc, poolers
    from torchvision.ops import boxes as suppression

    suppression.nms = _suppressed
    # The middle of a place is half a place from its edge, as in the suite.
    poolers.roi_align = functools.partial(ops.roi_align, aligned=True)
    size = job.model.size
    body = resnet.ResNet(
        resnet.Bottleneck, size["blocks"], norm_layer=functools.partial(misc.FrozenBatchNorm2d, eps=0.0)
    )
    levels = [str(level) for level in range(4)]
    found = detection.MaskRCNN(
        backbone_utils._resnet_fpn_extractor(body, 3),
        size["classes"],
        rpn_anchor_generator=detection.anchor_utils.AnchorGenerator(
            tuple((side,) for side in size["anchor_sides"]), (boxes.RATIOS,) * len(size["anchor_sides"])
        ),
        rpn_pre_nms_top_n_train=size["candidates"][0],
        rpn_pre_nms_top_n_test=size["candidates"][1],
        rpn_post_nms_top_n_train=size["proposals"][0],
        rpn_post_nms_top_n_test=size["proposals"][1],
        box_roi_pool=MultiScaleRoIAlign(levels, 7, 2, canonical_scale=size["canonical"]),
        mask_roi_pool=MultiScaleRoIAlign(levels, 14, 2, canonical_scale=size["canonical"]),
    )
    # As in the suite, what is less than a pixel wide is no box.
    found.rpn.min_size = 1.0
    # The statistics that a frozen normalisation has beside are those of nothing.
    weights = {_name(one): value for one, value in ours.state_dict().items()}
    statistics = {
        one: value for one, value in found.state_dict().items() if one.rpartition(".")[2].startswith("running_")
    }
    found.load_state_dict({**statistics, **weights})
    return found, _Computed(found, size)


def _name(ours):
    if ours.startswith(("conv1.", "bn1.", "layer")):
        return "backbone.body." + ours
    part, _, last = ours.rpartition(".")
    begin = next(one for one in NAMES if part.startswith(one))
    number = part[len(begin) :]
    # Convolutions over masks are counted from 1 in the suite.
    return NAMES[begin].format(int(number) - 1 if begin == "mask.conv" else number) + "." + last


def _suppressed(corners: Tensor, scores: Tensor, most_shared: float) -> Tensor:
    order = scores.sort(descending=True, stable=True).indices
    there = torch.ones(len(order), dtype=torch.bool)
    return order[regions.kept(corners[order], there, len(order), most_shared)]


class _Computed:
    """What ``suites.models.mask_rcnn.pytorch.Network`` gives, by torchvision's parts; evaluated, of one image."""

    def __init__(self, published: Any, size: Any) -> None:
        self._network, self._size = published, size

    def __call__(self, images: Tensor, extents: Tensor, given: Tensor, kinds: Tensor, keys: Tensor) -> Any:
        heads, maps = self._network.roi_heads, self._network.backbone(images)
        objects, moves = self._network.rpn.head(list(maps.values()))
        counts = [one[0].numel() for one in objects]
        objects, moves = (
            torch.cat([one.permute(0, 2, 3, 1).flatten(1) for one in some], dim=1) for some in (objects, moves)
        )
        moves = moves.unflatten(1, (-1, 4))
        shapes = [(int(height), int(width)) for width, height in extents.tolist()]
        with torch.no_grad():
            each = self._regions(tuple(images.shape[2:]), objects, moves, counts, shapes, given, kinds, keys)
            found, told, which = (torch.stack(one) for one in zip(*each, strict=True))
            masked, count = regions.given(given, kinds), self._size["regions"] // network.MASKED
            if self._network.training:
                masked = regions.masked(found[:, :count], told[:, :count, 1], which[:, :count], given)
        hidden = heads.box_head(heads.box_roi_pool(maps, list(found), shapes))
        classes, of_classes = (one.unflatten(0, found.shape[:2]) for one in heads.box_predictor(hidden))
        masks = self._masks(maps, shapes, *masked[:2])
        return classes, of_classes.unflatten(2, (-1, 4)), found, told, objects, moves, masks, masked[2]

    def _regions(self, pixels, objects, moves, counts, shapes, given, kinds, keys):
        rpn, anchors = self._network.rpn, _anchors(pixels, tuple(self._size["anchor_sides"]))
        moved = rpn.box_coder.decode(moves.flatten(0, 1), [anchors] * len(moves)).view(len(moves), -1, 4)
        narrow = torch.stack([_narrow(one, *shape) for one, shape in zip(moved, shapes, strict=True)])
        objects = objects.masked_fill(narrow, -float("inf"))
        corners, scores = rpn.filter_proposals(moved, objects, shapes, counts)
        for number, found in enumerate(corners):
            drawn = None
            if self._network.training:
                own_keys = keys[number][_numbers(objects[number].sigmoid(), scores[number])]
                drawn = self._size["regions"], own_keys, keys[number][len(anchors) :]
            yield learnt(found, torch.ones(len(found)), given[number], kinds[number], drawn)

    def _masks(self, maps, shapes, masked, kinds):
        """Only those that have a box go through."""
        heads, here = self._network.roi_heads, kinds > 0
        some = [one[those] for one, those in zip(masked, here, strict=True)]
        logits = heads.mask_predictor(heads.mask_head(heads.mask_roi_pool(maps, some, shapes)))
        masks = logits.new_zeros(*here.shape, *logits.shape[2:])
        masks[here] = logits[torch.arange(len(logits)), kinds[here].long()]
        return masks


@functools.cache
def _anchors(pixels, sides):
    """The suite's: torchvision's stand at the corners of places, with rounded edges."""
    return torch.cat([torch.from_numpy(one) for one in boxes.pyramid_anchors(pixels, sides)])


def _narrow(corners, height, width):
    clipped = regions.clipped(corners, corners.new_tensor([width, height]))
    return ((clipped[:, 2:] - clipped[:, :2]) < 1.0).any(dim=1)


def _numbers(scores, some):
    """Return the numbers of those anchors whose scores these are: torchvision does not tell them."""
    ordered, order = scores.sort()
    return order[torch.searchsorted(ordered, some).clamp(max=len(order) - 1)]
