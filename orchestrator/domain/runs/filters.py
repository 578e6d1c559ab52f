"""Which of what is stored a reader wants: that which agrees in all that is given. ``owner`` None means any.
``oldest_first`` turns a list round, which has the newest first otherwise."""

from dataclasses import dataclass

from orchestrator.domain.runs.run import ExperimentState, RunState


@dataclass(frozen=True)
class ExperimentFilter:
    """Which experiments are wanted. ``label`` is one of them; ``schedule`` the id of the one that made them."""

    owner: str | None = None
    state: ExperimentState | None = None
    name: str | None = None
    label: tuple[str, str] | None = None
    schedule: str | None = None
    oldest_first: bool = False


@dataclass(frozen=True)
class RunFilter:
    """Which runs are wanted. ``label`` is one of their experiment."""

    owner: str | None = None
    experiment_id: str | None = None
    state: RunState | None = None
    model: str | None = None
    framework: str | None = None
    label: tuple[str, str] | None = None
    oldest_first: bool = False


@dataclass(frozen=True)
class CellFilter:
    """Which cells are wanted. ``gpu_model`` is a part of the name of the GPUs that it ran on, in any case; ``label``
    one of its experiment; ``series`` the key of a workload that one of its runs had. Of experiments that were
    submitted from ``since`` on and before ``until``. ``ended``: those of which no run is left, for who wants their rows
    alone: the runs of a row that is stored come without analysis."""

    owner: str | None = None
    experiment_id: str | None = None
    model: str | None = None
    framework: str | None = None
    gpu_model: str | None = None
    label: tuple[str, str] | None = None
    series: str | None = None
    since: float | None = None
    until: float | None = None
    ended: bool = False
    oldest_first: bool = False


@dataclass(frozen=True)
class TransferFilter:
    """Which transfers of netbenches are wanted. ``nodes`` in any order, all of them."""

    owner: str | None = None
    experiment_id: str | None = None
    run_id: str | None = None
    topology: str | None = None
    fabric: str | None = None
    library: str | None = None
    operation: str | None = None
    device: str | None = None
    nodes: tuple[str, ...] | None = None
    busy_cores: bool | None = None
    valid: bool | None = None


@dataclass(frozen=True)
class CalibrationFilter:
    """Which calibrations are wanted."""

    owner: str | None = None
    experiment_id: str | None = None
    run_id: str | None = None
    node: str | None = None
    device_id: str | None = None
    device_name: str | None = None
    arithmetic: str | None = None
    valid: bool | None = None


@dataclass(frozen=True)
class SeriesFilter:
    """Which series are wanted: those with a point of such a cell. ``key`` is how their key begins."""

    owner: str | None = None
    key: str | None = None
    model: str | None = None
    framework: str | None = None
    gpu_model: str | None = None
    label: tuple[str, str] | None = None
    experiment_id: str | None = None


@dataclass(frozen=True)
class ScheduleFilter:
    """Which schedules are wanted."""

    owner: str | None = None
    name: str | None = None
    paused: bool | None = None


@dataclass(frozen=True)
class FireFilter:
    """Which fires of a schedule are wanted: those in a state, of times from ``since`` on and before ``until``."""

    schedule_id: str
    state: str | None = None
    since: float | None = None
    until: float | None = None
