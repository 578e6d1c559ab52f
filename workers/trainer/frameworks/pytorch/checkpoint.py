"""What a checkpoint keeps of a training in PyTorch, as named arrays.

``network/``: all that is kept with a network, weights and running statistics; of each update ``optimizer/N/``, the
state of its optimiser, ``schedule/N``, how many rates were set, ``scaler/N``, how the loss is scaled; ``random/``: the
generators that dropout draws from.
"""

from typing import Any, Dict, Sequence

import numpy
import torch

from workers.trainer.base.signatures import Array, Arrays


def taken(network: Any, minimizers: Sequence[Any], device: torch.device) -> Dict[str, Array]:
    """Return {name: array} of everything; bfloat16 is widened to single precision, which holds all of its numbers."""
    found = {"network/" + name: _array(tensor) for name, tensor in network.state_dict().items()}
    for number, minimizer in enumerate(minimizers):
        for index, state in minimizer.optimizer.state_dict()["state"].items():
            for name, value in state.items():
                if value is not None:
                    found["optimizer/%d/%d/%s" % (number, index, name)] = _array(torch.as_tensor(value))
        found["schedule/%d" % number] = numpy.array(minimizer.schedule.steps, dtype=numpy.int64)
        scale = minimizer.casting.scale()
        if scale is not None:
            found["scaler/%d" % number] = numpy.array(scale, dtype=numpy.float64)
    found["random/cpu"] = torch.get_rng_state().numpy()
    if device.type == "cuda":
        found["random/cuda"] = torch.cuda.get_rng_state(device).numpy()
    return found


def given(network: Any, minimizers: Sequence[Any], device: torch.device, arrays: Arrays) -> None:
    """Take what ``taken`` has returned, in place: whatever holds the network's tensors holds them still.

    Raises:
        KeyError, RuntimeError: it is of another network.
    """
    state = network.state_dict()
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(torch.from_numpy(arrays["network/" + name]))
    for number, minimizer in enumerate(minimizers):
        _give_optimizer(minimizer.optimizer, "optimizer/%d/" % number, arrays)
        minimizer.schedule.steps = int(arrays["schedule/%d" % number])
        if "scaler/%d" % number in arrays:
            minimizer.casting.rescale(*arrays["scaler/%d" % number].tolist())
    torch.set_rng_state(torch.from_numpy(arrays["random/cpu"]))
    if "random/cuda" in arrays and device.type == "cuda":
        torch.cuda.set_rng_state(torch.from_numpy(arrays["random/cuda"]), device)


def _give_optimizer(optimizer, beneath, arrays):
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    state: Dict[int, Dict[str, Any]] = {}
    for name in arrays:
        if name.startswith(beneath):
            index, own = name[len(beneath) :].split("/", 1)
            state.setdefault(int(index), {})[own] = _like(parameters[int(index)], torch.from_numpy(arrays[name]))
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _like(parameter, value):
    """Return ``value`` in the layout of its parameter, where it is one number for each of the parameter's."""
    return torch.empty_like(parameter).copy_(value) if value.shape == parameter.shape and value.dim() else value


def _array(tensor):
    wide = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
    return wide.cpu().contiguous().numpy()
