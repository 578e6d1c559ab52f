"""How runs vary: where the warm-up of a cell ends, how far its levels of noise reach, how far its series moves."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """Where the intervals that count begin.

    Attributes:
        first: index of the first interval that counts, the same in every run of the cell.
        own: what the cell's own series say it should be; ``first`` is more where more is remembered.
        mser: what MSER itself says, in intervals.
        settled: whether the runs were level from there on, as far as they can tell.
        reason: why they are not settled, with the numbers; None where they are.
    """

    first: int
    own: int
    mser: int
    settled: bool
    reason: str | None = None


@dataclass(frozen=True)
class Components:
    """Standard deviations of the logarithms (0.01: 1 %) of the three levels; None where the data cannot tell.

    Attributes:
        interval_ratio: of a run's mean, as its own interval has it: what more steps would take away.
        process_ratio: between runs on one node, beyond that.
        node_ratio: between nodes, beyond that.
        nodes: how many there are; ``runs`` on them.
    """

    interval_ratio: float | None
    process_ratio: float | None
    node_ratio: float | None
    nodes: int
    runs: int


@dataclass(frozen=True)
class Movement:
    """How far the mean of a series moves from session to session, beyond what its runs explain.

    Attributes:
        deviation_ratio: standard deviation of the logarithm of a session's mean.
        degrees: sessions less one.
        sessions: it comes from so many.
    """

    deviation_ratio: float
    degrees: int
    sessions: int
