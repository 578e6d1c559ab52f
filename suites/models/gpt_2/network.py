"""GPT-2 as data. Names are those of OpenAI's ``gpt-2/src/model.py``, matrices are (outputs, inputs).

Source of the architecture: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3,
and the code published with it (https://github.com/openai/gpt-2): a normalisation before each part of a block and one
behind the last block, GELU by its approximation with tanh, learned positions, the output by the table of the tokens.

Weights begin as there: normal, 0.02 (positions 0.01), and those that end in the sum of a block divided by the root of
the number of such sums (section 2.3); biases are 0.
"""

from typing import List, NamedTuple

from suites.assemble.initial import ZERO, normal
from suites.assemble.layers import Attention, Dropout, Embedding, Layer, LayerNormalization, Linear, Tied
from workers.trainer.base.signatures import Size

EPSILON = 1e-5
# A block's inner vectors are that many times as wide as its outer ones.
EXPANSION = 4


class Block(NamedTuple):
    """x + attention(normalised x), then x + feed-forward(normalised x). ``c_attn`` makes queries, keys and values."""

    name: str
    ln_1: LayerNormalization
    c_attn: Linear
    attention: Attention
    attn_proj: Linear
    attn_drop: Dropout
    ln_2: LayerNormalization
    c_fc: Linear
    mlp_proj: Linear
    mlp_drop: Dropout


def blocks(size: Size) -> List[Block]:
    """Return the ``Block`` of a size (a table of ``[sizes]``), in order."""
    return [_block("h.%d" % place, size) for place in range(size["blocks"])]


def _block(name, size):
    width, places, dropout = size["width"], size["tokens"], size["dropout"]
    begin, end = normal(0.02), normal(0.02 / (2 * size["blocks"]) ** 0.5)
    inner = EXPANSION * width
    return Block(
        name,
        LayerNormalization(name + ".ln_1", width, EPSILON),
        Linear(name + ".attn.c_attn", width, 3 * width, begin, ZERO, places),
        Attention(name + ".attn.attention", width, size["heads"], places, places, dropout, causal=True),
        Linear(name + ".attn.c_proj", width, width, end, ZERO, places),
        Dropout(name + ".attn.drop", dropout),
        LayerNormalization(name + ".ln_2", width, EPSILON),
        Linear(name + ".mlp.c_fc", width, inner, begin, ZERO, places),
        Linear(name + ".mlp.c_proj", inner, width, end, ZERO, places),
        Dropout(name + ".mlp.drop", dropout),
    )


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass.

    ``padded``: rows of the table of tokens where there are more than tokens. Matrices whose sides are multiples of 64
    or more are quicker on GPUs (``vocab_size`` of ``GPTConfig`` in nanoGPT's model.py is 50304); the rows beyond are
    never tokens, and are learnt to be unlikely.
    """
    rows = size.get("padded", size["vocabulary"])
    found = [
        Embedding("wte", rows, size["width"], normal(0.02)),
        Embedding("wpe", size["positions"], size["width"], normal(0.01)),
        Dropout("drop", size["dropout"]),
    ]
    for block in blocks(size):
        found += block[1:]
    found.append(LayerNormalization("ln_f", size["width"], EPSILON))
    found.append(Tied("output", "wte", rows, size["width"], size["tokens"]))
    return found
