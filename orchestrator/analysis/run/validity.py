"""How far a run's numbers may be believed: small rules, one table.

A rule returns a ``Reason`` (which grades the run), ``Advice`` (which does not, and says what its reader can do), a fact
that nobody has to act on, in words, or nothing. A replaceable reason
names a cause that was measured apart from the timed intervals: the run was disturbed, and another may do better. The
others mean that what ran was not what was asked for: such a run is broken and never has a rate. How the times look
by themselves (unsteady, drifting, short) grades nothing: leaving out the restless runs selects for luck
(docs/read_results/statistics.md).
"""

import math
from collections.abc import Callable, Sequence
from statistics import median

from orchestrator.analysis.log import nccl, plausible, windows
from orchestrator.analysis.run import conditions, replicas
from orchestrator.analysis.run.evidence import Evidence
from orchestrator.analysis.run.utilization import NodeSpan
from orchestrator.analysis.statistics.course import CourseState
from orchestrator.domain.value.measurement import Advice, Finding, Reason, Validity

# Judgements.
MAX_FOREIGN_RATIO = 0.10  # of the host's core time, used by neither the attempt nor tbd
MAX_STOLEN_RATIO = 0.05  # of the host's core time, taken by the hypervisor
MAX_SWAP_IN_BYTES_PER_S = 2**20  # read back from swap
MAX_ENERGY_RATIO, LEAST_ENERGY_S = 0.05, 2.0  # between counter and sensor, over so long at least
MAX_THROTTLED_RATIO = 0.01  # of the timed phase, in which a device protected itself
LOSS_STEPS_LEAST = 200  # steps before a loss that should fall must have fallen
LOSS_VALUES_LEAST = 30  # values before anything is said of its course
LOSS_RISE_RATIO = 0.25  # of the first third's median: the first steps of a training may go up before they go down

# NVML clocks event reasons that mean the device protects itself: hardware slowdown, software and hardware thermal
# slowdown, power brake (nvml.h). The software power cap (0x4) is no fault: large devices run at it all the time.
THROTTLE_BITS = 0x8 | 0x20 | 0x40 | 0x80
POWER_CAP_BIT = 0x4
# The same by the seconds of each cause, where the driver adds them up.
SLOWED_S = ("software_slowed_s", "hardware_slowed_s", "power_braked_s")
POWER_CAPPED_S = ("power_capped_s",)

# What may end a run before its length -> the field of the spec that set it.
LIMITS = {"max_steps": "max_steps", "max_duration": "max_measure_s (or half of timeout_s)"}

# Why a driver that can be asked does not tell who computes on a device -> what a person reads.
UNTOLD = {
    "own_pids_unseen": "the driver never lists our own processes (in a container it may name them by the host's pids)",
    "no_permission": "the driver does not permit to list its processes",
    "unsupported": "the driver has no list of its processes",
}

Found = Finding | None


def judge(evidence: Evidence) -> Validity:
    """Apply every rule."""
    return Validity.of(rule(evidence) for rule in RULES)


def _broken(code: str, text: str) -> Reason:
    return Reason(code, text, replaceable=False)


def _disturbed(code: str, text: str) -> Reason:
    return Reason(code, text, replaceable=True)


def all_ranks_finished(evidence: Evidence) -> Found:
    finished = {rank for rank, _ in evidence.of("finished")}
    missing = [rank for rank in evidence.leading_ranks if rank not in finished]
    return _broken("ranks_missing", f"ranks {missing} did not report that they finished") if missing else None


def world_is_whole(evidence: Evidence) -> Found:
    """As many ranks joined as the job has, each with a device of its own."""
    wanted = int(evidence.job["world_size"])
    joined = {int(data["world_size"]) for _, data in evidence.of("joined")}
    devices = [device["id"] for process in evidence.job["processes"] for device in process["devices"]]
    if len(evidence.ranks) != wanted or joined - {wanted}:
        return _broken("world_size", f"the job has {wanted} ranks, those that joined saw {sorted(joined)}")
    if len(devices) < wanted:
        return _broken("devices_missing", f"{wanted} ranks hold {len(devices)} devices")
    return None


def steps_are_contiguous(evidence: Evidence) -> Found:
    """Every rank reports all its steps, from the first, or that from which it was resumed, to the one it stopped at."""
    if evidence.world_problem:
        return _broken("ranks_disagree", evidence.world_problem)
    stopped = {int(data["step"]) for _, data in evidence.of("stopped")}
    begun = _resumed_at(evidence)
    ends = set()
    for rank in evidence.leading_ranks:
        own = [item for log in evidence.logs for item in log.intervals if item.rank == rank]
        wanted = begun + 1
        for item in sorted(own, key=lambda item: item.first_step):
            if item.first_step != wanted:
                return _broken("steps_missing", f"rank {rank} reports step {item.first_step} where {wanted} should be")
            wanted = item.first_step + item.n
        ends.add(wanted - 1)
    if len(ends | stopped) > 1:
        return _broken("steps_missing", f"intervals end at steps {sorted(ends)}, the loop at {sorted(stopped)}")
    return None


def _resumed_at(evidence: Evidence) -> int:
    """The step of the checkpoint that the attempt went on from, 0 where it began anew."""
    return max((int(data["step"]) for _, data in evidence.of("resumed")), default=0)


def clocks_agree(evidence: Evidence) -> Found:
    """A duration is a difference of the clock that stamps the entries: it cannot be another one's."""
    found = plausible.disagreement([item for log in evidence.logs for item in log.intervals])
    return _broken("clocks_disagree", found) if found else None


def loss_is_finite(evidence: Evidence) -> Found:
    bad = [step for step, value in evidence.losses if not math.isfinite(value)]
    return _broken("loss_not_finite", f"the loss is not finite at step {bad[0]}") if bad else None


def loss_goes_as_promised(evidence: Evidence) -> Found:
    """Medians of the first and the last third. ``falling`` asks for a fall once there were steps enough for one."""
    promise = evidence.job["model"].get("loss", "any")
    losses = [value for _, value in evidence.losses if math.isfinite(value)]
    if promise == "any":
        return None
    if promise == "noted":
        return _noted_loss(losses)
    if not losses:
        return _broken("loss_missing", "no loss was reported")
    if len(losses) < LOSS_VALUES_LEAST:
        return f"{len(losses)} values of the loss: not enough steps to judge it"
    third = len(losses) // 3
    first, last = losses[:third], losses[-third:]
    rise = median(last) - median(first)
    text = f"its median went from {median(first):.4g} in the first third to {median(last):.4g} in the last"
    if rise > LOSS_RISE_RATIO * abs(median(first)) + 3.0 * _median_error(first, last):
        return _broken("loss_rises", f"the loss rises: {text}")
    if promise != "falling" or rise < 0:
        return None
    if resumed_at := _resumed_at(evidence):
        return f"the attempt was resumed at step {resumed_at}, and the loss has not fallen since then: {text}"
    if evidence.losses[-1][0] < LOSS_STEPS_LEAST:
        return f"the loss has not fallen yet, and {len(losses)} values are not enough steps to judge: {text}"
    return _broken("loss_not_falling", f"the loss should fall: {text}")


def _noted_loss(losses: Sequence[float]) -> Found:
    """Of a training that nobody has promised anything of: whether it seems to learn is for its author to judge."""
    if not losses:
        return Advice("no loss was seen: whether it learned anything cannot be told")
    if len(losses) >= LOSS_VALUES_LEAST:
        third = len(losses) // 3
        first, last = median(losses[:third]), median(losses[-third:])
        if last >= first:
            return Advice(f"the loss does not fall: its median went from {first:.4g} in the first third to {last:.4g}")
    return None


def _median_error(first: Sequence[float], last: Sequence[float]) -> float:
    """Standard error of the difference of two medians, from median absolute deviations (1.253: normal noise)."""
    parts = []
    for values in (first, last):
        middle = median(values)
        parts.append((1.4826 * median(abs(value - middle) for value in values)) ** 2 / len(values))
    return 1.253 * math.sqrt(sum(parts))


def replicas_are_equal(evidence: Evidence) -> Found:
    """A framework that trains on without synchronising is fast and wrong."""
    if len(evidence.ranks) < 2:
        return None
    found = replicas.compare(evidence)
    if found is None:
        return _replicas_by_checksum(evidence)
    if found.missing:
        return _broken("replicas_missing", f"ranks {found.missing} did not report their weights")
    if found.different == 1:
        return None
    text = f"replicas differ: {found.different} different sets of weights on {len(evidence.ranks)} ranks"
    tolerance = float(evidence.strategy["replica_tolerance"])
    if not evidence.strategy["synchronous"]:
        return f"{text}, {found.distance_ratio:.2g} apart, as an asynchronous strategy may"
    if found.distance_ratio <= tolerance:
        return f"{text}, {found.distance_ratio:.2g} apart, within the strategy's tolerance of {tolerance:.2g}"
    return _broken("replicas_differ", f"{text}, {found.distance_ratio:.2g} apart where {tolerance:.2g} is allowed")


def _replicas_by_checksum(evidence: Evidence) -> Found:
    """Logs from before ranks described their replicas have the checksum alone."""
    digests = {data["weights_sha256"] for _, data in evidence.of("finished")}
    if digests == {None}:
        return "the replicas' weights were not compared: the framework gives none"
    if len(digests) > 1 and evidence.strategy["synchronous"]:
        return _broken("replicas_differ", f"{len(digests)} different sets of weights on {len(evidence.ranks)} ranks")
    return None


def there_are_intervals(evidence: Evidence) -> Found:
    if evidence.world_problem is None and (evidence.world is None or not len(evidence.world)):
        return _broken("no_intervals", "no timed interval was reported")
    if evidence.world is not None and not (evidence.world.works > 0).all():
        return _broken("no_work", "a timed interval trained nothing")
    return None


def steadiness_is_noted(evidence: Evidence) -> Found:
    course = evidence.course
    if course is None or course.state is CourseState.STEADY:
        return None
    return f"{course.state.value.replace('_', ' ')}: {course.reason}"


def length_is_noted(evidence: Evidence) -> Found:
    """A limit that ended a run before the length that was planned for it."""
    decided = [data for _, data in evidence.of("stopping_decided") if data.get("reason") in LIMITS]
    planned = (decided[0].get("detail") or {}).get("planned_intervals") if decided else None
    if planned is None or evidence.world is None:
        return None
    ended = f"{LIMITS[decided[0]['reason']]} ended it after {len(evidence.world)} intervals"
    return Advice(f"{ended}; {planned} were planned: a larger limit makes its interval narrower")


def no_throttling(evidence: Evidence) -> Found:
    share = throttled_ratio(evidence.spans)
    if share <= MAX_THROTTLED_RATIO:
        return None
    return _disturbed("throttled", f"the device slowed itself down in {share:.0%} of the timed phase")


def no_foreign_load(evidence: Evidence) -> Found:
    shares = [(share, node) for node in evidence.spans for share in [_foreign_share(node)] if share is not None]
    if not shares:
        return Advice(
            "the host's load was not read during the timed phase, and would not show: let it train for longer"
        )
    worst, node = max(shares, key=lambda item: item[0])
    if worst <= MAX_FOREIGN_RATIO:
        return None
    text = f"{worst:.0%} of the cores' time on {node.log.node} went to processes that are not ours"
    return _disturbed("foreign_load", f"{text}, more than {MAX_FOREIGN_RATIO:.0%}")


def _foreign_share(node: NodeSpan) -> float | None:
    """Return (active time - attempt's - tbd's own - that of attempts which share the node by the plan) / (cores x
    time) over the node's cores; parts below 0 by rounding are 0."""
    readings, span, cores = node.log.readings, node.span, node.usable_cores()
    active = covered = 0.0
    for core in cores:
        busy, seconds = windows.amount(readings, span, "core_active_s", f"core:{core}")
        active += busy
        covered += seconds
    attempt, known = windows.amount(readings, span, "cpu_s", "attempt")
    own, _ = windows.amount(readings, span, "cpu_s", "own")
    neighbours, _ = windows.amount(readings, span, "cpu_s", "neighbours")
    if covered <= 0 or known <= 0:
        return None
    return max(0.0, active - attempt - own - neighbours) / covered


def neighbours_are_noted(evidence: Evidence) -> Found:
    """Of a run that shares its nodes by its plan: how busy the others kept them."""
    for node in evidence.spans:
        used, covered = windows.amount(node.log.readings, node.span, "cpu_s", "neighbours")
        if covered > 0:
            text = f"other runs of tbd used {used / covered:.1f} cores of {node.log.node} meanwhile"
            return Advice(f"exclusive: device: {text}; with exclusive: node none do")
    return None


def no_time_stolen(evidence: Evidence) -> Found:
    for node in evidence.spans:
        stolen, covered = windows.amount(node.log.readings, node.span, "stolen_s", "host")
        share = stolen / (covered * max(1, len(node.all_cores()))) if covered > 0 else 0.0
        if share > MAX_STOLEN_RATIO:
            return _disturbed("stolen_time", f"the hypervisor took {share:.0%} of {node.log.node}'s core time")
    return None


def no_swapping(evidence: Evidence) -> Found:
    for node in evidence.spans:
        read, covered = windows.amount(node.log.readings, node.span, "swap_in_bytes", "host")
        if covered > 0 and read / covered > MAX_SWAP_IN_BYTES_PER_S:
            return _disturbed("swapping", f"{node.log.node} read {read / covered / 2**20:.1f} MiB/s back from swap")
    return None


def device_is_exclusive(evidence: Evidence) -> Found:
    untold = []
    for node in evidence.spans:
        for gpu in node.gpus():
            seen = windows.levels(node.log.readings, node.span, "foreign_device_processes", gpu)
            if any(count > 0 for count, _ in seen):
                return _disturbed("device_shared", f"other processes computed on {gpu} of {node.log.node}")
            why = _of_driver(node, gpu, "foreign_device_processes")
            if not seen and why in UNTOLD:
                untold.append(f"{gpu} of {node.log.node}: {UNTOLD[why]}")
    if not untold:
        return None
    return Advice(f"see yourself that nobody else computed on the device, for the agent cannot: {'; '.join(untold)}")


def _of_driver(node: NodeSpan, gpu: str, metric: str) -> str | None:
    """What became of a metric of a device in the end: ``ok``, or why the driver does not tell it."""
    found: str | None = None
    for _, data in node.log.of("availability"):
        found = (data.get(gpu.removeprefix("device:")) or {}).get(metric, found)
    return found


def device_was_well(evidence: Evidence) -> Found:
    """The driver did not lose a device, and reported no error of its hardware."""
    for node in evidence.spans:
        for gpu in node.gpus():
            where = f"{gpu} of {node.log.node}"
            if _of_driver(node, gpu, "power_w") == "lost":
                return _disturbed("device_lost", f"the driver has lost {where}: it fell off the bus or has to be reset")
            xids = sorted({int(code) for code in _told(node, "xid", gpu)})
            if xids:
                text = f'XID {", ".join(map(str, xids))}, which NVIDIA\'s "XID Errors" explains'
                return _disturbed("device_error", f"the driver reported errors of {where}: {text}")
            errors = sum(_told(node, "uncorrected_ecc_errors", gpu))
            if errors > 0:
                return _disturbed("device_error", f"the memory of {where} had {errors:.0f} errors beyond correction")
    return None


def _told(node: NodeSpan, metric: str, gpu: str) -> list[float]:
    """What the driver told that is not 0, from the attempt's start to its end: a device that had an error in the
    warm-up is not well in the timed phase, and one of the timed phase may be told after it."""
    return [value for one in node.log.readings for value in [one.values.get((metric, gpu))] if value]


def clocks_hold(evidence: Evidence) -> Found:
    """A device that runs at another clock in the end than in the beginning, even where no reason for it was set."""
    found = conditions.changed_clock(evidence.trends)
    if found is None:
        return None
    before, after = f"{found.first / 1e6:.0f}", f"{found.last / 1e6:.0f} MHz"
    text = f"the {found.metric.removesuffix('_hz').replace('_', ' ')} of {found.subject} on {found.node}"
    return _disturbed("clock_changed", f"{text} went from {before} to {after} ({found.change_ratio:+.0%})")


def host_clock_is_noted(evidence: Evidence) -> Found:
    found = [one for one in evidence.trends if one.metric == "cpu_frequency_hz"]
    changed = [one for one in found if abs(one.change_ratio) > conditions.MAX_CLOCK_RATIO]
    if not changed:
        return None
    text = f"the cores' clock on {changed[0].node} changed by {changed[0].change_ratio:+.0%}"
    return Advice(f"{text}: a fixed clock (cpupower frequency-set -g performance) makes runs more alike")


def warming_is_noted(evidence: Evidence) -> Found:
    found = [one for one in evidence.trends if one.metric == "temperature_c" and one.change > conditions.MAX_WARMING_K]
    return f"{found[0].subject} on {found[0].node} warmed up by {found[0].change:.0f} K" if found else None


def power_cap_is_noted(evidence: Evidence) -> Found:
    share = throttled_ratio(evidence.spans, POWER_CAP_BIT, POWER_CAPPED_S)
    return f"a device was held by its power cap in {share:.0%} of the timed phase" if share > 0 else None


def energy_is_noted(evidence: Evidence) -> Found:
    """The power sensor of some GPUs covers a part of the time only: its mean may be another than the counter's."""
    for node in evidence.spans:
        for gpu in node.gpus():
            joules, covered_s = windows.amount(node.log.readings, node.span, "energy_j", gpu)
            sensed_w = windows.mean(node.log.readings, node.span, "power_w", gpu)
            if not sensed_w or covered_s < LEAST_ENERGY_S:
                continue
            counted_w = joules / covered_s
            if abs(counted_w / sensed_w - 1) > MAX_ENERGY_RATIO:
                return (
                    f"{gpu} of {node.log.node} took {counted_w:.0f} W by its energy counter, which energy_per_work_j is"
                    f" of, and {sensed_w:.0f} W by its power sensor"
                )
    return None


def exchange_is_noted(evidence: Evidence) -> Found:
    return nccl.note_of(nccl.facts_of(evidence.logs))


def throttled_ratio(spans: Sequence[NodeSpan], bits: int = THROTTLE_BITS, causes: Sequence[str] = SLOWED_S) -> float:
    """Return the largest share, over devices, of the time in which one of ``causes`` held the clocks down; where the
    driver does not add up their seconds, in which one of the reasons ``bits`` was set when it was asked."""
    worst = 0.0
    for node in spans:
        for gpu in node.gpus():
            counted = [windows.amount(node.log.readings, node.span, cause, gpu) for cause in causes]
            shares = [held_s / covered_s for held_s, covered_s in counted if covered_s > 0]
            if not shares:
                masks = windows.levels(node.log.readings, node.span, "throttle_reasons", gpu)
                total = sum(seconds for _, seconds in masks)
                shares = [sum(seconds for mask, seconds in masks if int(mask) & bits) / total] if total > 0 else []
            worst = max([worst, *shares])
    return min(worst, 1.0)


RULES: tuple[Callable[[Evidence], Found], ...] = (
    all_ranks_finished,
    world_is_whole,
    steps_are_contiguous,
    there_are_intervals,
    clocks_agree,
    loss_is_finite,
    loss_goes_as_promised,
    replicas_are_equal,
    steadiness_is_noted,
    length_is_noted,
    no_throttling,
    no_foreign_load,
    neighbours_are_noted,
    no_time_stolen,
    no_swapping,
    device_is_exclusive,
    device_was_well,
    clocks_hold,
    host_clock_is_noted,
    warming_is_noted,
    power_cap_is_noted,
    energy_is_noted,
    exchange_is_noted,
)
