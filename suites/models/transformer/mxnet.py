"""The Transformer in MXNet's Gluon.

Dimensions: N sentences of a batch, S tokens of a source, T of a target, Q of either, E numbers per token, K tokens that
there are.
"""

from typing import Any, Tuple

from mxnet.gluon import nn

from suites.assemble.mxnet.functions import weighted_cross_entropy
from suites.assemble.mxnet.layers import attach
from suites.models.transformer import network
from workers.trainer.base.signatures import Size


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        self._encoders, self._decoders = network.encoders(size), network.decoders(size)
        self._scale = size["width"] ** 0.5
        self._layer = attach(self, network.layers(size))

    def hybrid_forward(
        self, F: Any, sources_NS: Any, mask_NS: Any, targets_NT: Any, following_NT: Any, shares_NT: Any
    ) -> Any:
        return self.criterion(F, self.outputs(F, sources_NS, mask_NS, targets_NT), following_NT, shares_NT)

    def outputs(self, F: Any, sources_NS: Any, mask_NS: Any, targets_NT: Any) -> Tuple[Any]:
        x_NSE = self._embedded("source", sources_NS)
        for block in self._encoders:
            x_NSE = self._fed(F, block.fed, self._attended(block.own, x_NSE, x_NSE, mask_NS))
        x_NTE = self._embedded("target", targets_NT)
        for block in self._decoders:
            # Padding stands behind all tokens: none of these looks at it.
            x_NTE = self._attended(block.own, x_NTE, x_NTE)
            x_NTE = self._fed(F, block.fed, self._attended(block.source, x_NTE, x_NSE, mask_NS))
        return (self._layer["output"](x_NTE),)

    def criterion(self, F: Any, outputs: Tuple[Any], following_NT: Any, shares_NT: Any) -> Any:
        return weighted_cross_entropy(F, outputs[0], following_NT, shares_NT, network.LABEL_SMOOTHING)

    def _embedded(self, side, tokens_NQ):
        x_NQE = self._layer[side + "_positions"](self._layer["tokens"](tokens_NQ) * self._scale)
        return self._layer[side + "_drop"](x_NQE)

    def _attended(self, part, x_NQE, seen_NSE, *mask_NS):
        layer = self._layer
        given = [layer[one.name](x) for one, x in ((part.query, x_NQE), (part.key, seen_NSE), (part.value, seen_NSE))]
        y_NQE = layer[part.projection.name](layer[part.attention.name](*(given + list(mask_NS))))
        return layer[part.norm.name](x_NQE + layer[part.drop.name](y_NQE))

    def _fed(self, F, part, x_NQE):
        layer = self._layer
        y_NQE = layer[part.outer.name](F.relu(layer[part.inner.name](x_NQE)))
        return layer[part.norm.name](x_NQE + layer[part.drop.name](y_NQE))
