"""Predictions of cells that were not measured: what is stored of them, and what they are judged by later."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.plain import Plain

ID_PREFIX = "pre"


@dataclass(frozen=True)
class PredictedPart(Plain):
    """A part of the iteration; they add up to it."""

    name: str
    seconds: float


@dataclass(frozen=True)
class RestsOn(Plain):
    """What a prediction was made of.

    ``run_ids``: the profiled runs of one device, ``profiled_batch`` their batch; ``step_batches``: other batches whose
    steps on one device tell how a step grows, none where it is taken to be in proportion. ``netbench_run``: the run
    whose exchanges were fitted, on ``netbench_ranks`` ranks; None on one device and with ``fabric``, the one that was
    asked for. ``disturbed``: that run was, and no other had as many ranks. ``beside``: what exchanges were measured
    beside (``analysis.s_sgd.labels.Beside``). ``beyond``: so many of the iteration's exchanges are larger or smaller
    than all that were measured. ``judged``: so many earlier predictions of the framework and strategy have told how
    far they were off.
    """

    run_ids: tuple[str, ...]
    profiled_batch: int
    step_batches: tuple[int, ...]
    netbench_run: str | None
    netbench_ranks: int | None
    fabric: str | None
    beside: str | None
    disturbed: bool
    beyond: int
    judged: int


@dataclass(frozen=True)
class Told(Plain):
    """What was predicted: the throughput with its 90 % interval, its parts in seconds of an iteration."""

    throughput: Measurement
    efficiency: float
    iteration_s: float
    parts: tuple[PredictedPart, ...]
    rests_on: RestsOn


@dataclass(frozen=True)
class Prediction:
    """One cell that was asked for. ``plan``: its first repetition."""

    id: str
    owner: str
    created_at: float
    plan: Plan
    told: Told


@dataclass(frozen=True)
class PredictionFilter:
    """Which predictions are wanted."""

    owner: str | None = None
    model: str | None = None
    framework: str | None = None
    strategy: str | None = None


class PredictionStore(Protocol):
    """What the store knows of predictions."""

    def add_predictions(self, predictions: Sequence[Prediction]) -> None:
        """Store them, all in one transaction."""

    def predictions(
        self, wanted: PredictionFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Prediction]:
        """Those that are wanted, the newest first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """
