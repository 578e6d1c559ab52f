"""Seq2Seq in plain PyTorch: its own LSTM over sources, its LSTMCell from place to place of the targets.

Dimensions: N sentences of a batch, S tokens of a source, T of a target, E numbers per token, H per hidden state, K
tokens that there are.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import attach
from suites.models.seq2seq import network
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self._layer = attach(self, network.layers(size))

    def forward(self, sources_NS: Tensor, mask_NS: Tensor, targets_NT: Tensor) -> Tensor:
        layer = self._layer
        values_NSH, _ = layer["encoder.upper"](layer["encoder.lower"](layer["source_tokens"](sources_NS), mask_NS))
        keys_NSH = layer["encoder.keys"](values_NSH)
        words = layer["target_tokens"](targets_NT).unbind(dim=1)
        fed_NH = torch.zeros_like(words[0])
        lower = upper = (fed_NH, fed_NH)
        found = []
        for word_NE in words:
            lower = layer["decoder.lower"](torch.cat([word_NE, fed_NH], dim=1), lower)
            upper = layer["decoder.upper"](lower[0], upper)
            query_NH = layer["decoder.query"](upper[0])
            context_NH = layer["decoder.attention"](query_NH, keys_NSH, values_NSH, mask_NS)
            fed_NH = layer["decoder.vector"](torch.cat([upper[0], context_NH], dim=1))
            found.append(fed_NH)
        return layer["output"](torch.stack(found, dim=1))


def criterion(logits_NTK: Tensor, following_NT: Tensor, shares_NT: Tensor) -> Tensor:
    found = functional.cross_entropy(logits_NTK.flatten(0, 1), following_NT.flatten(), reduction="none")
    return (found * shares_NT.flatten()).sum()
