"""What an allocation profile says, computed as the tests need it: independent of the orchestrator's analysis."""

import collections

from tests.trainer_process import Trainer, make_job


class Played:
    """A list of allocations [(class, bytes, step)] from its first to its last; ``whole``: what was said of all of it.

    ``most``: {class: its most bytes}; ``at_peak``: {class: bytes} where their sum is the largest; ``live``: at the end;
    ``taken``: {(class, step): bytes taken}.
    """

    def __init__(self, items, whole=None):
        self.whole = whole
        self.live, self.most, self.taken, self.at_peak = *(collections.Counter() for _ in range(3)), {}
        for name, delta, step in items:
            self.live[name] += delta
            assert self.live[name] >= 0, name
            self.most[name] = max(self.most[name], self.live[name])
            self.taken[name, step] += max(0, delta)
            if sum(self.live.values()) > self.peak_bytes:
                self.at_peak = dict(self.live)

    @property
    def peak_bytes(self):
        return sum(self.at_peak.values())


def classes_at_peak(items):
    """Return ({class: bytes} where their sum is the largest, {class: largest bytes})."""
    found = Played(items)
    return found.at_peak, dict(found.most)


def played(events):
    """Return the ``Played`` list of the ``allocations`` of one process."""
    items = [(event["classes"][index], delta, step) for event in events for index, delta, step in event["items"]]
    return Played(items, events[-1])


def memory_by_batch(framework, python, root, batches, model="resnet_50", planted=(), **plan):
    """Return {batch: process} of a model's processes of the phase ``memory``, two side by side."""
    trainers = {}
    for number, batch in enumerate(batches):
        if number > 1:
            trainers[batches[number - 2]].finish()
        folder = root / str(batch)
        folder.mkdir()
        job = make_job(model, framework, profile=["memory"], per_device_batch_size=batch, **plan)
        trainers[batch] = Trainer(job, folder, python, phase="memory", planted=planted)
    for trainer in trainers.values():
        assert trainer.finish() == 0, trainer.output
    return trainers


def counting_the_heap(module, name, *methods):
    """Lines to plant in a trainer: these methods of a class print the C library's count before and after each call."""
    return [
        "from workers.trainer.frameworks import heap",
        f"from {module} import {name}",
        "def counting(method):",
        "    def counted(*given):",
        "        before = heap.in_use_bytes()",
        "        found = method(*given)",
        "        print('heap', before, heap.in_use_bytes(), flush=True)",
        "        return found",
        "    return counted",
        *(f"{name}.{method} = counting({name}.{method})" for method in methods),
    ]


def heap_counts(trainer):
    """Return the (before, after) of each call that was counted."""
    lines = [line.split() for line in trainer.output.splitlines() if line.startswith("heap ")]
    return [(int(before), int(after)) for _, before, after in lines]
