"""Faster R-CNN in plain PyTorch. Dimensions: N images of a batch, C channels, H height, W width, A anchors, B boxes, R
regions, K classes with 0 for none, S anchors that are learnt from."""

from typing import Mapping, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble import boxes
from suites.assemble.pytorch import regions
from suites.assemble.pytorch.layers import attach, single
from suites.models.faster_rcnn import network
from suites.models.resnet_50.network import Block
from suites.quality.mean_average_precision import DEVIATIONS
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    """What it gives for images: of regions the logits of their classes, their moves for each class, their edges, and
    what is learnt of each: whether it counts, its class, its move; of anchors whether there is an object, and moves.

    As it is trained, regions are drawn among what is proposed and the boxes; else they are what is proposed.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        self._layers = attach(self, network.layers(size))
        self._parts, self._size = network.parts(size), size
        self._anchors = regions.Anchors(lambda places: [boxes.anchors(places[0], places[1], size["anchor_sides"])])

    def forward(
        self, images_NCHW: Tensor, extents_N2: Tensor, boxes_NB4: Tensor, kinds_NB: Tensor, keys_NK: Tensor
    ) -> Tuple[Tensor, ...]:
        x_NCHW = self.maxpool(functional.relu(self.bn1(self.conv1(images_NCHW))))
        for block in self._parts.shared:
            x_NCHW = bottleneck(self._layers, block, x_NCHW)
        hidden_NCHW = functional.relu(self.rpn.conv(x_NCHW))
        objects_NA2, moves_NA4 = (
            single(layer(hidden_NCHW).permute(0, 2, 3, 1).unflatten(3, (-1, count)).flatten(1, 3))
            for layer, count in ((self.rpn.objects, 2), (self.rpn.moves, 4))
        )
        with torch.no_grad():
            scores_NA, anchors_A4 = (
                objects_NA2[..., 1] - objects_NA2[..., 0],
                self._anchors(tuple(x_NCHW.shape[2:]), extents_N2)[0],
            )
            each = zip(scores_NA, moves_NA4, extents_N2, boxes_NB4, kinds_NB, keys_NK)
            found, learnt = zip(*(self._regions(anchors_A4, *one) for one in each))
        y_RCHW = torch.cat([regions.align(*one, network.SIDE) for one in zip(x_NCHW, found)])
        for block in self._parts.inner:
            y_RCHW = bottleneck(self._layers, block, y_RCHW)
        y_NRF = y_RCHW.mean(dim=(2, 3)).unflatten(0, (len(found), -1))
        classes_NRK, moves_NRK4 = self.head.classes(y_NRF), self.head.moves(y_NRF).unflatten(2, (-1, 4))
        return classes_NRK, moves_NRK4, torch.stack(found), torch.stack(learnt), objects_NA2, moves_NA4

    def _regions(self, anchors_A4, scores_A, moves_A4, extent_2, boxes_B4, kinds_B, keys_K):
        """Return an image's regions, and what is learnt of each."""
        moved_A4 = regions.clipped(regions.moved(anchors_A4, moves_A4.to(anchors_A4.dtype)), extent_2)
        most = [self._size[name][0 if self.training else 1] for name in ("candidates", "proposals")]
        numbers_R, there_R = regions.proposals(scores_A, moved_A4, *most, network.MOST_OVERLAP)
        drawn = (self._size["regions"], keys_K[numbers_R], keys_K[len(anchors_A4) :]) if self.training else None
        return learnt(moved_A4[numbers_R], there_R, boxes_B4, kinds_B, drawn)[:2]


def bottleneck(layers: Mapping[str, nn.Module], block: Block, x_NCHW: Tensor) -> Tensor:
    """The shortcut is added before the last ReLU."""
    conv1, bn1, conv2, bn2, conv3, bn3 = (layers[layer.name] for layer in block[1:-1])
    shortcut_NCHW = x_NCHW
    for layer in block.shortcut or ():
        shortcut_NCHW = layers[layer.name](shortcut_NCHW)
    x_NCHW = functional.relu(bn2(conv2(functional.relu(bn1(conv1(x_NCHW))))))
    return functional.relu(bn3(conv3(x_NCHW)) + shortcut_NCHW)


def learnt(
    found_R4: Tensor, there_R: Tensor, boxes_B4: Tensor, kinds_B: Tensor, drawn: Optional[Tuple[int, Tensor, Tensor]]
) -> Tuple[Tensor, Tensor, Tensor]:
    """Return an image's regions, what is learnt of each, and the number of its box. ``drawn``: how many are drawn among
    what was found and the boxes, by which keys of both; None: they are what was found."""
    kinds_B = kinds_B.to(found_R4.dtype)
    if drawn:
        found_R4, there_R = torch.cat([found_R4, boxes_B4]), torch.cat([there_R, (kinds_B > 0).to(there_R)])
    shared_R, which_R = (regions.overlaps(found_R4, boxes_B4) * (kinds_B > 0)).max(dim=1)
    if drawn:
        drawn_R, there_R = regions.drawn(shared_R, there_R, torch.cat(drawn[1:]), drawn[0], network.TELLS)
        found_R4, shared_R, which_R = found_R4[drawn_R], shared_R[drawn_R], which_R[drawn_R]
    kinds_R1 = (kinds_B[which_R] * (shared_R >= network.TELLS))[:, None]
    moves_R4 = regions.shifts(boxes_B4[which_R], found_R4) / found_R4.new_tensor(DEVIATIONS)
    return found_R4, torch.cat([there_R[:, None], kinds_R1, moves_R4 * (kinds_R1 > 0)], dim=1), which_R


def criterion(outputs: Tuple[Tensor, ...], anchors_NS: Tensor, answers_NS: Tensor, shifts_NS4: Tensor) -> Tensor:
    """Ren et al., 2015, equation 1, of both stages; each part is divided by how many anchors, or regions, count."""
    classes_NRK, moves_NRK4, _, learnt_NR6, objects_NA2, moves_NA4 = outputs
    told = anchors_NS, answers_NS, shifts_NS4
    first = loss_of_anchors(objects_NA2, moves_NA4, *told, network.TURNS[0])
    return first + loss_of_regions(classes_NRK, moves_NRK4, learnt_NR6, network.TURNS[1])


def loss_of_anchors(
    objects_NA2: Tensor, moves_NA4: Tensor, anchors_NS: Tensor, answers_NS: Tensor, shifts_NS4: Tensor, turn: float
) -> Tensor:
    """The first stage's part of the loss."""
    objects_NS2, moves_NS4 = (
        x.gather(1, anchors_NS[..., None].expand(-1, -1, x.shape[2])) for x in (objects_NA2, moves_NA4)
    )
    return _loss(objects_NS2, answers_NS.clamp(min=0), moves_NS4, shifts_NS4, answers_NS >= 0, turn)


def loss_of_regions(classes_NRK: Tensor, moves_NRK4: Tensor, learnt_NR6: Tensor, turn: float) -> Tensor:
    """The second stage's part of the loss."""
    used_NR, kinds_NR = learnt_NR6[..., 0], learnt_NR6[..., 1].to(torch.int64)
    own_NR4 = moves_NRK4.gather(2, kinds_NR[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)
    return _loss(classes_NRK, kinds_NR, own_NR4, learnt_NR6[..., 2:], used_NR > 0, turn)


def _loss(logits, kinds, moves, wanted, used, turn):
    logits, moves = single(logits), single(moves)
    unlikely = functional.cross_entropy(logits.flatten(0, 1), kinds.flatten(), reduction="none").view_as(kinds)
    off = functional.smooth_l1_loss(moves, wanted, reduction="none", beta=turn).sum(dim=-1) * (kinds > 0)
    return ((unlikely + off) * used).sum() / used.sum().clamp(min=1)
