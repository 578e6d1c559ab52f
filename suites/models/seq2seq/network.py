"""Seq2Seq as data: recurrent layers on both sides, and an attention between them.

Source of the architecture: TBD's settings for its two implementations (github.com/tbd-ai/tbd-suite,
MachineTranslation-Seq2Seq: the script of Sockeye, the hyperparameters of TensorFlow's NMT). The encoder is Sockeye's:
its first layer reads in both directions, with half of the width in each. Decoder and attention are NMT's: Bahdanau's
scores; the output is computed from what the attention and the upper layer give together, projected without a bias, and
the next place is fed with it. All weights begin uniform within 0.1 (``initial`` of a size), nothing is dropped.

What differs from both: the decoder begins with zeros (Sockeye's ``--rnn-decoder-state-init zero``; by default it
projects the encoder's last states, NMT takes them over), no constant is added to the forget gates, biases begin as
weights do, and sources are not turned round, since the first layer reads them both ways.
"""

from typing import List

from suites.assemble.initial import ZERO, uniform
from suites.assemble.layers import AdditiveAttention, BidirectionalLstm, Embedding, Layer, Linear, Lstm, LstmCell
from workers.trainer.base.signatures import Size


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size (a table of ``[sizes]``), in the order of the forward pass."""
    width, sources, targets = size["width"], size["source_tokens"], size["target_tokens"]
    initial = uniform(size["initial"])

    def linear(name, inputs, outputs, places):
        return Linear(name, inputs, outputs, initial, ZERO, places, bias=False)

    return [
        Embedding("source_tokens", size["source_vocabulary"], width, initial),
        BidirectionalLstm("encoder.lower", width, width // 2, sources, initial),
        Lstm("encoder.upper", 0, width, width, sources, initial),
        linear("encoder.keys", width, width, sources),
        Embedding("target_tokens", size["target_vocabulary"], width, initial),
        # Of a token and of what the place before has given.
        LstmCell("decoder.lower", 2 * width, width, targets, initial),
        LstmCell("decoder.upper", width, width, targets, initial),
        linear("decoder.query", width, width, targets),
        AdditiveAttention("decoder.attention", width, width, targets, sources, initial),
        linear("decoder.vector", 2 * width, width, targets),
        linear("output", width, size["target_vocabulary"], targets),
    ]
