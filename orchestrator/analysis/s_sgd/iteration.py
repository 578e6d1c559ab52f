"""Closed forms of one iteration of synchronous SGD: how long it takes, by how a framework overlaps its parts.

Symbols are those of Shi, Wang & Chu, "Performance Modeling and Evaluation of Distributed Deep Learning Frameworks on
GPUs" (2018): t_io, t_h2d, t_f, t_b(l), t_c(l), t_u of layers l = 1 (next to the input) .. L. What stands here is
derived in docs/read_results/s-sgd-model.md; ``task_graph`` evaluates the same without these forms.

All times are seconds, 0 or more; what is given layer by layer begins with layer 1.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate


class Loading(StrEnum):
    """How a batch comes to the device: beside the computation of the one before, or between two."""

    PREFETCH = "prefetch"  # reading and copying take turns on one lane
    PREFETCH_APART = "prefetch-apart"  # a lane each
    NONE = "none"


@dataclass(frozen=True)
class Parts:
    """What one device does in an iteration, without exchange: t_io, t_h2d, t_f, t_b(1 .. L), t_u."""

    io_s: float
    host_to_device_s: float
    forward_s: float
    backward_s: tuple[float, ...]
    update_s: float


@dataclass(frozen=True)
class Exchange:
    """One exchange of gradients, in the order in which they begin.

    ``after_layer``: it may begin when the backward pass of this layer ends, ``wait_s`` later. ``exchange_s``: t_c; with
    a parameter server the time of the push, and ``pull_s`` that of the pull, with the server's sum in it.
    """

    after_layer: int
    exchange_s: float
    wait_s: float = 0.0
    pull_s: float = 0.0


def one_device_s(parts: Parts, loading: Loading) -> float:
    """Return t_iter of one device, which exchanges nothing."""
    return iteration_s(parts, loading, 0.0)


def without_overlap_s(parts: Parts, loading: Loading, exchanges: Sequence[Exchange]) -> float:
    """Return t_iter where the exchange begins when the whole backward pass has ended (TensorFlow, CNTK)."""
    return iteration_s(parts, loading, sum(one.exchange_s for one in exchanges))


def wait_free_s(parts: Parts, loading: Loading, exchanges: Sequence[Exchange], lanes: int = 1) -> float:
    """Return t_iter with wait-free backpropagation: an exchange begins as soon as its gradients are there.

    An exchange a layer is the paper's case. One for several layers, after the last of them to come (the lowest), is
    that of merged gradients: DDP's buckets, Horovod's fusion. ``lanes``: exchanges that the library carries at once.
    """
    ready = ready_s(parts.backward_s, exchanges)
    return iteration_s(parts, loading, exposed_s(parts, exchange_ends_s(ready, exchanges, lanes)))


def parameter_server_s(parts: Parts, loading: Loading, exchanges: Sequence[Exchange]) -> float:
    """Return t_iter with a parameter server (MXNet): pushes on the way up, pulls on the way down, both overlapped.

    The next forward pass waits for all pulls. MXNet lets its first layers begin before: this is never too short.
    """
    ready = ready_s(parts.backward_s, exchanges)
    return iteration_s(parts, loading, exposed_s(parts, pull_ends_s(ready, exchanges)))


def iteration_s(parts: Parts, loading: Loading, exposed: float) -> float:
    """Return t_iter in the steady state: the longest of the lanes that a batch goes through, or with
    ``Loading.NONE`` their sum. ``exposed``: seconds of exchange that the backward pass does not hide."""
    compute_s = parts.forward_s + sum(parts.backward_s) + exposed + parts.update_s
    match loading:
        case Loading.PREFETCH:
            return max(parts.io_s + parts.host_to_device_s, compute_s)
        case Loading.PREFETCH_APART:
            return max(parts.io_s, parts.host_to_device_s, compute_s)
        case Loading.NONE:
            return parts.io_s + parts.host_to_device_s + compute_s


def exposed_s(parts: Parts, ends_s: Sequence[float]) -> float:
    """Return how long after the backward pass the last exchange ends: tau_c(1) + t_c(1) - tau_b(1)."""
    return max(0.0, max(ends_s, default=0.0) - sum(parts.backward_s))


def backward_ends_s(backward_s: Sequence[float]) -> list[float]:
    """Return tau_b(l), l = 1 .. L: the end of each layer's backward pass, tau_b(l) = tau_b(l+1) + t_b(l)."""
    return list(accumulate(reversed(backward_s)))[::-1]


def ready_s(backward_s: Sequence[float], exchanges: Sequence[Exchange]) -> list[float]:
    """Return when each exchange may begin, from the start of the backward pass."""
    tau_b = backward_ends_s(backward_s)
    return [tau_b[one.after_layer - 1] + one.wait_s for one in exchanges]


def exchange_ends_s(ready: Sequence[float], exchanges: Sequence[Exchange], lanes: int = 1) -> list[float]:
    """Return when each exchange ends. With one lane tau_c(l) = max(tau_c(l+1) + t_c(l+1), tau_b(l)) is its start; with
    more it begins when the first of them is free (Kiefer & Wolfowitz 1955, for queues with several servers)."""
    free = [0.0] * lanes
    ends = []
    for at, one in zip(ready, exchanges, strict=True):
        tau_c = max(heapq.heappop(free), at)
        ends.append(tau_c + one.exchange_s)
        heapq.heappush(free, ends[-1])
    return ends


def pull_ends_s(ready: Sequence[float], exchanges: Sequence[Exchange]) -> list[float]:
    """Return when each pull ends: one after the other, none before its push has ended."""
    end, ends = 0.0, []
    for pushed, one in zip(exchange_ends_s(ready, exchanges), exchanges, strict=True):
        end = max(end, pushed) + one.pull_s
        ends.append(end)
    return ends
