"""The LSTM classifier in MXNet's Gluon: its own Embedding, LSTM (one operator: oneDNN's, cuDNN's on GPUs) and Dense.

Dimensions: N texts of a batch, T words, E numbers per word, H per hidden state.
"""

from typing import Any, Tuple

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble.layers import by_name
from suites.assemble.mxnet.layers import block
from suites.models.lstm_classifier import network
from workers.trainer.base.signatures import Size


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        for name, layer in by_name(network.layers(size)).items():
            setattr(self, name, block(layer))
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, tokens_NT: Any, shares_NT: Any, labels_N: Any) -> Any:
        return self.criterion(F, self.outputs(F, tokens_NT, shares_NT), labels_N)

    def outputs(self, F: Any, tokens_NT: Any, shares_NT: Any) -> Tuple[Any]:
        x_NTE = self.embedding(tokens_NT)
        x_NTH = self.lstm(x_NTE)
        x_NH = F.sum(F.broadcast_mul(x_NTH, F.expand_dims(shares_NT, axis=2)), axis=1)
        return (self.fc(x_NH),)

    def criterion(self, F: Any, outputs: Tuple[Any], labels_N: Any) -> Any:
        return F.mean(self.cross_entropy(outputs[0], labels_N))
