"""Seq2Seq of JoeyNMT's recurrent parts (https://pypi.org/project/joeynmt) with the weights of the suite's.

Its encoder reads all of its layers both ways, or fails (2.3.0 takes the state of a second direction from one that reads
one way): the suite's upper layer is PyTorch's LSTM behind it. Its decoder with input feeding begins with zeros; what
differs is taken out, a bias and a tanh of the vector that is fed. The encoder wants its sentences by length, longest
first, and packs them, so that padding is passed by; decoder and attention compute padding on both sides.
"""

import importlib.metadata
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from workers.trainer.base.job import Job

# What a part is called there, by the beginning of its names in the suite.
NAMES = {
    r"^encoder\.lower\.ahead\.(.*)": r"lower.rnn.\1",
    r"^encoder\.lower\.back\.(.*)": r"lower.rnn.\1_reverse",
    r"^encoder\.upper\.": "upper.",
    r"^encoder\.keys\.": "decoder.attention.key_layer.",
    r"^decoder\.query\.": "decoder.attention.query_layer.",
    r"^decoder\.attention\.weight": "decoder.attention.energy_layer.weight",
    r"^decoder\.lower\.(.*)": r"decoder.rnn.\1_l0",
    r"^decoder\.upper\.(.*)": r"decoder.rnn.\1_l1",
    r"^decoder\.vector\.": "decoder.att_vector_layer.",
    r"^output\.": "decoder.output_layer.",
}


def make(name: str, ours: nn.Module, job: Job) -> tuple[nn.Module, Callable[..., Any]]:
    """Return JoeyNMT's network with the weights of ``ours``, twice: as a module, and as what computes by it what
    ``ours`` computes.

    Raises:
        RuntimeError: it has other parameters.
    """
    found = _network(job.model.size)
    found.load_state_dict({_name(one): _laid_out(one, value) for one, value in ours.state_dict().items()})
    return found, found


def _name(ours):
    for begin, theirs in NAMES.items():
        if re.search(begin, ours):
            return re.sub(begin, theirs, ours)
    return ours


def _laid_out(ours, value):
    return value.unsqueeze(0) if ours == "decoder.attention.weight" else value


def _network(size):
    # Its helpers import what draws curves and maps of attention, which is not installed: no network needs it.
    for name, drawing in (("torch.utils.tensorboard", "SummaryWriter"), ("joeynmt.plotting", "plot_heatmap")):
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], drawing, None)
    sys.modules["importlib_metadata"] = importlib.metadata
    from joeynmt.decoders import RecurrentDecoder
    from joeynmt.encoders import RecurrentEncoder

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            width = size["width"]
            # JoeyNMT's embeddings are PyTorch's where they are not scaled.
            self.source_tokens = nn.Embedding(size["source_vocabulary"], width)
            self.target_tokens = nn.Embedding(size["target_vocabulary"], width)
            self.lower = RecurrentEncoder("lstm", width // 2, width)
            self.upper = nn.LSTM(width, width, batch_first=True)
            vocabulary = size["target_vocabulary"]
            self.decoder = RecurrentDecoder(
                "lstm", width, width, self.lower, num_layers=2, vocab_size=vocabulary, init_hidden="zero"
            )
            self.decoder.att_vector_layer.bias = None
            self.decoder.activation = nn.Identity()

        def forward(self, sources_NS: Tensor, mask_NS: Tensor, targets_NT: Tensor) -> Tensor:
            lengths_N, order_N = mask_NS.sum(dim=1).long().sort(descending=True, stable=True)
            x_NSE, last_NE = self.lower(self.source_tokens(sources_NS[order_N]), lengths_N, None)
            packed, _ = self.upper(pack_padded_sequence(x_NSE, lengths_N, batch_first=True))
            x_NSE, _ = pad_packed_sequence(packed, batch_first=True, total_length=mask_NS.shape[1])
            x_NSE, x_NTE = x_NSE[torch.argsort(order_N)], self.target_tokens(targets_NT)
            # Of the last states it takes the shape alone.
            found = self.decoder(x_NTE, x_NSE, last_NE, mask_NS[:, None], targets_NT.shape[1])
            return found[0]

    return Network()
