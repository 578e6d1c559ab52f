"""The profiling phases: which there are, how long they last, and what of their findings goes into the log.

They come after the timed phase and never touch it; the loop's clock says what each has cost. ``kernels`` and ``layers``
are phases of the training processes. ``memory`` is a run of its own, of fresh processes of the same attempt:
allocations are followed from the first one, and nothing that was timed is slowed down.
"""

import math
from typing import Tuple

from workers.trainer.base import updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter, Clock, Data, Emit, Watch
from workers.trainer.control import Channel

# Judgements: least steps of each phase. A profiler's own share of them is small beside the operators' time, and the
# first of three steps still differs from the others.
ACTIVITY_STEPS = 2
PHASE_STEPS = (("kernels", 3), ("layers", 3))

# Judgement: as many items in one event as still make a line that a person can look at.
CHUNK = 500

# What the last of the ``allocations`` tells besides: the whole.
_TOTALS = ("steps", "peak_bytes", "peak_method", "outside_bytes", "peak_from_step")


def asked(job: Job) -> Tuple[str, ...]:
    """Return the names of the profiles that the plan asks for."""
    return job.plan.profile


def check(job: Job, adapter: Adapter) -> None:
    """Raise ``TrainerError`` (unsupported) if the plan asks for a profile that the adapter cannot make, or a switch
    that it does not have."""
    unknown = [name for name in job.plan.switches if name not in adapter.switches]
    if unknown:
        raise TrainerError("unsupported", "this adapter has no switch %s" % ", ".join(unknown))
    missing = [name for name in asked(job) if name not in adapter.abilities]
    if missing:
        raise TrainerError("unsupported", "this adapter makes no profile of %s" % ", ".join(missing))
    if len(updates.names(job)) > 1:
        untold = [name for name in asked(job) if name not in adapter.abilities_with_several]
        if untold:
            updates.refuse_several(job, "this adapter makes a profile of %s for one only" % ", ".join(untold))


def whole_steps(job: Job, least: int) -> int:
    """Return the smallest number of steps, ``least`` or more, that the strategy can do between two synchronisations."""
    multiple = job.strategy.step_multiple
    return int(math.ceil(float(least) / multiple)) * multiple


def phases(job: Job, adapter: Adapter, emit: Emit, clock: Clock) -> int:
    """Run the phases that the plan asks for and report them; return how many steps they took."""
    taken = 0
    for name, least in PHASE_STEPS:
        if name not in asked(job):
            continue
        steps = whole_steps(job, least)
        before = clock()
        found = getattr(adapter, name)(steps)
        elapsed_s = clock() - before
        report(name, found, emit)
        emit("profiled", profile=name, steps=steps, elapsed_s=elapsed_s, begun_t=before)
        taken += steps
    return taken


def report(name: str, found: Data, emit: Emit) -> None:
    """Emit what the adapter found: one event, and the timeline of ``kernels`` in as many as it needs."""
    emit(name, **{key: value for key, value in found.items() if key != "spans"})
    spans = found.get("spans")
    if spans:
        for items in _chunks(spans["items"]):
            emit("spans", **_chosen(spans, items))


def allocations(
    job: Job, process: Process, adapter: Adapter, channel: Channel, emit: Emit, watch: Watch, clock: Clock
) -> None:
    """Carry out the phase ``memory`` in a process of its own, from joining to ``profiled``.

    Raises:
        TrainerError: this rank or another one cannot go on.
        Exception: whatever the framework raises; the caller translates it by the adapter.
    """
    check(job, adapter)
    channel.join()
    adapter.join(job, process)
    before = clock()
    found = adapter.memory_profile(job, process, watch)
    elapsed_s = clock() - before
    report_allocations(found, emit)
    emit("profiled", profile="memory", steps=found["steps"], elapsed_s=elapsed_s, begun_t=before)


def report_allocations(found: Data, emit: Emit) -> None:
    """Emit the answer of ``memory_profile``, in as many events as it needs."""
    chunks = list(_chunks(found["allocations"])) or [[]]
    for number, items in enumerate(chunks, start=1):
        last = number == len(chunks)
        totals = {key: found[key] for key in _TOTALS} if last else {}
        emit("allocations", method=found["method"], classes=found["classes"], items=items, last=last, **totals)


def _chunks(items):
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def _chosen(spans, items):
    """Return the data of one ``spans`` event: ``items`` with the names that occur in them and no others."""
    used = sorted({item[0] for item in items})
    place = {index: number for number, index in enumerate(used)}
    return {
        "names": [spans["names"][index] for index in used],
        "lanes": spans["lanes"],
        "items": [[place[item[0]]] + list(item[1:]) for item in items],
    }
