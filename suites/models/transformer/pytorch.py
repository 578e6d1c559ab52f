"""The Transformer in plain PyTorch.

Dimensions: N sentences of a batch, S tokens of a source, T of a target, Q of either, E numbers per token, K tokens that
there are.
"""

from typing import Optional

from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import attach
from suites.models.transformer import network
from suites.models.transformer.network import LABEL_SMOOTHING
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self._encoders, self._decoders = network.encoders(size), network.decoders(size)
        self._scale = size["width"] ** 0.5
        self._layer = attach(self, network.layers(size))

    def forward(self, sources_NS: Tensor, mask_NS: Tensor, targets_NT: Tensor) -> Tensor:
        x_NSE = self._embedded("source", sources_NS)
        for block in self._encoders:
            x_NSE = self._fed(block.fed, self._attended(block.own, x_NSE, x_NSE, mask_NS))
        x_NTE = self._embedded("target", targets_NT)
        for block in self._decoders:
            # Padding stands behind all tokens: none of these looks at it.
            x_NTE = self._attended(block.own, x_NTE, x_NTE)
            x_NTE = self._fed(block.fed, self._attended(block.source, x_NTE, x_NSE, mask_NS))
        return self._layer["output"](x_NTE, self._layer["tokens"].weight)

    def _embedded(self, side, tokens_NQ):
        x_NQE = self._layer[side + "_positions"](self._layer["tokens"](tokens_NQ) * self._scale)
        return self._layer[side + "_drop"](x_NQE)

    def _attended(self, part, x_NQE, seen_NSE, mask_NS: Optional[Tensor] = None):
        layer = self._layer
        given = [layer[one.name](x) for one, x in ((part.query, x_NQE), (part.key, seen_NSE), (part.value, seen_NSE))]
        y_NQE = layer[part.projection.name](layer[part.attention.name](*given, mask_NS))
        return layer[part.norm.name](x_NQE + layer[part.drop.name](y_NQE))

    def _fed(self, part, x_NQE):
        layer = self._layer
        y_NQE = layer[part.outer.name](functional.relu(layer[part.inner.name](x_NQE)))
        return layer[part.norm.name](x_NQE + layer[part.drop.name](y_NQE))


def criterion(logits_NTK: Tensor, following_NT: Tensor, shares_NT: Tensor) -> Tensor:
    found = functional.cross_entropy(
        logits_NTK.flatten(0, 1), following_NT.flatten(), reduction="none", label_smoothing=LABEL_SMOOTHING
    )
    return (found * shares_NT.flatten()).sum()
