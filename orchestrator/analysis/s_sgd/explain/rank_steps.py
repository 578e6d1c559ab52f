"""What the ranks of runs did in a step, and what is read of that: by block, the mean over ranks or one of them."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from statistics import fmean

Block = Hashable
Values = Mapping[Block, float]


@dataclass(frozen=True)
class RankStep:
    """What one rank does in a timed step, in seconds; None where nothing tells.

    Attributes:
        input_s: waiting for a batch.
        copy_s: to the device, t_h2d.
        passes: t_f, t_b, t_u: forward, backward and update, where they are told apart.
        compute_s: in all of these.
        exposed_s: in which the exchange goes on and nothing is computed.
        exchange_s: in which it goes on at all.
        sent: bytes of each exchange of a step.
    """

    rank: int
    input_s: float
    copy_s: float
    compute_s: float | None
    passes: tuple[float, float, float] | None = None
    exposed_s: float | None = None
    exchange_s: float | None = None
    sent: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunSteps:
    """A run: its timed step in seconds, and what each rank that reported did in it."""

    step_s: float
    ranks: tuple[RankStep, ...]


# The runs of a cell by their block.
Side = Mapping[Block, RunSteps]
Told = Callable[[RunSteps, RankStep], float | None]


def step(run: RunSteps, rank: RankStep) -> float:
    return run.step_s


def load(run: RunSteps, rank: RankStep) -> float:
    """Input and copy."""
    return rank.input_s + rank.copy_s


def compute(run: RunSteps, rank: RankStep) -> float | None:
    return rank.compute_s


def exposed(run: RunSteps, rank: RankStep) -> float | None:
    return rank.exposed_s


def idle(run: RunSteps, rank: RankStep) -> float:
    """In which it neither loads nor computes."""
    return run.step_s - load(run, rank) - (rank.compute_s or 0.0)


def all_tell(side: Side, told: Told) -> bool:
    """Return whether every rank of every run tells it, and there is one in each."""
    return all(run.ranks and all(told(run, rank) is not None for rank in run.ranks) for run in side.values())


def each(side: Side, told: Told, rank: int | None = None) -> dict[Block, float]:
    """Return block -> the mean over ranks, or of the one that is named; 0 where no rank reported."""
    return {block: of_run(run, told, rank) for block, run in side.items()}


def of_run(run: RunSteps, told: Told, rank: int | None = None) -> float:
    """Return what a run's ranks tell: the mean, or that of the rank that is named; 0 where none reported."""
    values = [told(run, one) or 0.0 for one in run.ranks if rank in (None, one.rank)]
    return fmean(values) if values else 0.0
