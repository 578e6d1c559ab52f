"""What a spec may switch on in PyTorch beside its model's options; ``framework.toml`` says what goes with what.

Code is compiled, and graphs are recorded, while the model is built: a rehearsal of a step, which leaves no trace but
that. Dropout draws other numbers in compiled code, so the losses of a network that has it differ with ``compile``.
"""

import contextlib
import os
import shutil
import sysconfig
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import nn

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Data


class Switches(object):
    """Those of a plan, for one model on ``device``.

    Raises:
        TrainerError: ``unsupported``, one that such a device does not have; ``setup_failed``, there is no compiler.
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.channels_last = "channels_last" in names
        self.fused_optimizer = "fused_optimizer" in names
        self._compile = "compile" in names
        self._graphs = "cuda_graphs" in names
        self._names = names
        self._device = device
        if self._graphs and device.type != "cuda":
            raise TrainerError("unsupported", "cuda_graphs replays what a GPU recorded: a CPU device records nothing")
        if self._compile:
            _check_compiler(device)

    def lay_out(self, network: nn.Module) -> None:
        """Bring the filters of ``network`` into the layout of its images."""
        if self.channels_last:
            network.to(memory_format=torch.channels_last)

    def loss(
        self, loss: Callable[..., Any], parameters: Sequence[Any], batch: Sequence[Any], casting: Any
    ) -> Callable[..., Any]:
        """Return what computes ``loss`` and its gradients by ``parameters`` from a batch.

        Args:
            batch: one like all that come, on the device.
            casting: the arithmetic, see ``precision.Casting``.
        """
        if self._compile:
            # What a profiler takes for operators on CPU devices has to say its name.
            torch._inductor.config.cpp.enable_kernel_profile = True
            return torch.compile(loss, dynamic=False)
        if self._graphs:
            with casting.recording():
                recorded = torch.cuda.make_graphed_callables(_Loss(loss, parameters), tuple(batch))
            return lambda batch: recorded(*batch)
        return loss

    def rehearse(self, compute: Callable[[], None]) -> None:
        """Compile what is to be compiled, by ``compute``: the passes of a step.

        Raises:
            TrainerError: ``setup_failed``, the compiler cannot do it.
        """
        if not self._compile:
            return
        try:
            compute()
        except (torch._dynamo.exc.TorchDynamoException, torch._inductor.exc.InductorError) as error:
            raise TrainerError("setup_failed", "torch.compile cannot compile this model here: %s" % error)
        # They would wait for more to compile, beside every timed step.
        torch._inductor.async_compile.shutdown_compile_workers()

    @property
    def any_rehearsed(self) -> bool:
        """Whether anything has to be rehearsed."""
        return self._compile or self._graphs

    def in_force(self, network: nn.Module, optimizers: Sequence[Any]) -> Data:
        """Return what is recorded; nothing where all are off, so that such fingerprints are what they always were."""
        found = {"switches": list(self._names)} if self._names else {}
        if self.channels_last:
            found["channels_last_filters"] = sum(_is_channels_last(one) for one in network.parameters())
        if self.fused_optimizer:
            groups = [group for optimizer in optimizers for group in optimizer.param_groups]
            found["fused_optimizer"] = all(group["fused"] is True for group in groups)
        if self._compile:
            counted = torch._dynamo.utils.counters
            breaks = sum(counted["graph_break"].values())
            found["compiled"] = {"backend": "inductor", "graphs": counted["stats"]["unique_graphs"], "breaks": breaks}
        return found


def _is_channels_last(filters):
    return filters.dim() == 4 and filters.is_contiguous(memory_format=torch.channels_last)


@contextlib.contextmanager
def untouched(network: nn.Module, device: torch.device) -> Iterator[None]:
    """Give ``network`` its statistics back, and random numbers their place, after what runs in it."""
    before = [buffer.clone() for buffer in network.buffers()]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
    with torch.no_grad():
        for buffer, value in zip(network.buffers(), before):
            buffer.copy_(value)


class _Loss(nn.Module):
    """A loss as a module of its parameters, which is what CUDA's graphs are made of."""

    def __init__(self, loss, parameters):
        super().__init__()
        self.own = nn.ParameterList(parameters)
        self._loss = loss

    def forward(self, *batch):
        return self._loss(batch)


def _check_compiler(device):
    """inductor writes C++ for CPU devices, Triton a launcher in C for GPUs."""
    wanted = [os.environ.get("CXX", "g++")] if device.type == "cpu" else [os.environ.get("CC", "gcc"), "clang"]
    if not any(map(shutil.which, wanted)):
        message = "compile needs a compiler, %s, and none is on the PATH: apt install g++, or leave compile out"
        raise TrainerError("setup_failed", message % " or ".join(wanted))
    headers = os.path.join(sysconfig.get_path("include"), "Python.h")
    if device.type == "cuda" and not os.path.isfile(headers):
        message = (
            "compile needs %s, which is not there: install the headers of this Python (apt install python3-dev), or"
        )
        raise TrainerError("setup_failed", (message + " leave compile out") % headers)
