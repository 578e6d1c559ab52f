"""BERT as data, base and large: their sizes tell them apart.

Source of the architecture: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", 2019, and the code published with it (https://github.com/google-research/bert, ``modeling.py``,
``run_pretraining.py``, ``run_squad.py``): sums are normalised after each part of a block, GELU by its approximation
with tanh, epsilon 1e-12, learned positions; the output over the vocabulary is by the table of the tokens, with a bias.

Weights begin as there: normal with 0.02, cut off at twice that; biases are 0. A network that is fine-tuned begins so
too: what a step costs does not depend on it.
"""

from typing import List, NamedTuple

from suites.assemble.initial import ZERO, truncated
from suites.assemble.layers import Attention, Dropout, Embedding, Layer, LayerNormalization, Linear, Tied
from workers.trainer.base.signatures import Size

EPSILON = 1e-12
INITIAL = truncated(0.02)
# A block's inner vectors are that many times as wide as its outer ones.
EXPANSION = 4


class Block(NamedTuple):
    """normalised(x + attention(x)), then normalised(x + feed-forward(x))."""

    query: Linear
    key: Linear
    value: Linear
    attention: Attention
    projection: Linear
    attention_drop: Dropout
    attention_norm: LayerNormalization
    inner: Linear
    outer: Linear
    drop: Dropout
    norm: LayerNormalization


def blocks(size: Size) -> List[Block]:
    """Return the ``Block`` of a size (a table of ``[sizes]``), in order."""
    return [_block("encoder.%d." % place, size) for place in range(size["blocks"])]


def _block(name, size):
    width, places, dropout = size["width"], size["tokens"], size["dropout"]

    def square(last):
        return _linear(name + last, width, width, places)

    return Block(
        square("query"),
        square("key"),
        square("value"),
        Attention(name + "attention", width, size["heads"], places, places, dropout),
        square("projection"),
        Dropout(name + "attention_drop", dropout),
        LayerNormalization(name + "attention_norm", width, EPSILON),
        _linear(name + "inner", width, EXPANSION * width, places),
        _linear(name + "outer", EXPANSION * width, width, places),
        Dropout(name + "drop", dropout),
        LayerNormalization(name + "norm", width, EPSILON),
    )


def _linear(name, inputs, outputs, places):
    return Linear(name, inputs, outputs, INITIAL, ZERO, places)


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass; ``task``: "pretrain" or "finetune"."""
    width = size["width"]
    found = [
        Embedding("embeddings.tokens", size["vocabulary"], width, INITIAL),
        Embedding("embeddings.positions", size["positions"], width, INITIAL),
        Embedding("embeddings.segments", 2, width, INITIAL),
        LayerNormalization("embeddings.norm", width, EPSILON),
        Dropout("embeddings.drop", size["dropout"]),
    ]
    for block in blocks(size):
        found += block
    if size["task"] == "finetune":
        return found + [_linear("answer", width, 2, size["tokens"])]
    return found + [
        _linear("transform", width, width, size["predictions"]),
        LayerNormalization("transform_norm", width, EPSILON),
        Tied("output", "embeddings.tokens", size["vocabulary"], width, size["predictions"], bias=True),
        _linear("pooler", width, width, 1),
        _linear("following", width, 2, 1),
    ]
