"""What an allocation profile says, computed as the tests need it: independent of the orchestrator's analysis."""

import collections

from tests.trainer_process import Trainer, make_job


def memory_by_batch(framework, python, root, batches, model="resnet_50", **plan):
    """Return {batch: (items, the whole)} of a model's processes of the phase ``memory``, which run side by side."""
    trainers = {}
    for batch in batches:
        folder = root / str(batch)
        folder.mkdir()
        job = make_job(model, framework, profile=["memory"], per_device_batch_size=batch, **plan)
        trainers[batch] = Trainer(job, folder, python, phase="memory")
    for trainer in trainers.values():
        assert trainer.finish() == 0, trainer.output
    return {batch: events_to_profile(trainer) for batch, trainer in trainers.items()}


def events_to_profile(trainer):
    """Return (items with names of classes, the last event's data) of a process of the phase ``memory``."""
    events = trainer.data("allocations")
    items = [(event["classes"][index], delta, step) for event in events for index, delta, step in event["items"]]
    return items, events[-1]


def classes_at_peak(items):
    """Return ({class: bytes} where their sum is the largest, {class: largest bytes})."""
    live, most, at_peak, peak = collections.Counter(), collections.Counter(), {}, 0
    for name, delta, _ in items:
        live[name] += delta
        most[name] = max(most[name], live[name])
        if sum(live.values()) > peak:
            peak, at_peak = sum(live.values()), dict(live)
    return at_peak, dict(most)
