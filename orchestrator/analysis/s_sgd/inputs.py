"""The model's inputs from measurements: what a step of a rank consists of, by its profile of layers.

A profile's steps run under a profiler and take longer than timed ones. All of its times are multiplied by one factor,
so that a profiled step takes as long as a timed one (``metrics.md``: ``profile_slowdown_ratio`` is that factor's
inverse). That a profiler slows down every part alike is an assumption.
"""

import math
from dataclasses import dataclass, replace

from orchestrator.analysis.s_sgd.buckets import Bucket, ddp_buckets, horovod_buckets
from orchestrator.analysis.s_sgd.explain.rank_steps import RankStep
from orchestrator.analysis.s_sgd.iteration import Loading, Parts, one_device_s
from orchestrator.analysis.s_sgd.labels import Merger
from orchestrator.domain.value.profile import UNTOLD_EXPOSURE, LayerTimes


class NotAnInput(ValueError):  # noqa: N818 - reads as what happened
    """A profile that the model cannot be fed with; the text says why."""


@dataclass(frozen=True)
class Inputs:
    """One device's step for the model, in seconds, layers 1 (next to the input) .. L in the order in which they ran.

    ``parts``: t_io (what was waited for; reading that prefetching hides is not in it), t_h2d, t_f, t_b(l), t_u.
    ``rest_s``: of a timed step, what none of them tells; below 0 where they overlap. ``gradient_bytes``: of layers
    1 .. L, 0 where one has no parameters. ``slowdown``: a profiled step over a timed one.
    """

    parts: Parts
    rest_s: float
    gradient_bytes: tuple[int, ...]
    slowdown: float

    def at_batch(self, ratio: float) -> "Inputs":
        """Return them for a batch ``ratio`` times as large: what is done for each sample grows with it, the update and
        the rest stay. That a layer takes as long for each sample of any batch is an assumption, and that all layers
        take more or less by the same share is the weaker one where the whole step is known (``ratio_at``)."""
        parts = self.parts
        grown = Parts(
            parts.io_s * ratio,
            parts.host_to_device_s * ratio,
            parts.forward_s * ratio,
            tuple(seconds * ratio for seconds in parts.backward_s),
            parts.update_s,
        )
        return replace(self, parts=grown)

    def ratio_at(self, step_s: float) -> float:
        """Return for which ``ratio`` ``at_batch`` has a step of ``step_s``; 0 or less where none has."""
        growing_s = one_device_s(self.parts, Loading.NONE) - self.parts.update_s
        return (step_s - self.parts.update_s - self.rest_s) / growing_s

    def buckets(self, by: Merger, cap_bytes: int) -> list[Bucket]:
        """Return what is exchanged together if all gradients were ready at once, with ``first`` and ``last`` counting
        the layers that have parameters from layer L down: the order in which their gradients become ready."""
        ready = [size for size in reversed(self.gradient_bytes) if size]
        return ddp_buckets(ready, cap_bytes) if by is Merger.DDP else horovod_buckets(ready, cap_bytes)


def inputs_of(times: LayerTimes, step_s: float) -> Inputs:
    """Return the model's inputs from a run of one device. What a rank exchanges with itself there (DDP copies its
    buckets) is left out.

    Args:
        times: its profile of layers.
        step_s: its timed step, above 0.

    Raises:
        NotAnInput: a part of the step, or a layer's backward pass, was not told.
    """
    slowdown = _slowdown(times, step_s)
    io_s, h2d_s, t_f, t_b, t_u = (times.breakdown[name] for name in _PARTS)
    if io_s is None or t_f is None or t_b is None or t_u is None:
        untold = [name for name in _PARTS if times.breakdown[name] is None and name != "host_to_device_s"]
        raise NotAnInput(f"it does not tell {', '.join(untold)}")
    layers = [row.backward_s for row in times.rows]
    known = [seconds for seconds in layers if seconds is not None]
    if len(known) < len(layers) or not math.fsum(known) > 0:
        raise NotAnInput("it does not tell the backward pass of each layer")
    # Between layers there is time that belongs to none of them: each has a part in it that is as large as its own.
    share = t_b / math.fsum(known)
    parts = Parts(
        io_s / slowdown,
        (h2d_s or 0.0) / slowdown,
        t_f / slowdown,
        tuple(seconds * share / slowdown for seconds in known),
        t_u / slowdown,
    )
    rest_s = step_s - one_device_s(parts, Loading.NONE)
    return Inputs(parts, rest_s, tuple(row.parameters_bytes for row in times.rows), slowdown)


_PARTS = ("input_s", "host_to_device_s", "forward_s", "backward_s", "update_s")


def step_of(times: LayerTimes, step_s: float, input_s: float | None = None) -> RankStep:
    """Return what a rank's profile says of a timed step.

    Args:
        step_s: the timed step, above 0.
        input_s: what the loop itself has timed of waiting for input, per step: it takes the place of the profile's.

    Raises:
        NotAnInput: the profile has no steps, or does not tell the forward or the backward pass; or it tells exchanges
            and not what of them is exposed: their waits have made its steps other ones than those that were timed.
    """
    if times.exchanges and times.exposed_exchange_s is None:
        raise NotAnInput(times.reasons.get("exposed_exchange_s", UNTOLD_EXPOSURE))
    slowdown = _slowdown(times, step_s)
    told = {name: None if value is None else value / slowdown for name, value in times.breakdown.items()}
    forward_s, backward_s = told["forward_s"], told["backward_s"]
    if forward_s is None or backward_s is None:
        raise NotAnInput("it does not tell the forward and the backward pass")
    passes = (forward_s, backward_s, told["update_s"] or 0.0)  # None: servers update, within the exchange
    return RankStep(
        rank=times.rank,
        input_s=(told["input_s"] or 0.0) if input_s is None else input_s,
        copy_s=told["host_to_device_s"] or 0.0,
        compute_s=math.fsum(passes),
        passes=passes,
        exposed_s=None if times.exposed_exchange_s is None else times.exposed_exchange_s / slowdown,
        exchange_s=told["exchange_s"],
        sent=tuple(one.bytes for one in times.exchanges),
    )


def active_step(rank: int, active_s: float, elapsed_s: float, step_s: float, input_s: float) -> RankStep:
    """Return what a rank's phase ``activity`` says of a timed step: it computed for ``active_s`` of ``elapsed_s``."""
    return RankStep(rank, input_s, 0.0, step_s * active_s / elapsed_s)


def _slowdown(times: LayerTimes, step_s: float) -> float:
    if times.steps < 1 or not times.elapsed_s > 0 or not step_s > 0:
        raise NotAnInput("its steps took no time")
    return times.elapsed_s / times.steps / step_s
