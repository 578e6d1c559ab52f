"""What an iteration would take that was not measured: on more devices, by another fabric, of another batch.

It is made of the steps of one device (``inputs``) and of how long exchanges take alone (``communication``), by the
closed form of the strategy (``iteration``).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy import special

from orchestrator.analysis.s_sgd import iteration, prediction
from orchestrator.analysis.s_sgd.communication import Communication
from orchestrator.analysis.s_sgd.inputs import Inputs
from orchestrator.analysis.s_sgd.iteration import Exchange, Loading
from orchestrator.analysis.s_sgd.more_nodes import MOST_NODES
from orchestrator.analysis.s_sgd.prediction import Merging, NotPredictable
from orchestrator.analysis.s_sgd.tables import Trace

CONFIDENCE = 0.90
# So many judged predictions bound 90 % of the next ones by their largest error: ceil(0.9 (n + 1)) <= n.
FEWEST_JUDGED = 9
# A judgement, of the logarithm: with fewer, the truth is taken to be within a factor of two.
UNJUDGED = math.log(2)
# Halvings of a range of bandwidths until the next would change less than a tenth of a percent.
HALVINGS = 40
MOST_TIMES_THE_BANDWIDTH = 1e6


@dataclass(frozen=True)
class Way:
    """How a strategy exchanges gradients: beside the backward pass or after it, and what is merged (None: nothing)."""

    overlapped: bool
    merging: Merging | None


@dataclass(frozen=True)
class Expected:
    """An iteration in seconds: that of one device, and the exchange that it does not hide. ``exchanges``: bytes of
    each, in their order; ``beyond``: how many of them are outside of the sizes that were measured."""

    one_device_s: float
    exposed_s: float
    exchanges: tuple[int, ...]
    beyond: int

    @property
    def iteration_s(self) -> float:
        return self.one_device_s + self.exposed_s

    @property
    def efficiency(self) -> float:
        """Of each device, over one that is alone."""
        return self.one_device_s / self.iteration_s


def expected(inputs: Inputs, way: Way, functions: Sequence[Communication]) -> Expected:
    """Return the iteration of devices that each do what ``inputs`` says.

    Args:
        functions: how long they take to exchange, or with servers to push and to pull; none: one device, which
            exchanges nothing.

    Raises:
        NotPredictable: no layer has parameters.
    """
    alone_s = iteration.one_device_s(inputs.parts, Loading.NONE) + inputs.rest_s
    if not functions:
        return Expected(alone_s, 0.0, (), 0)
    if len(functions) > 1:
        return _through_servers(inputs, alone_s, *functions)
    (function,) = functions
    layers = len(inputs.gradient_bytes)
    trace = Trace(inputs.gradient_bytes, inputs.parts.backward_s, (0.0,) * layers)
    found = prediction.predict(trace, function, way.merging)
    exposed_s = found.exposed_s if way.overlapped else found.sum_exchange_s
    return Expected(alone_s, exposed_s, found.exchanges, found.beyond)


def _through_servers(inputs: Inputs, alone_s: float, push: Communication, pull: Communication) -> Expected:
    """Each layer is pushed and pulled by itself: of MXNet's parameters that is so, of which a layer may have two."""
    layers = [number for number in range(len(inputs.gradient_bytes), 0, -1) if inputs.gradient_bytes[number - 1]]
    if not layers:
        raise NotPredictable("no layer of the trace has elements")
    sizes = [inputs.gradient_bytes[number - 1] for number in layers]
    times = zip(layers, push.seconds(sizes), pull.seconds(sizes), strict=True)
    exchanges = [Exchange(number, float(t_p), pull_s=float(t_q)) for number, t_p, t_q in times]
    ends_s = iteration.pull_ends_s(iteration.ready_s(inputs.parts.backward_s, exchanges), exchanges)
    beyond = sum(not (push.measured(size) and pull.measured(size)) for size in sizes)
    return Expected(alone_s, iteration.exposed_s(inputs.parts, ends_s), tuple(sizes), beyond)


def half_width(iterations_s: Sequence[float], errors: Sequence[float]) -> float:
    """Return half of the 90 % interval of a prediction's logarithm.

    It joins, as what adds up in squares, the spread of the runs that it was made of (Student's t of their mean) and the
    errors of earlier predictions of its kind: their 90 % quantile with the correction for a finite number of them
    (split conformal prediction, Lei, G'Sell, Rinaldo, Tibshirani & Wasserman 2018, 2.2).

    Args:
        iterations_s: what each run of one device gives, one or more.
        errors: logarithms of predicted over measured.
    """
    logs = [math.log(seconds) for seconds in iterations_s]
    spread = 0.0
    if len(logs) > 1:
        spread = float(special.stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2)) * stdev(logs) / math.sqrt(len(logs))
    return math.hypot(spread, _error_bound([abs(error) for error in errors]))


def _error_bound(errors: Sequence[float]) -> float:
    if len(errors) < FEWEST_JUDGED:
        return max(UNJUDGED, *errors) if errors else UNJUDGED
    return sorted(errors)[math.ceil(CONFIDENCE * (len(errors) + 1)) - 1]


def mean_s(iterations_s: Sequence[float]) -> float:
    """Return the geometric mean, as of measured rates."""
    return math.exp(fmean(map(math.log, iterations_s)))


def most_nodes(efficiency: Callable[[int], float], wanted: float, least: int, most: int = MOST_NODES) -> int | None:
    """Return the most nodes whose efficiency is ``wanted`` or more, by doubling and halving: it has to fall with them.
    None: ``least`` nodes have less already. ``most``: it does not fall below up to these."""
    if efficiency(least) < wanted:
        return None
    enough, too_many = least, least
    while enough == too_many:
        if enough >= most:
            return most
        too_many = min(2 * too_many, most)
        if efficiency(too_many) >= wanted:
            enough = too_many
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        enough, too_many = (middle, too_many) if efficiency(middle) >= wanted else (enough, middle)
    return enough


def least_bandwidth(efficiency: Callable[[float], float], wanted: float) -> float | None:
    """Return how many times the bandwidth gives an efficiency of ``wanted``, which has to grow with it; None: no
    bandwidth does, for latencies alone are too long."""
    low, high = 1 / MOST_TIMES_THE_BANDWIDTH, MOST_TIMES_THE_BANDWIDTH
    if efficiency(high) < wanted:
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if efficiency(middle) >= wanted else (middle, high)
    return high
