"""Where a step's time goes in PyTorch: its parts, the forward and backward pass of each layer, the exchange by bucket.

Nothing is serialised: hooks put a mark around each layer's forward pass, and the profiler ties every node of the
backward graph to the operator whose gradient it computes, by autograd's sequence numbers. An operator with no layer of
its own (an addition, a mean) belongs to the module whose forward pass calls it; what the loss does beside the network
is a row too. On CPU devices times are those that passed; on a GPU a layer's are those of its kernels, and the parts'
come from CUDA events of steps without the profiler, which would slow down the launching of kernels.
"""

import collections
import contextlib
from typing import Any, Callable, Iterator, List

import torch
from torch import nn

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks.pytorch import attribution
from workers.trainer.frameworks.pytorch import events as pytorch_events
from workers.trainer.frameworks.pytorch.trace import LAYER, PART, WAIT

# ``name`` in the network; ``kind``: its class; ``parameters_bytes``: of its own, without those of modules in it.
Layer = collections.namedtuple("Layer", "name kind parameters_bytes")


def profile(
    record: Callable[..., Any], steps: int, step: Any, device: torch.device, network: nn.Module, strategy: Any
) -> Data:
    """Return the answer of ``layers``.

    Args:
        record: ``events.record`` for this adapter, with ``steps``, ``step`` and ``shapes``.
        step: the ``Step``.
        network: the module whose layers are told apart, without what a strategy put around it.
        strategy: that of the job (``single.Strategy``).
    """
    events = _parts_by_events(steps, step) if device.type == "cuda" else None
    optimizers = [minimizer.optimizer for minimizer in step.minimizers]
    with marked_layers(network) as layers, strategy.waits_marked(optimizers, _waiting):
        trace = record(steps, lambda: _marked(step), shapes=True)
    gradient_bytes = next(network.parameters()).element_size()
    found = attribution.attribute(trace, steps, layers, strategy.unseen_exchange, gradient_bytes)
    if events:
        exposed_s = found["exposed_exchange_s"] or 0.0
        found["breakdown"].update(events, backward_s=max(0.0, events["backward_s"] - exposed_s))
        found["method"] += "; parts by CUDA events, without the profiler"
    return found


def _waiting():
    return pytorch_events.mark(PART + WAIT)


def _marked(step):
    for name, part in step.parts:
        with pytorch_events.mark(PART + name):
            part()


@contextlib.contextmanager
def marked_layers(network: nn.Module) -> Iterator[List[Any]]:
    """Put marks around the forward pass of every module while this lasts; yields the list of ``Layer``."""
    layers, handles, opened = [], [], []

    def opener(position):
        def enter(*_):
            opened.append(pytorch_events.mark(LAYER + str(position)))
            opened[-1].__enter__()

        return enter

    def leave(*_):
        opened.pop().__exit__(None, None, None)

    for name, module in network.named_modules():
        handles.append(module.register_forward_pre_hook(opener(len(layers))))
        handles.append(module.register_forward_hook(leave))
        own = sum(p.numel() * p.element_size() for p in module.parameters(recurse=False))
        layers.append(Layer(name or attribution.NETWORK, type(module).__name__, own))
    try:
        yield layers
    finally:
        for handle in handles:
            handle.remove()


def _parts_by_events(steps, step):
    """Return the device's seconds per step of each part but the input, which is the host's."""
    torch.cuda.synchronize()
    marks = []
    for _ in range(steps):
        marks.append([_event()])
        for _, part in step.parts:
            part()
            marks[-1].append(_event())
    torch.cuda.synchronize()
    found = {name + "_s": 0.0 for name, _ in step.parts if name != "input"}
    for marked in marks:
        for (name, _), begin, end in zip(step.parts, marked, marked[1:]):
            if name != "input":
                found[name + "_s"] += begin.elapsed_time(end) * 1e-3 / steps
    return found


def _event():
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
