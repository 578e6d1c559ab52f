"""An LSTM classifier of texts as data. Names are PyTorch's.

Source of the architecture: Zhang, Zhao, LeCun, "Character-level Convolutional Networks for Text Classification", 2015,
section 3.2: words as 300 numbers, one "vanilla" LSTM of 512, the mean of its outputs over all words of the text, a
multinomial logistic regression. Two things are ours: the words' vectors are trained from random ones (theirs begin with
word2vec's), and the norm of the gradients is not limited (theirs is, to 5).

Weights begin as those of PyTorch's layers: words normal with variance 1, all others uniform within 1 / sqrt(hidden).
"""

from typing import List

from suites.assemble.initial import normal, over_inputs
from suites.assemble.layers import Embedding, Layer, Linear, Lstm
from workers.trainer.base.signatures import Size


def lstm(size: Size) -> List[Lstm]:
    """Return the LSTM layers of a size (a table of ``[sizes]``), in order."""
    inputs = [size["embedding"]] + [size["hidden"]] * (size["lstm_layers"] - 1)
    initial = over_inputs(size["hidden"])
    return [Lstm("lstm", number, count, size["hidden"], size["words"], initial) for number, count in enumerate(inputs)]


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size, in the order of the forward pass."""
    embedding = Embedding("embedding", size["vocabulary"], size["embedding"], normal(1.0))
    initial = over_inputs(size["hidden"])
    return [embedding] + lstm(size) + [Linear("fc", size["hidden"], size["classes"], initial, initial)]
