"""Deep Speech 2 as data: two convolutions over spectrograms, recurrent layers in both directions, a character a place.

Source of the architecture: Amodei et al., "Deep Speech 2: End-to-End Speech Recognition in English and Mandarin", 2015:
the two convolutions over frequencies and time of its table 2 (there "2-layer 2D"), recurrent layers whose directions
are added (section 3.1) and whose input is normalised (3.2), ReLUs clipped at 20 behind the convolutions, and the loss
of Graves et al., "Connectionist Temporal Classification", 2006. In which order these stand, that every convolution and
the output have a normalisation too, that the first recurrent layer has none, and which layers have biases, is
deepspeech.pytorch's (github.com/SeanNaren/deepspeech.pytorch), of which TBD's settings for PyTorch are a copy
(github.com/tbd-ai/tbd-suite, SpeechRecognition-DeepSpeech2/pytorch).

What differs from the paper: recurrent cells have a tanh, as deepspeech.pytorch's, and no clipped ReLU, which no
framework's operator has; the normalisation leaves padding out.
"""

from typing import List

from suites.assemble.initial import ZERO, over_inputs
from suites.assemble.layers import BidirectionalRecurrent, Convolution, Layer, Linear, SequenceNormalization
from workers.trainer.base.signatures import Size

# What a ReLU behind a convolution gives at most.
MOST = 20.0
# The convolutions: (frequencies, time), each with an odd side, so that padding by half of it keeps the middle.
KERNELS = ((41, 11), (21, 11))
STRIDES = ((2, 2), (2, 1))


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size (a table of ``[sizes]``), in the order of the forward pass."""
    channels, hidden, extent = 1, size["hidden"], (size["frequencies"], size["frames"])
    found = []  # type: List[Layer]
    for number, (kernel, stride) in enumerate(zip(KERNELS, STRIDES), 1):
        extent = (-(-extent[0] // stride[0]), -(-extent[1] // stride[1]))
        bound = over_inputs(channels * kernel[0] * kernel[1])
        facts = (channels, size["channels"], kernel, extent, bound, stride, (kernel[0] // 2, kernel[1] // 2))
        found.append(Convolution("convolution%d" % number, *facts))
        found.append(SequenceNormalization("convolution%d_norm" % number, size["channels"], maps=True))
        channels = size["channels"]
    inputs, places = channels * extent[0], extent[1]
    for number in range(1, size["recurrent_layers"] + 1):
        if number > 1:
            found.append(SequenceNormalization("recurrent%d_norm" % number, inputs))
        recurrent = (size["cell"], inputs, hidden, places, over_inputs(hidden))
        found.append(BidirectionalRecurrent("recurrent%d" % number, *recurrent))
        inputs = hidden
    found.append(SequenceNormalization("output_norm", hidden))
    return found + [Linear("output", hidden, size["symbols"], over_inputs(hidden), ZERO, places, bias=False)]
