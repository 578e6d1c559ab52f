"""BERT in plain PyTorch.

Dimensions: N sequences of a batch, T tokens, E numbers per token, P hidden tokens, K tokens there are.
"""

from typing import Tuple, Union

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import attach
from suites.models.bert_base import network
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self._blocks = network.blocks(size)
        self._finetunes = size["task"] == "finetune"
        self._layer = attach(self, network.layers(size))

    def forward(self, tokens_NT: Tensor, segments_NT: Tensor, mask_NT: Tensor, *places: Tensor) -> Tensor:
        """Return the logits of the answer's ends, or of the hidden tokens at ``places`` and of the second text."""
        x_NTE = self._embedded(tokens_NT, segments_NT)
        for block in self._blocks:
            x_NTE = self._block(block, x_NTE, mask_NT)
        if self._finetunes:
            return self._layer["answer"](x_NTE)
        return self._hidden(x_NTE, *places), self._following(x_NTE)

    def _embedded(self, tokens_NT, segments_NT):
        places_T = torch.arange(tokens_NT.shape[1], device=tokens_NT.device)
        x_NTE = self._layer["embeddings.tokens"](tokens_NT) + self._layer["embeddings.segments"](segments_NT)
        x_NTE = x_NTE + self._layer["embeddings.positions"](places_T)
        return self._layer["embeddings.drop"](self._layer["embeddings.norm"](x_NTE))

    def _block(self, block, x_NTE, mask_NT):
        layer = self._layer
        attended_NTE = layer[block.attention.name](
            *[layer[one.name](x_NTE) for one in (block.query, block.key, block.value)], mask_NT
        )
        attended_NTE = layer[block.attention_drop.name](layer[block.projection.name](attended_NTE))
        x_NTE = layer[block.attention_norm.name](x_NTE + attended_NTE)
        inner = functional.gelu(layer[block.inner.name](x_NTE), approximate="tanh")
        return layer[block.norm.name](x_NTE + layer[block.drop.name](layer[block.outer.name](inner)))

    def _hidden(self, x_NTE, places_NP):
        x_NPE = x_NTE.gather(1, places_NP.unsqueeze(2).expand(-1, -1, x_NTE.shape[2]))
        x_NPE = functional.gelu(self._layer["transform"](x_NPE), approximate="tanh")
        table_KE = self._layer["embeddings.tokens"].weight
        return self._layer["output"](self._layer["transform_norm"](x_NPE), table_KE)

    def _following(self, x_NTE):
        return self._layer["following"](torch.tanh(self._layer["pooler"](x_NTE[:, 0])))


def criterion(outputs: Union[Tensor, Tuple[Tensor, Tensor]], *targets: Tensor) -> Tensor:
    """Return the sum of both losses of pre-training, or the mean of those of an answer's two ends."""
    if len(targets) == 2:
        found = [functional.cross_entropy(outputs[:, :, end], ends_N) for end, ends_N in enumerate(targets)]
        return sum(found) / 2
    originals_NP, shares_NP, following_N = targets
    logits_NPK, logits_N2 = outputs
    of_tokens = functional.cross_entropy(logits_NPK.flatten(0, 1), originals_NP.flatten(), reduction="none")
    return (of_tokens * shares_NP.flatten()).sum() + functional.cross_entropy(logits_N2, following_N)
