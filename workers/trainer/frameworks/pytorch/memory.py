"""Which memory a training in PyTorch takes, allocation by allocation: from the profiler's record of the allocators.

The events of the allocators, with addresses and the operators they happened in, are private to PyTorch: they are looked
up here and nowhere else, and a version that has no such thing says so.
"""

import collections
import itertools
import re
from typing import Any, Callable, Dict, List, Sequence

import torch

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import allocation_profile, resident
from workers.trainer.frameworks.allocation_profile import STEPS, Note
from workers.trainer.frameworks.pytorch import events as pytorch_events
from workers.trainer.frameworks.pytorch import ownership, shares
from workers.trainer.frameworks.pytorch.ownership import Change, Part
from workers.trainer.frameworks.pytorch.trace import MARK, PART

# Steps on a GPU in which cuDNN tries its algorithms, whose workspaces no later step takes: the peak counts after them.
SEARCHED_STEPS = 1
_BUILD = "build"
_NOTE = "note:"
_RECORDED = "recorded:"


def profile(build: Callable[[], Any], device: torch.device, rest: Callable[[], None]) -> Data:
    """Build and run a few steps with tracking on from the first allocation; return the answer of ``memory_profile``.

    Args:
        build: makes everything and returns the ``Step``.
        rest: see ``events.record``.

    Raises:
        TrainerError: ``unsupported``, this version of PyTorch does not tell what its allocators do.
    """
    rise = resident.Rise()
    # The host's part of the profiler sees the allocators of all devices; kernels need not be followed.
    with torch.autograd.profiler.profile(profile_memory=True, use_kineto=True) as profiler:
        owned = _run(build, device)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        rise.stop()
        rest()
    events = _events(profiler)
    changes, counted_bytes = _changes(events, device.type)
    notes, parts = _marks(events, owned)
    allocations = ownership.classify(changes, notes, parts)
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device), "torch.cuda.max_memory_allocated after the first step"
        # Context, libraries, the allocator's own reserve.
        free, total = torch.cuda.mem_get_info(device)
        outside_bytes = total - free - peak[0]
    else:
        peak = counted_bytes, "count of PyTorch's CPU allocator at its highest (total_allocated)"
        outside_bytes = rise.beyond(counted_bytes)
    method = "kineto allocation events, owner by address, then by time"
    counted_from = SEARCHED_STEPS + 1 if device.type == "cuda" else 0
    return allocation_profile.answer(method, STEPS, allocations, peak, outside_bytes, counted_from)


def _run(build, device):
    """Build and train; return what was looked up, by the number of its note."""
    owned = []

    def note(found):
        with pytorch_events.mark(_NOTE + str(len(owned))):
            owned.append(found)

    with pytorch_events.mark(_RECORDED + _BUILD + ":0"):
        step = build()
    network, optimizers = step.model.network, [one.optimizer for one in step.minimizers]
    for number in range(1, STEPS + 1):
        for name, part in step.parts:
            with pytorch_events.mark("%s%s:%d" % (_RECORDED, name, number)):
                part()
            others = [("other", network.buffers()), ("input", step.tensors or [])]
            note(_owned(list(network.parameters()), optimizers, others))
        if number == SEARCHED_STEPS and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
    return owned


class Watched(object):
    """Follows the allocations of steps that somebody else does, and who says when their parts begin: ``enter``.

    What was there before is known by its role alone: weights, their gradients, the optimisers' state.

    Args:
        parameters, optimizers: return what there is of them now.
    """

    METHOD = "kineto allocation events, owner by address, then by time; of what was there before: by the optimisers"

    def __init__(
        self,
        device: torch.device,
        parameters: Callable[[], Sequence[torch.Tensor]],
        optimizers: Callable[[], Sequence[torch.optim.Optimizer]],
    ) -> None:
        self._device = device
        self._parameters = parameters
        self._optimizers = optimizers
        self._owned: List[Any] = []
        self._sizes: Dict[int, int] = {}
        self._open: Any = None
        self._step = 1
        self._profiler = torch.autograd.profiler.profile(profile_memory=True, use_kineto=True)

    def begin(self) -> None:
        """Begin to record, at the end of a step."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        self._profiler.__enter__()
        with pytorch_events.mark(_RECORDED + _BUILD + ":0"):
            self.look()
        self._sizes = {tensor.data_ptr(): tensor.nbytes() for tensor in map(_storage, self._known())}
        self.enter("forward")

    def enter(self, name: str) -> None:
        """Another part of the step begins."""
        self._leave()
        if name in ("backward", "update"):
            self.look()
        self._open = pytorch_events.mark("%s%s:%d" % (_RECORDED, name, self._step))
        self._open.__enter__()

    def step(self) -> None:
        """A step is over, and the next one begins."""
        self._leave()
        self.look()
        self._step += 1
        self.enter("forward")

    def look(self) -> None:
        """Note what has which role now."""
        with pytorch_events.mark(_NOTE + str(len(self._owned))):
            self._owned.append(_owned(self._parameters(), self._optimizers(), ()))

    def answer(self) -> Data:
        """Return the answer of ``memory_profile``, once the recording has ended.

        Raises:
            TrainerError: ``unsupported``, this version of PyTorch does not tell what its allocators do.
        """
        events = _events(self._profiler)
        notes, parts = _marks(events, self._owned)
        begun = parts[0].start
        # The CPU allocator does not tell that a block ends which it had given before: what is gone at the second look,
        # such as gradients, counts as gone at once. A view may be told beside what it is a view of: then there is more
        # of it than its storage holds.
        sizes = [
            (address, max(self._sizes[address], sum(size for _, size in owned)))
            for address, owned in self._owned[0].items()
            if self._sizes.get(address) and address in self._owned[1]
        ]
        before = [Change(begun, address, size, None, None) for address, size in sizes]
        changes = sorted(before + _changes(events, self._device.type)[0], key=lambda change: change.at)
        allocations = ownership.classify(changes, notes, parts)
        outside_bytes = None
        if self._device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(self._device), "torch.cuda.max_memory_allocated of these steps"
            free, total = torch.cuda.mem_get_info(self._device)
            outside_bytes = total - free - peak[0]
        else:
            level = most = 0
            for _, change, _ in allocations:
                level += change
                most = max(most, level)
            peak = most, "the allocations themselves: PyTorch's CPU allocator does not tell of those before"
        return allocation_profile.answer(self.METHOD, self._step - 1, allocations, peak, outside_bytes)

    def end(self, rest: Callable[[], None]) -> None:
        """End the recording; ``rest``: see ``events.recording``."""
        self._leave()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        rest()
        self._profiler.__exit__(None, None, None)

    def _leave(self):
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None

    def _known(self):
        parameters = list(self._parameters())
        gradients = [one.grad for one in parameters if one.grad is not None]
        return itertools.chain(parameters, gradients, _state(self._optimizers()))


def _storage(tensor):
    return shares.local(tensor).untyped_storage()


def _owned(parameters, optimizers, others):
    """Return {address of a storage: [(class, bytes)]} of all that has a role now; ``others``: (class, tensors)."""
    roles = [("weights", parameters), ("weight_gradients", [p.grad for p in parameters if p.grad is not None])]
    roles.append(("optimizer_state", _state(optimizers)))
    roles.extend(others)
    found = collections.defaultdict(list)
    for name, members in roles:
        for tensor in map(shares.local, members):
            found[tensor.untyped_storage().data_ptr()].append((name, tensor.numel() * tensor.element_size()))
    return dict(found)


def _state(optimizers):
    for state in [state for optimizer in optimizers for state in optimizer.state.values()]:
        for value in state.values():
            if torch.is_tensor(value):
                yield value


def _events(profiler):
    """Return the events of the profiler's tree, in order of their start."""
    try:
        waiting = list(profiler.kineto_results.experimental_event_tree())
    except AttributeError as error:
        raise TrainerError("unsupported", "PyTorch %s tells nothing of its allocators: %s" % (torch.__version__, error))
    found = []
    while waiting:
        event = waiting.pop()
        found.append(event)
        waiting.extend(event.children)
    return sorted(found, key=lambda event: event.start_time_ns)


def _changes(events, kind):
    """Return ([Change], the highest that the allocator itself counted) for devices of that kind."""
    changes, counter = [], 0
    for event in events:
        if event.tag.name == "Allocation" and event.extra_fields.device.type == kind:
            fields = event.extra_fields
            changes.append(Change(event.start_time_ns, fields.ptr, fields.alloc_size, _until(event), event.start_tid))
            counter = max(counter, fields.total_allocated)
    return changes, counter


def _until(event):
    """Return the end of the outermost operator around an event; marks and a library's annotations are none."""
    until = None
    while event.parent is not None:
        event = event.parent
        if event.tag.name == "TorchOp" and event.extra_fields.scope != torch._C._profiler.RecordScope.USER_SCOPE:
            until = event.end_time_ns
    return until


def _marks(events, owned):
    """Return ([Note], [Part]) from our marks."""
    notes, parts = [], []
    step = 0
    for event in events:
        if event.tag.name != "TorchOp" or not event.name.startswith(MARK):
            continue
        kind, name = re.match(re.escape(MARK) + r"(\w+:)(.*)", event.name).groups()
        if kind == _NOTE:
            notes.append(Note(event.start_time_ns, owned[int(name)]))
            continue
        if kind == _RECORDED:
            name, step = name.split(":")
        elif kind != PART:
            continue
        parts.append(Part(event.start_time_ns, event.end_time_ns, name, int(step)))
    return notes, parts
