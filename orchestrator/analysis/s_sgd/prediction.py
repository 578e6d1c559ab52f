"""From a trace of layers to how much of the exchange the backward pass hides: measured, merged, on other nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.s_sgd import iteration
from orchestrator.analysis.s_sgd.buckets import ddp_buckets, horovod_exchanges
from orchestrator.analysis.s_sgd.communication import Communication, Floats, fit
from orchestrator.analysis.s_sgd.iteration import Exchange
from orchestrator.analysis.s_sgd.labels import Algorithm, Beside, Merger
from orchestrator.analysis.s_sgd.more_nodes import on_other_nodes
from orchestrator.analysis.s_sgd.tables import Trace


class NotPredictable(ValueError):  # noqa: N818 - reads as what happened
    """The trace does not hold what the question takes."""


@dataclass(frozen=True)
class Merging:
    """DDP's caps (``ddp_buckets``), or Horovod's threshold, in bytes."""

    cap_bytes: int
    first_cap_bytes: int | None = None
    by: Merger = Merger.DDP


@dataclass(frozen=True)
class Nodes:
    """From the nodes of the trace, and of the log, to others."""

    measured: int
    to: int
    algorithm: Algorithm = Algorithm.RING


@dataclass(frozen=True)
class Prediction:
    """Sums and ends in seconds from the start of the backward pass.

    ``exchanges``: bytes of each, in their order. ``function``: what their times come from; None where it is the trace
    alone. ``beyond``: how many are outside of the sizes that it was fitted to. ``exchange_ratio``: the sum of the
    trace's own times, layer by layer, over that of the function.
    """

    sum_backward_s: float
    sum_exchange_s: float
    end_of_exchange_s: float
    exposed_s: float
    exchanges: tuple[int, ...]
    function: Communication | None
    beyond: int
    exchange_ratio: float | None


def predict(
    trace: Trace, log: Communication | None = None, merging: Merging | None = None, nodes: Nodes | None = None
) -> Prediction:
    """Return the exchange of ``trace`` with wait-free backpropagation, one exchange at a time.

    Args:
        log: times of exchanges come from it, instead of from the trace; both are of as many nodes.
        merging: gradients are merged. Without a log, a function is fitted to the trace's layers: what a layer took
            beyond it is then left out.
        nodes: on another number of nodes. Of the trace's times only what is fitted grows, not what a layer took beyond.

    Raises:
        NotPredictable: the trace has no gradients; a function has to be fitted to fewer than two sizes.
    """
    layers = [number for number in range(len(trace.backward_s), 0, -1) if trace.gradient_bytes[number - 1]]
    if not layers:
        raise NotPredictable("no layer of the trace has elements")
    sizes = [trace.gradient_bytes[number - 1] for number in layers]
    taken = np.array([trace.exchange_s[number - 1] for number in layers])
    function = log or (_fitted(sizes, taken) if merging or nodes else None)
    there = on_other_nodes(function, nodes.algorithm, nodes.measured, nodes.to) if function and nodes else function
    if merging and there:
        sent = _merged(trace, layers, sizes, merging, there)
    else:
        seconds = taken if function is None or there is None else _by_layer(sizes, taken, function, there, bool(log))
        sent = [(size, Exchange(number, float(t_c))) for size, number, t_c in zip(sizes, layers, seconds, strict=True)]
    exchanges = [one for _, one in sent]
    end_s = max(iteration.exchange_ends_s(iteration.ready_s(trace.backward_s, exchanges), exchanges))
    sum_backward_s = sum(trace.backward_s)
    return Prediction(
        sum_backward_s=sum_backward_s,
        sum_exchange_s=sum(one.exchange_s for one in exchanges),
        end_of_exchange_s=end_s,
        exposed_s=max(0.0, end_s - sum_backward_s),
        exchanges=tuple(size for size, _ in sent),
        function=function,
        beyond=sum(not function.measured(size) for size, _ in sent) if function else 0,
        exchange_ratio=float(taken.sum() / function.seconds(sizes).sum()) if function else None,
    )


def _by_layer(
    sizes: Sequence[int], taken: Floats, function: Communication, there: Communication, of_log: bool
) -> Floats:
    """Seconds of each layer's exchange on the other nodes: those of the log, or what was taken and the fit's growth."""
    if of_log:
        return there.seconds(sizes)
    return np.maximum(taken + there.seconds(sizes) - function.seconds(sizes), 0.0)


def _merged(
    trace: Trace, layers: Sequence[int], sizes: Sequence[int], merging: Merging, function: Communication
) -> list[tuple[int, Exchange]]:
    """(bytes, exchange) of each bucket."""
    if merging.by is Merger.DDP:
        buckets = ddp_buckets(sizes, merging.cap_bytes, merging.first_cap_bytes)
        seconds = function.seconds([one.bytes for one in buckets])
        return [
            (one.bytes, Exchange(layers[one.last - 1], float(t_c))) for one, t_c in zip(buckets, seconds, strict=True)
        ]
    ready = iteration.ready_s(trace.backward_s, [Exchange(number, 0.0) for number in layers])
    fused = horovod_exchanges(ready, sizes, lambda size: float(function.seconds([size])[0]), merging.cap_bytes)
    sent = []
    for one in fused:
        last = one.bucket.last - 1
        sent.append((one.bucket.bytes, Exchange(layers[last], one.end_s - one.start_s, one.start_s - ready[last])))
    return sent


def _fitted(sizes: Sequence[int], taken: Floats) -> Communication:
    """The function of a trace's own layers; those of one size count as their mean."""
    distinct, of = np.unique(np.asarray(sizes, dtype=float), return_inverse=True)
    means = np.bincount(of, weights=taken) / np.bincount(of)
    if len(distinct) < 2 or not np.all(means > 0):
        raise NotPredictable(
            "the layers' exchanges have to be of two sizes and take some time, to fit how long they take"
        )
    return fit(distinct.tolist(), means.tolist(), Beside.TRAINING).function
