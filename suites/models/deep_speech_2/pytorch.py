"""Deep Speech 2 in plain PyTorch, with its own RNN, GRU and CTC.

Dimensions: N utterances of a batch, F frequencies, T frames, C channels, H frequencies and P places of a map, E numbers
of a place, K symbols, L characters of a transcript.
"""

from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import attach, single
from suites.models.deep_speech_2 import network
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self._layer = attach(self, network.layers(size))
        self._recurrent = size["recurrent_layers"]

    def forward(self, spectrograms_NFT: Tensor, mask_NT: Tensor) -> Tensor:
        layer, x_NCHP, mask_NP = self._layer, spectrograms_NFT.unsqueeze(1), mask_NT
        for name, (_, stride) in zip(("convolution1", "convolution2"), network.STRIDES):
            mask_NP = mask_NP[:, ::stride]
            x_NCHP = functional.relu(layer[name + "_norm"](layer[name](x_NCHP), mask_NP))
            # Behind an utterance is nothing, as beyond the border.
            x_NCHP = x_NCHP.clamp(max=network.MOST) * mask_NP[:, None, None]
        x_NPE = x_NCHP.flatten(1, 2).transpose(1, 2)
        for number in range(1, self._recurrent + 1):
            name = "recurrent%d" % number
            x_NPE = layer[name + "_norm"](x_NPE, mask_NP) if number > 1 else x_NPE
            x_NPE = layer[name](x_NPE, mask_NP)
        return layer["output"](layer["output_norm"](x_NPE, mask_NP))


def criterion(logits_NPK: Tensor, labels_NL: Tensor, places_N: Tensor) -> Tensor:
    logarithms_PNK = functional.log_softmax(single(logits_NPK), dim=2).transpose(0, 1)
    lengths_N = (labels_NL > 0).sum(dim=1)
    return functional.ctc_loss(logarithms_PNK, labels_NL, places_N, lengths_N, reduction="none").mean()
