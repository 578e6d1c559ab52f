"""GPT-2 in plain PyTorch. Dimensions: N sequences of a batch, T tokens, E numbers per token, K tokens there are."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import module
from suites.models.gpt_2 import network
from workers.trainer.base.signatures import Size


class SelfAttention(nn.Module):
    def __init__(self, block: network.Block) -> None:
        super().__init__()
        self.c_attn = module(block.c_attn)
        self.attention = module(block.attention)
        self.c_proj = module(block.attn_proj)
        self.drop = module(block.attn_drop)

    def forward(self, x_NTE: Tensor) -> Tensor:
        queries_NTE, keys_NTE, values_NTE = self.c_attn(x_NTE).chunk(3, dim=2)
        return self.drop(self.c_proj(self.attention(queries_NTE, keys_NTE, values_NTE)))


class FeedForward(nn.Module):
    def __init__(self, block: network.Block) -> None:
        super().__init__()
        self.c_fc = module(block.c_fc)
        self.c_proj = module(block.mlp_proj)
        self.drop = module(block.mlp_drop)

    def forward(self, x_NTE: Tensor) -> Tensor:
        return self.drop(self.c_proj(functional.gelu(self.c_fc(x_NTE), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, block: network.Block) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = module(block.ln_1), module(block.ln_2)
        self.attn, self.mlp = SelfAttention(block), FeedForward(block)

    def forward(self, x_NTE: Tensor) -> Tensor:
        x_NTE = x_NTE + self.attn(self.ln_1(x_NTE))
        return x_NTE + self.mlp(self.ln_2(x_NTE))


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        described = {layer.name: layer for layer in network.layers(size)}
        self.wte, self.wpe, self.drop = (module(described[name]) for name in ("wte", "wpe", "drop"))
        self.h = nn.ModuleList(Block(block) for block in network.blocks(size))
        self.ln_f, self.output = module(described["ln_f"]), module(described["output"])

    def forward(self, tokens_NT: Tensor) -> Tensor:
        places_T = torch.arange(tokens_NT.shape[1], device=tokens_NT.device)
        x_NTE = self.drop(self.wte(tokens_NT) + self.wpe(places_T))
        for block in self.h:
            x_NTE = block(x_NTE)
        return self.output(self.ln_f(x_NTE), self.wte.weight)


def criterion(logits_NTK: Tensor, following_NT: Tensor) -> Tensor:
    return functional.cross_entropy(logits_NTK.flatten(0, 1), following_NT.flatten())
