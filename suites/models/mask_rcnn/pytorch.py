"""Mask R-CNN in plain PyTorch. Dimensions: N images of a batch, C channels, H height, W width, A anchors, B boxes, R
regions, M regions with a mask, K classes with 0 for none, S anchors that are learnt from."""

from typing import Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble import boxes
from suites.assemble.pytorch import regions
from suites.assemble.pytorch.layers import attach, single
from suites.models.faster_rcnn.pytorch import bottleneck, learnt, loss_of_anchors, loss_of_regions
from suites.models.mask_rcnn import network
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    """What it gives for images: the first six of ``faster_rcnn``, where an anchor has one score; then masks of those
    regions that may have a box, each of the region's own class, and what is learnt of these: whether it counts, the
    number of its box, and its edges within that.

    As it is evaluated, masks are those of the boxes that it is given.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._layers = attach(self, network.layers(size))
        self._parts, self._size = network.parts(size), size
        self._anchors = regions.Anchors(lambda pixels: boxes.pyramid_anchors(pixels, size["anchor_sides"]))

    def forward(
        self, images_NCHW: Tensor, extents_N2: Tensor, boxes_NB4: Tensor, kinds_NB: Tensor, keys_NK: Tensor
    ) -> Tuple[Tensor, ...]:
        maps = self._pyramid(images_NCHW)
        objects_NA, moves_NA4 = self._told(maps)
        with torch.no_grad():
            anchors = self._anchors(tuple(images_NCHW.shape[2:]), extents_N2)
            each = zip(objects_NA, moves_NA4, extents_N2, boxes_NB4, kinds_NB, keys_NK)
            found, told, which = (torch.stack(one) for one in zip(*(self._regions(anchors, *one) for one in each)))
            masked = regions.given(boxes_NB4, kinds_NB)
            if self.training:
                count = self._size["regions"] // network.MASKED
                masked = regions.masked(found[:, :count], told[:, :count, 1], which[:, :count], boxes_NB4)
        hidden_NRF = functional.relu(
            self.box.fc6(regions.aligned(maps[:-1], found, network.SIDE, self._size["canonical"]).flatten(1))
        )
        hidden_NRF = functional.relu(self.box.fc7(hidden_NRF)).unflatten(0, found.shape[:2])
        classes_NRK, moves_NRK4 = self.box.classes(hidden_NRF), self.box.moves(hidden_NRF).unflatten(2, (-1, 4))
        masks = self._masks(maps, *masked[:2])
        return classes_NRK, moves_NRK4, found, told, objects_NA, moves_NA4, masks, masked[2]

    def _pyramid(self, images_NCHW):
        """Return the maps, that with most places first; the last has every other place of the one before."""
        x_NCHW, stages = self.maxpool(functional.relu(self.bn1(self.conv1(images_NCHW)))), {}
        for block in self._parts.body:
            x_NCHW = stages[block.name[:6]] = bottleneck(self._layers, block, x_NCHW)
        maps, above_NCHW = [], None
        for stage, inner, outer in reversed(list(zip(stages.values(), self._parts.inner, self._parts.outer))):
            x_NCHW = self._layers[inner.name](stage)
            above_NCHW = x_NCHW if above_NCHW is None else x_NCHW + self.fpn.up(above_NCHW)
            maps.insert(0, self._layers[outer.name](above_NCHW))
        return [*maps, maps[-1][:, :, ::2, ::2]]

    def _told(self, maps):
        """Return the score and the move of each anchor, map by map."""
        hidden_NCP1 = torch.cat([self.rpn.conv(map_NCHW).flatten(2) for map_NCHW in maps], dim=2)[..., None]
        hidden_NCP1 = functional.relu(hidden_NCP1)
        objects_NA, moves_NA = (
            single(layer(hidden_NCP1).squeeze(3).transpose(1, 2).flatten(1))
            for layer in (self.rpn.objects, self.rpn.moves)
        )
        return objects_NA, moves_NA.unflatten(1, (-1, 4))

    def _regions(self, anchors, scores_A, moves_A4, extent_2, boxes_B4, kinds_B, keys_K):
        """Return an image's regions, what is learnt of each, and the number of its box."""
        moved_A4 = regions.moved(torch.cat(anchors), moves_A4.to(extent_2.dtype))
        moved_A4 = regions.clipped(moved_A4, extent_2)
        most = [self._size[name][0 if self.training else 1] for name in ("candidates", "proposals")]
        levels = [len(one) for one in anchors]
        numbers_R, there_R = regions.proposals(scores_A, moved_A4, *most, network.MOST_OVERLAP, levels)
        drawn = (self._size["regions"], keys_K[numbers_R], keys_K[len(moved_A4) :]) if self.training else None
        return learnt(moved_A4[numbers_R], there_R, boxes_B4, kinds_B, drawn)

    def _masks(self, maps, found_NM4, kinds_NM):
        x_MCHW = regions.aligned(maps[:-1], found_NM4, network.MASK_SIDE, self._size["canonical"])
        *convolutions, told = (self._layers[layer.name] for layer in self._parts.masks)
        for layer in convolutions:
            x_MCHW = functional.relu(layer(x_MCHW))
        own_M = kinds_NM.flatten().to(torch.int64)
        return told(x_MCHW)[torch.arange(len(own_M), device=own_M.device), own_M].unflatten(0, kinds_NM.shape)


def criterion(
    outputs: Tuple[Tensor, ...], masks_NBHW: Tensor, anchors_NS: Tensor, answers_NS: Tensor, shifts_NS4: Tensor
) -> Tensor:
    """He et al., 2017, section 3: the losses of both stages, and of masks the mean over all places of all regions."""
    classes_NRK, moves_NRK4, _, told_NR6, objects_NA, moves_NA4, masks_NMSS, masked_NM6 = outputs
    objects_NA2 = torch.stack([torch.zeros_like(objects_NA), objects_NA], dim=2)
    found = loss_of_anchors(objects_NA2, moves_NA4, anchors_NS, answers_NS, shifts_NS4, network.TURNS[0])
    found = found + loss_of_regions(classes_NRK, moves_NRK4, told_NR6, network.TURNS[1])
    return found + regions.loss_of_masks(masks_NMSS, masks_NBHW, masked_NM6)
