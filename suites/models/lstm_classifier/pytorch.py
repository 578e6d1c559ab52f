"""The LSTM classifier in plain PyTorch: its own Embedding, LSTM (oneDNN's on CPU devices, cuDNN's on GPUs) and Linear.

Dimensions: N texts of a batch, T words, E numbers per word, H per hidden state.
"""

from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.layers import by_name
from suites.assemble.pytorch.layers import module
from suites.models.lstm_classifier import network
from workers.trainer.base.signatures import Size


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        for name, layer in by_name(network.layers(size)).items():
            self.add_module(name, module(layer))

    def forward(self, tokens_NT: Tensor, shares_NT: Tensor) -> Tensor:
        x_NTE = self.embedding(tokens_NT)
        x_NTH, _ = self.lstm(x_NTE)
        x_NH = (x_NTH * shares_NT.unsqueeze(2)).sum(dim=1)
        return self.fc(x_NH)


def criterion(logits_NK: Tensor, labels_N: Tensor) -> Tensor:
    return functional.cross_entropy(logits_NK, labels_N)
