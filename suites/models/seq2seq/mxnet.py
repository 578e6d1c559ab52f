"""Seq2Seq in MXNet's Gluon: its own LSTM over sources (one operator), its LSTMCell from place to place of the targets,
written out in the graph.

Dimensions: N sentences of a batch, S tokens of a source, T of a target, E numbers per token, H per hidden state, K
tokens that there are.
"""

from typing import Any, Tuple

from mxnet.gluon import nn

from suites.assemble.mxnet.functions import side_by_side, weighted_cross_entropy
from suites.assemble.mxnet.layers import attach
from suites.models.seq2seq import network
from workers.trainer.base.signatures import Size


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        self._places = size["target_tokens"]
        self._layer = attach(self, network.layers(size))

    def hybrid_forward(
        self, F: Any, sources_NS: Any, mask_NS: Any, targets_NT: Any, following_NT: Any, shares_NT: Any
    ) -> Any:
        return self.criterion(F, self.outputs(F, sources_NS, mask_NS, targets_NT), following_NT, shares_NT)

    def outputs(self, F: Any, sources_NS: Any, mask_NS: Any, targets_NT: Any) -> Tuple[Any]:
        layer = self._layer
        values_NSH = layer["encoder.upper"](layer["encoder.lower"](layer["source_tokens"](sources_NS), mask_NS))
        keys_NSH = layer["encoder.keys"](values_NSH)
        x_NTE = layer["target_tokens"](targets_NT)
        words = F.split(self._filled(F, x_NTE), num_outputs=self._places, axis=1, squeeze_axis=True)
        fed_NH = F.zeros_like(F.stop_gradient(words[0]))
        lower = upper = [fed_NH, fed_NH]
        found = []
        for word_NE in words:
            _, lower = layer["decoder.lower"](side_by_side(F, word_NE, fed_NH), lower)
            _, upper = layer["decoder.upper"](lower[0], upper)
            query_NH = layer["decoder.query"](upper[0])
            context_NH = layer["decoder.attention"](query_NH, keys_NSH, values_NSH, mask_NS)
            fed_NH = layer["decoder.vector"](side_by_side(F, upper[0], context_NH))
            found.append(fed_NH)
        # Without the places that were filled up.
        vectors_NTH = F.slice_like(F.stack(*found, axis=1), F.stop_gradient(x_NTE), axes=(1,))
        return (layer["output"](vectors_NTH),)

    def criterion(self, F: Any, outputs: Tuple[Any], following_NT: Any, shares_NT: Any) -> Any:
        return weighted_cross_entropy(F, outputs[0], following_NT, shares_NT)

    def _filled(self, F, x_NTE):
        """Return all places of the graph, which is written out once for all batches; those translated so far may be
        fewer."""
        behind = (0, 0, 0, 0, 0, self._places, 0, 0)
        padded_N1TE = F.pad(F.expand_dims(x_NTE, axis=1), mode="constant", pad_width=behind, constant_value=0)
        return F.slice_axis(F.squeeze(padded_N1TE, axis=1), axis=1, begin=0, end=self._places)
