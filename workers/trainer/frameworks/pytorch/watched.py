"""Profiles of a script that trains by itself (``tbd exec --profile``), after its timed part.

The hook (``workers.trainer.hook``) imports this in the script's own process. The steps are the script's: what makes a
profile is told when one is over, and says how many more it wants to see.
"""

import sys
import time
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import distributed

from workers.trainer import profiling
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Emit
from workers.trainer.frameworks import allocation_profile
from workers.trainer.frameworks.pytorch import ddp, events, kernels, memory

# Judgement: as many as of our own models.
KERNEL_STEPS = dict(profiling.PHASE_STEPS)["kernels"]


class Known(object):
    """What the hook knows of the script.

    ``device``: that of its weights; ``parameters``, ``optimizers``: what there is of them now; ``listen``: from then on
    its argument is told the parts of a step as they begin: input, forward, backward, update; None: nobody is.
    """

    def __init__(
        self,
        device: Any,
        parameters: Callable[[], Sequence[Any]],
        optimizers: Callable[[], Sequence[Any]],
        listen: Callable[[Any], None],
    ) -> None:
        self.device = device
        self.parameters = parameters
        self.optimizers = optimizers
        self.listen = listen

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def rest(self) -> None:
        """See ``events.recording``."""
        if distributed.is_available() and distributed.is_initialized() and "gloo" in str(distributed.get_backend()):
            ddp.rest_of_gloo()


def phases(names: Sequence[str], known: Known, emit: Emit) -> Iterator[int]:
    """Make the profiles ``names`` (of ``protocol.PROFILES``) and report them; what goes wrong costs that profile.

    Yields:
        After how many steps to go on. Who does not go on closes it, and the profile that was begun says so.
    """
    for name, phase in _PHASES:
        if name not in names:
            continue
        before = time.monotonic()
        try:
            steps = 0
            for wanted in phase(known, emit):
                yield wanted
                steps += wanted
            emit("profiled", profile=name, steps=steps, elapsed_s=time.monotonic() - before, begun_t=before)
        except GeneratorExit:
            failed(name, "the script ended while it was being made", emit)
            raise
        except Exception as error:
            failed(name, "%s: %s" % (type(error).__name__, error), emit)


def failed(name: str, message: str, emit: Emit) -> None:
    """Say why there is no profile ``name``."""
    emit("profile_failed", profile=name, failure={"kind": "unsupported", "ranks": [], "message": message})


def _kernels(known, emit):
    with events.recording(known.synchronize, known.rest, known.device.type == "cuda") as recorded:
        yield KERNEL_STEPS
    profiling.report("kernels", kernels.table(recorded.trace, KERNEL_STEPS), emit)


def _operations(known, emit):
    from torch.utils.flop_counter import FlopCounterMode

    if _is_compiled():
        raise TrainerError("unsupported", "compiled code does its operations where no counter sees them")
    with FlopCounterMode(display=False) as counter:
        yield 1
    emit("operations", steps=1, flops=counter.get_total_flops(), method="torch.utils.flop_counter.FlopCounterMode")


def _is_compiled():
    found = sys.modules.get("torch._dynamo.utils")
    return found is not None and bool(found.counters["stats"].get("unique_graphs"))


def _memory(known, emit):
    followed = memory.Watched(known.device, known.parameters, known.optimizers)
    followed.begin()
    known.listen(followed.enter)
    try:
        for _ in range(allocation_profile.STEPS):
            yield 1
            followed.step()
    finally:
        known.listen(None)
        followed.end(known.rest)
    profiling.report_allocations(followed.answer(), emit)


# In the order in which they are made: what counts operations slows a step down, and may not be able to look at all.
_PHASES = (("kernels", _kernels), ("memory", _memory), ("operations", _operations))
