"""The layers of a network as PyTorch's modules. Images are NCHW."""

from typing import Dict, List, Sequence, Union

import torch
from torch import nn
from torch.nn import functional

from suites.assemble import layers


def module(layer: Union[layers.Layer, List[layers.Lstm]]) -> nn.Module:
    """Return the module of a described layer; of an LSTM, the list of its layers is one module."""
    kind = type(layer[0]) if isinstance(layer, list) else type(layer)
    return _MODULES[kind](layer)


def attach(network: nn.Module, described: Sequence[layers.Layer]) -> Dict[str, nn.Module]:
    """Put the modules of described layers beneath ``network``, at the places that their names tell; return them by
    name."""
    made = {}
    for name, layer in layers.by_name(described).items():
        above = network
        *path, last = name.split(".")
        for part in path:
            if part not in above._modules:
                above.add_module(part, nn.Module())
            above = above._modules[part]
        made[name] = module(layer)
        above.add_module(last, made[name])
    return made


def _convolution(layer):
    found = (layer.inputs, layer.outputs, layer.kernel)
    return nn.Conv2d(*found, stride=layer.stride, padding=layer.padding, bias=layer.bias)


def _pooling(layer):
    kind = nn.AvgPool2d if layer.average else nn.MaxPool2d
    return kind(layer.kernel, stride=layer.stride, padding=layer.padding, ceil_mode=layer.ceil)


def _lstm(parts_of_it):
    first = parts_of_it[0]
    return nn.LSTM(first.inputs, first.hidden, len(parts_of_it), batch_first=True)


def _recurrent(layer):
    made = {"rnn": nn.RNN, "gru": nn.GRU}[layer.cell]
    return made(layer.inputs, layer.hidden, batch_first=True)


class _Bidirectional(nn.Module):
    """Two recurrent layers, ``ahead`` and ``back``, and what is ``made`` of the hidden states of both. ``mask_NT``: 1
    for what is no padding, 0 for padding.

    PyTorch's own bidirectional layers would begin with the padding, unless the lengths were on the host.
    """

    def __init__(self, ahead, back, made):
        super().__init__()
        self.ahead, self.back, self._made = ahead, back, made

    def forward(self, x_NTE, mask_NT):
        # Counted, for a sum in bfloat16 would be rounded.
        lengths_N1 = (mask_NT > 0).sum(dim=1, keepdim=True)
        places_T = torch.arange(mask_NT.shape[1], device=mask_NT.device)
        order_NT = torch.where(places_T < lengths_N1, lengths_N1 - 1 - places_T, places_T)
        ahead_NTH, _ = self.ahead(x_NTE)
        back_NTH, _ = self.back(_taken(x_NTE, order_NT))
        return self._made(ahead_NTH, _taken(back_NTH, order_NT))


def _side_by_side(layer):
    """See ``layers.BidirectionalLstm``."""
    return _Bidirectional(*(_lstm([one]) for one in layer.directions), lambda *both: torch.cat(both, dim=2))


def _added(layer):
    """See ``layers.BidirectionalRecurrent``."""
    return _Bidirectional(*(_recurrent(one) for one in layer.directions), torch.add)


def _taken(x_NTE, order_NT):
    return x_NTE.gather(1, order_NT.unsqueeze(2).expand_as(x_NTE))


class FixedNormalization(nn.Module):
    """See ``layers.FixedNormalization``; of x_NCHW."""

    def __init__(self, layer: layers.FixedNormalization) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer.channels))
        self.bias = nn.Parameter(torch.zeros(layer.channels))

    def forward(self, x_NCHW: torch.Tensor) -> torch.Tensor:
        scale_C, shift_C = self.weight.to(x_NCHW.dtype), self.bias.to(x_NCHW.dtype)
        return torch.addcmul(shift_C[:, None, None], x_NCHW, scale_C[:, None, None])


class _SequenceNormalization(nn.BatchNorm2d):
    """See ``layers.SequenceNormalization``; of x_NCHT or x_NTC. ``mask_NT``: 1 for what is no padding, 0 for padding.
    It computes in single precision at least."""

    def __init__(self, layer):
        super().__init__(layer.channels, eps=layer.epsilon, momentum=layer.MOMENTUM)
        self._maps = layer.maps

    def forward(self, x, mask_NT):
        axes, of_channels = ((0, 2, 3), (-1, 1, 1)) if self._maps else ((0, 1), (-1,))
        found = single(x)
        mean_C, variance_C = self.running_mean, self.running_var
        if self.training:
            mask = single(mask_NT)[:, None, None] if self._maps else single(mask_NT)[..., None]
            count = mask.sum() * (x.shape[2] if self._maps else 1)
            mean_C = (found * mask).sum(axes) / count
            variance_C = ((found - mean_C.view(of_channels)).square() * mask).sum(axes) / count
            with torch.no_grad():
                self.running_mean.lerp_(mean_C.to(self.running_mean.dtype), self.momentum)
                self.running_var.lerp_(variance_C.to(self.running_var.dtype), self.momentum)
        scale_C = self.weight * (variance_C + self.eps).rsqrt()
        shift_C = self.bias - mean_C * scale_C
        return (found * scale_C.view(of_channels) + shift_C.view(of_channels)).to(x.dtype)


def single(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` in single precision where it is in 16 bits: for sums, and for losses."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class _AdditiveAttention(nn.Module):
    """See ``layers.AdditiveAttention``; it takes one query of each sample. ``mask_NT``: as in ``_Attention``."""

    def __init__(self, layer):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer.width))

    def forward(self, query_NW, keys_NTW, values_NTE, mask_NT):
        hidden_NTW = torch.tanh(keys_NTW + query_NW.unsqueeze(1))
        scores_NT = functional.linear(hidden_NTW, self.weight.unsqueeze(0)).squeeze(2)
        weights_NT = scores_NT.masked_fill(mask_NT == 0, -float("inf")).softmax(dim=1)
        return (weights_NT.unsqueeze(1) @ values_NTE).squeeze(1)


class _Tied(nn.Module):
    """See ``layers.Tied``; it is given the table's weights, which stay the embedding's."""

    def __init__(self, layer):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(layer.count)) if layer.bias else None

    def forward(self, x_NTE, table_KE):
        return functional.linear(x_NTE, table_KE, self.bias)


class _Positions(nn.Module):
    """See ``layers.Positions``."""

    def __init__(self, layer):
        super().__init__()
        self.register_buffer("table_TE", torch.from_numpy(layer.table()), persistent=False)

    def forward(self, x_NTE):
        return x_NTE + self.table_TE[: x_NTE.shape[1]]


class _Attention(nn.Module):
    """See ``layers.Attention``: PyTorch's own operator, which takes what is fastest on the device.

    ``mask_NT``: 1 for the keys that are looked at, 0 for padding; None where there is none.
    """

    def __init__(self, layer):
        super().__init__()
        self._heads = layer.heads
        self._causal = layer.causal
        self._dropout = layer.dropout

    def forward(self, queries_NQE, keys_NTE, values_NTE, mask_NT=None):
        parted = [self._parted(x) for x in (queries_NQE, keys_NTE, values_NTE)]
        x_NHQD = functional.scaled_dot_product_attention(
            *parted,
            attn_mask=None if mask_NT is None else mask_NT.bool()[:, None, None, :],
            dropout_p=self._dropout if self.training else 0.0,
            is_causal=self._causal,
        )
        return x_NHQD.transpose(1, 2).flatten(2)

    def _parted(self, x_NTE):
        return x_NTE.unflatten(2, (self._heads, -1)).transpose(1, 2)


class LocalResponseNorm(nn.LocalResponseNorm):
    """PyTorch's; in single precision for bfloat16 on CPU devices, in which its pooling is not there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.bfloat16 and x.device.type == "cpu":
            return super().forward(x.float()).to(x.dtype)
        return super().forward(x)


_MODULES = {
    layers.Convolution: _convolution,
    layers.TransposedConvolution: lambda layer: nn.ConvTranspose2d(
        layer.inputs, layer.outputs, layer.kernel, stride=layer.kernel
    ),
    layers.Linear: lambda layer: nn.Linear(layer.inputs, layer.outputs, bias=layer.bias),
    layers.Normalization: lambda layer: nn.BatchNorm2d(layer.channels, eps=layer.epsilon, momentum=layer.MOMENTUM),
    layers.FixedNormalization: FixedNormalization,
    layers.SequenceNormalization: _SequenceNormalization,
    layers.LayerNormalization: lambda layer: nn.LayerNorm(layer.width, eps=layer.epsilon),
    layers.MapNormalization: lambda layer: nn.GroupNorm(1, layer.channels, eps=layer.epsilon),
    layers.Upsampling: lambda layer: nn.Upsample(scale_factor=2, mode="nearest"),
    layers.Embedding: lambda layer: nn.Embedding(layer.count, layer.width),
    layers.Tied: _Tied,
    layers.Positions: _Positions,
    layers.Attention: _Attention,
    layers.Lstm: _lstm,
    layers.BidirectionalLstm: _side_by_side,
    layers.BidirectionalRecurrent: _added,
    layers.LstmCell: lambda layer: nn.LSTMCell(layer.inputs, layer.hidden),
    layers.AdditiveAttention: _AdditiveAttention,
    layers.Pooling: _pooling,
    layers.Response: lambda layer: LocalResponseNorm(layer.size, layer.alpha, layer.beta, layer.k),
    layers.Dropout: lambda layer: nn.Dropout(layer.rate),
}
