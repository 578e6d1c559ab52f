"""The Transformer as data.

Source of the architecture: Vaswani et al., "Attention Is All You Need", 2017, sections 3 and 5.4: sums are normalised
after each part of a block, ReLU, sines for places, one table of tokens for sources, targets and the output, which
enters multiplied by the root of its width (section 3.4); the projections of the attention have no bias. What the paper
does not say is that of the code published with it (https://github.com/tensorflow/tensor2tensor): epsilon 1e-6, tokens
that begin normal with 1 / root of the width, matrices as Glorot and Bengio's.
"""

from typing import List, NamedTuple

from suites.assemble.initial import ZERO, glorot, normal
from suites.assemble.layers import Attention, Dropout, Embedding, Layer, LayerNormalization, Linear, Positions, Tied
from workers.trainer.base.signatures import Size

EPSILON = 1e-6
# Section 5.4: a tenth of the probability is spread over all tokens.
LABEL_SMOOTHING = 0.1


class Attended(NamedTuple):
    """normalised(x + attention of x to what it looks at)."""

    query: Linear
    key: Linear
    value: Linear
    attention: Attention
    projection: Linear
    drop: Dropout
    norm: LayerNormalization


class Fed(NamedTuple):
    """normalised(x + feed-forward(x))."""

    inner: Linear
    outer: Linear
    drop: Dropout
    norm: LayerNormalization


class Encoder(NamedTuple):
    own: Attended
    fed: Fed


class Decoder(NamedTuple):
    """``source``: its attention to the encoder's output."""

    own: Attended
    source: Attended
    fed: Fed


def encoders(size: Size) -> List[Encoder]:
    """Return the blocks of the encoder of a size (a table of ``[sizes]``), in order."""
    places = size["source_tokens"]
    return [
        Encoder(_attended(name + "own", size, places, places), _fed(name + "fed", size, places))
        for name in ("encoder.%d." % place for place in range(size["blocks"]))
    ]


def decoders(size: Size) -> List[Decoder]:
    """Return the blocks of the decoder, in order."""
    places, sources = size["target_tokens"], size["source_tokens"]
    return [
        Decoder(
            _attended(name + "own", size, places, places, causal=True),
            _attended(name + "source", size, places, sources),
            _fed(name + "fed", size, places),
        )
        for name in ("decoder.%d." % place for place in range(size["blocks"]))
    ]


def _attended(name, size, queries, keys, causal=False):
    width = size["width"]

    def square(last, places):
        return Linear(name + last, width, width, glorot(width, width), ZERO, places, bias=False)

    return Attended(
        square(".query", queries),
        square(".key", keys),
        square(".value", keys),
        Attention(name + ".attention", width, size["heads"], queries, keys, 0.0, causal),
        square(".projection", queries),
        Dropout(name + ".drop", size["dropout"]),
        LayerNormalization(name + ".norm", width, EPSILON),
    )


def _fed(name, size, places):
    width, inner = size["width"], size["inner"]
    return Fed(
        Linear(name + ".inner", width, inner, glorot(width, inner), ZERO, places),
        Linear(name + ".outer", inner, width, glorot(width, inner), ZERO, places),
        Dropout(name + ".drop", size["dropout"]),
        LayerNormalization(name + ".norm", width, EPSILON),
    )


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass."""
    width, dropout = size["width"], size["dropout"]
    found = [
        Embedding("tokens", size["vocabulary"], width, normal(width**-0.5)),
        Positions("source_positions", size["source_tokens"], width),
        Dropout("source_drop", dropout),
    ]
    for encoder in encoders(size):
        found += encoder.own + encoder.fed
    found += [Positions("target_positions", size["target_tokens"], width), Dropout("target_drop", dropout)]
    for decoder in decoders(size):
        found += decoder.own + decoder.source + decoder.fed
    return found + [Tied("output", "tokens", size["vocabulary"], width, size["target_tokens"])]
