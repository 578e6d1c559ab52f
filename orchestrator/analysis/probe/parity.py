"""Whether a framework's network is the same as the others': its results against the exact ones, by distances.

The exact result is PyTorch's in double precision; ``workers.trainer.loops.parity`` has what a result is made of. All
arrays are in the description's layout. Lengths and distances are Euclidean.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]

# Judgements: what single precision may lose, some ten times what it was seen to lose on one processor. At the sizes
# tiny gradients are off by 1e-5, losses by 1e-6. Weights are rounded to 6e-8 of their size at each update, which is
# 1.5e-3 of what the updates of a case change. Through the 53 convolutions of ResNet-50's size small gradients are off
# by 1e-4; and of its 7 million numbers some change sides of zero while the updates go on, which moves these by 5 %. Of
# the many poolings of GoogLeNet some window always has two numbers so close that a framework may take the other one,
# which moves gradients by 1e-3.
# Through the 95 convolutions of Inception-v3's size small and the 105 of ResNet-101's PyTorch itself is off by 2e-5 in
# its losses, and one number that changes sides moves gradients by 1e-2. What such bounds would let pass is found at the
# sizes tiny.
STATISTIC = 1e-4

# Of gradients, for each of a loss that is large: the logarithm of a probability is known to 6e-8 of itself in single
# precision, and the probability to so many parts of it. Over 120 places connectionist temporal classification begins at
# 240, and its gradients are off by up to 1.3e-4. A judgement, some four times that.
OF_LOSS = 2e-6


@dataclass(frozen=True)
class Tolerance:
    """For networks of ``layers`` with weights or more: what is rounding, relative. ``initial``: of the weights that a
    training begins with; ``evaluation``: of outputs and loss as it is evaluated (in 16 bits ResNet-50 and AlexNet were
    off by up to 8e-3). Infinite where nothing can be told."""

    layers: int
    loss: float
    gradient: float
    weight: float
    statistic: float = STATISTIC
    initial: float = 0.0
    evaluation: float = 1e-4


# precision -> what it may lose, the deepest networks first. With 8 significant bits a number is off by up to 4e-3, and
# some change sides of zero: judgements, two to four times what was seen of ResNet-50, AlexNet, GoogLeNet, GPT-2 and the
# LSTM at the size tiny (losses 6e-3, gradients 0.28, statistics 1.3e-2; with weights in single precision losses 2e-3,
# what updates change 0.34). In bfloat16 the weights of a case hold nothing of what its updates change.
TOLERANCES: Mapping[str, tuple[Tolerance, ...]] = {
    "fp32": (
        Tolerance(90, loss=1e-4, gradient=3e-2, weight=0.4),
        Tolerance(50, loss=1e-5, gradient=5e-3, weight=0.2),
        Tolerance(0, loss=1e-5, gradient=1e-4, weight=1e-2),
    ),
    "bf16": (Tolerance(0, loss=2e-2, gradient=0.6, weight=math.inf, statistic=5e-2, initial=2.0**-8, evaluation=3e-2),),
    "amp-bf16": (Tolerance(0, loss=1e-2, gradient=0.6, weight=0.7, statistic=5e-2, evaluation=3e-2),),
}

# What is nothing beside most others is compared with this part of these: a normalisation takes away what the one before
# it adds to a channel, so that the exact gradient of that is zero where a ReLU lets all of it through.
_LEAST_GRADIENT = 0.1
# The least change of a weight, in parts of its size, that is told from rounding.
_LEAST_CHANGE = 2e-5


@dataclass(frozen=True)
class Worst:
    """The largest distance, relative to the exact length, and the parameter or statistic that has it."""

    distance: float
    name: str


@dataclass(frozen=True)
class Parity:
    """How far a framework's result is from the exact one.

    Attributes:
        loss: relative difference of the case's loss.
        evaluation: the worst of what the network gives for the case as it is evaluated, and of its loss then.
        gradient, weight, statistic: the worst of each kind, the weights after the updates and relative to what these
            changed; ``statistic`` is None where a network has none.
        begin: the largest relative difference of a training's first losses, infinite where its initial weights are
            others.
        problems: what is outside of the tolerance, in words; none where the networks are the same.
    """

    loss: float
    evaluation: Worst
    gradient: Worst
    weight: Worst
    statistic: Worst | None
    begin: float
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        found = {name: value for name, value in vars(self).items() if name != "problems"}
        named = {name: vars(value) if isinstance(value, Worst) else value for name, value in found.items()}
        return named | {"same": not self.problems, "problems": list(self.problems)}


def judge(exact: Arrays, found: Arrays, case: Arrays, precision: str = "fp32") -> Parity:
    """Compare a result, computed in ``precision``, with the exact one, both of ``case``.

    One array of each is held at a time: of an npz that numpy reads as it is asked nothing else is in memory.
    """
    gradients = _gradients(exact, found)
    weights = _weights(exact, found, case)
    statistics = _of_lengths(exact, found, "statistic")
    evaluation = _of_lengths(exact, found, "evaluated")
    loss = _relative(exact["loss"], found["loss"])
    most = next(one for one in TOLERANCES[precision] if _depth(exact) >= one.layers)
    begin = _begin(exact, found, most.initial)
    problems = [
        *_above("loss", {"": loss}, most.loss),
        *_above("evaluation", evaluation, most.evaluation),
        *_above("gradient", gradients, max(most.gradient, OF_LOSS * abs(float(np.max(exact["loss"]))))),
        *_above("statistic", statistics, most.statistic),
        *_above("weight after the updates", weights, most.weight),
        *_above("beginning of a training", {"": begin}, most.loss),
        *_other_names(exact, found),
    ]
    worst = _worst(statistics) if statistics else None
    return Parity(loss, _worst(evaluation), _worst(gradients), _worst(weights), worst, begin, tuple(problems))


def margins(exact: Arrays) -> dict[str, float]:
    """How near the case comes to borders where rounding decides: ``from_zero`` and ``apart``, of the exact result."""
    return {name: float(value) for name, value in _kind(exact, "margin")}


def trained(exact: Arrays) -> int:
    """How many numbers the network trains."""
    return sum(int(value.size) for _, value in _kind(exact, "gradient"))


def _kind(arrays: Arrays, kind: str) -> Iterator[tuple[str, Any]]:
    prefix = kind + "."
    return ((name[len(prefix) :], arrays[name]) for name in arrays if name.startswith(prefix))


def _depth(exact: Arrays) -> int:
    """How many layers with a matrix or a kernel there are."""
    return sum(value.ndim > 1 for _, value in _kind(exact, "gradient"))


def _gradients(exact: Arrays, found: Arrays) -> dict[str, float]:
    lengths = _lengths(exact, "gradient")
    least = _LEAST_GRADIENT * float(np.median(list(lengths.values())))
    return _distances(exact, found, "gradient", {name: max(length, least) for name, length in lengths.items()})


def _weights(exact: Arrays, found: Arrays, case: Arrays) -> dict[str, float]:
    changes = {
        name: max(_length(value - case[name]), _LEAST_CHANGE * _length(value)) for name, value in _kind(exact, "weight")
    }
    return _distances(exact, found, "weight", changes)


def _of_lengths(exact: Arrays, found: Arrays, kind: str) -> dict[str, float]:
    return _distances(exact, found, kind, _lengths(exact, kind))


def _lengths(exact: Arrays, kind: str) -> dict[str, float]:
    return {name: _length(value) for name, value in _kind(exact, kind)}


def _distances(exact: Arrays, found: Arrays, kind: str, scales: Mapping[str, float]) -> dict[str, float]:
    """{name: distance in parts of ``scales``}, infinite where there is no such array or it has another shape."""
    return {
        name: _distance(exact[f"{kind}.{name}"], found.get(f"{kind}.{name}")) / scale if scale else math.inf
        for name, scale in scales.items()
    }


def _distance(exact: Any, found: Any) -> float:
    if found is None or found.shape != exact.shape:
        return math.inf
    distance = _length(exact - found)
    return distance if math.isfinite(distance) else math.inf


def _length(value: Any) -> float:
    return float(np.linalg.norm(value.astype(np.float64)))


def _relative(exact: Any, found: Any) -> float:
    difference = float(np.max(np.abs(found - exact) / np.abs(exact)))
    return difference if math.isfinite(difference) else math.inf


def _begin(exact: Arrays, found: Arrays, rounding: float) -> float:
    initial = _kind(exact, "initial")
    same = all(_distance(one, found.get(f"initial.{name}")) <= rounding * _length(one) for name, one in initial)
    return _relative(exact["losses"], found["losses"]) if same else math.inf


def _worst(distances: Mapping[str, float]) -> Worst:
    name = max(distances, key=lambda one: distances[one])
    return Worst(distances[name], name)


def _above(what: str, distances: Mapping[str, float], most: float) -> list[str]:
    """One sentence for a kind of which something is above ``most``: the first such, in the order of the network."""
    wrong = [name for name, distance in distances.items() if not distance < most]
    if not wrong:
        return []
    of = f" of {wrong[0]}" if wrong[0] else ""
    more = f", and of {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return [f"the {what}{of} is off by {distances[wrong[0]]:.1e}{more}; up to {most:.0e} is rounding"]


def _other_names(exact: Arrays, found: Arrays) -> list[str]:
    beyond = sorted(name for name in set(found) - set(exact) if not name.startswith("margin."))
    return [f"there is no {beyond[0]} in the exact result"] if beyond else []
