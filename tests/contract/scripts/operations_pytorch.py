"""Print the operations of one sample's forward pass as PyTorch counts them, for each [module, input, size] in a list.

Shapes only: nothing is computed, the numbers lie on the device "meta".
"""

import importlib
import json
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode

from suites.assemble.pytorch import regions

SAMPLES = 2


def count(module, inputs, size):
    own = importlib.import_module(module + ".pytorch")
    fields = importlib.import_module("suites.inputs." + inputs).fields(size)
    given, targets = ([tensor(one) for one in fields if one.target == target] for target in (False, True))
    with torch.device("meta"):
        # Constants are made of arrays, and come after.
        network = own.Network(size).to("meta")
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            own.criterion(network(*given), *targets)
    return counter.get_total_flops() // SAMPLES


def tensor(field):
    shape = field.shape[-1:] + field.shape[:-1] if field.kind == "image" else field.shape
    dtype = torch.int64 if field.kind in ("label", "tokens") else torch.float32
    return torch.zeros((SAMPLES, *shape), dtype=dtype, device="meta")


if __name__ == "__main__":
    # It is not there on the device "meta", and multiplies nothing.
    torch.nn.functional.ctc_loss = lambda logarithms, *_, reduction: logarithms.sum()
    # How many boxes stay depends on numbers; they multiply nothing, too.
    regions.kept = lambda boxes, there, most, _: torch.zeros(most, dtype=torch.int64)
    print(json.dumps([count(*cell) for cell in json.loads(sys.argv[1])]))
