"""Deep Speech 2 in MXNet's Gluon, with its own RNN, GRU and CTC, each one operator.

Dimensions: N utterances of a batch, F frequencies, T frames, C channels, H frequencies and P places of a map, E numbers
of a place, K symbols, L characters of a transcript.
"""

from typing import Any, Tuple

from mxnet.gluon import nn

from suites.assemble.mxnet.layers import attach
from suites.models.deep_speech_2 import network
from workers.trainer.base.signatures import Size


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        self._recurrent = size["recurrent_layers"]
        self._layer = attach(self, network.layers(size))

    def hybrid_forward(self, F: Any, spectrograms_NFT: Any, mask_NT: Any, labels_NL: Any, places_N: Any) -> Any:
        return self.criterion(F, self.outputs(F, spectrograms_NFT, mask_NT), labels_NL, places_N)

    def outputs(self, F: Any, spectrograms_NFT: Any, mask_NT: Any) -> Tuple[Any]:
        layer, x_NCHP, mask_NP = self._layer, F.expand_dims(spectrograms_NFT, axis=1), mask_NT
        for name, (_, stride) in zip(("convolution1", "convolution2"), network.STRIDES):
            mask_NP = F.slice(mask_NP, begin=(None, None), end=(None, None), step=(1, stride))
            x_NCHP = F.clip(layer[name + "_norm"](layer[name](x_NCHP), mask_NP), 0.0, network.MOST)
            # Behind an utterance is nothing, as beyond the border.
            x_NCHP = F.broadcast_mul(x_NCHP, F.reshape(mask_NP, shape=(0, 1, 1, -1)))
        x_NPE = F.transpose(F.reshape(x_NCHP, shape=(0, -3, -2)), axes=(0, 2, 1))
        for number in range(1, self._recurrent + 1):
            name = "recurrent%d" % number
            x_NPE = layer[name + "_norm"](x_NPE, mask_NP) if number > 1 else x_NPE
            x_NPE = layer[name](x_NPE, mask_NP)
        return (layer["output"](layer["output_norm"](x_NPE, mask_NP)),)

    def criterion(self, F: Any, outputs: Tuple[Any], labels_NL: Any, places_N: Any) -> Any:
        labels_NL = F.cast(labels_NL, dtype="float32")
        lengths_N = F.sum(labels_NL > 0, axis=1)
        logits_PNK = F.cast(F.transpose(outputs[0], axes=(1, 0, 2)), dtype="float32")
        return F.mean(
            F.CTCLoss(
                logits_PNK,
                labels_NL,
                F.cast(places_N, dtype="float32"),
                lengths_N,
                use_data_lengths=True,
                use_label_lengths=True,
                blank_label="first",
            )
        )
