"""The errors that tbd raises on purpose: a small tree under one base.

``orchestrator.api.problems`` holds the one table from these to HTTP statuses; a test keeps it total.
"""

from dataclasses import dataclass


class TbdError(Exception):
    """Base of all errors that tbd raises on purpose. The text names the cause and the way out."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with what was sent: a JSON pointer (RFC 6901) into it and what to do."""

    pointer: str
    message: str


class InvalidRequest(TbdError):  # noqa: N818 - reads as what happened
    """What was asked for is wrong in itself; nothing was stored."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems))


class NotFound(TbdError):  # noqa: N818
    """No such thing, or not one that the caller may see."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"there is no {kind} {name!r}")


class NotAuthenticated(TbdError):  # noqa: N818
    """Nobody knows who asks: there is no token, or it is not (any more) one of ours."""


class NotAllowed(TbdError):  # noqa: N818
    """Who asks is known, and may not do this; the text says who may."""


class TooManyRequests(TbdError):  # noqa: N818
    """One caller asks too often. ``wait_s``: seconds until the next request is served."""

    def __init__(self, message: str, wait_s: float) -> None:
        self.wait_s = wait_s
        super().__init__(message)


class Conflict(TbdError):  # noqa: N818
    """The thing is in a state that does not allow what was asked for."""


@dataclass(frozen=True)
class Damaged:
    """A stored row that cannot be read: an older version of tbd stored what this one would refuse, or somebody else
    wrote into the database. ``experiment_id`` is what it hangs on, where that is known."""

    table: str
    id: str
    experiment_id: str | None
    reason: str

    @property
    def way_out(self) -> str:
        """What a person can do about it."""
        if self.experiment_id:
            return f"tbd rm {self.experiment_id}"
        command = {"schedule": "tbd schedule rm", "imported_point": "tbd rm", "webhook": "tbd webhooks rm"}.get(
            self.table
        )
        return f"{command} {self.id}" if command else "restore the database from a copy"


class DamagedRow(Conflict):
    """What was asked for is stored, but cannot be read."""

    def __init__(self, damaged: Damaged) -> None:
        self.damaged = damaged
        super().__init__(
            f"{damaged.table} {damaged.id} is damaged: {damaged.reason}. To remove it: {damaged.way_out}; "
            "tbd db check finds all such rows"
        )


class IdempotencyMismatch(Conflict):
    """An idempotency key was used before with another body."""


class StoreUnavailable(TbdError):  # noqa: N818
    """The database cannot be reached or refuses; nothing was acknowledged. Worth trying again."""


class StoreFull(StoreUnavailable):
    """The disk of the database is full; nothing was acknowledged."""


class StoreDamaged(StoreUnavailable):
    """The file of the database is damaged, or is no database: trying again does not help."""


class ClusterUnavailable(TbdError):  # noqa: N818
    """The cluster cannot be reached."""


class NodeUnreachable(ClusterUnavailable):
    """The agent of one node does not answer. It says nothing about the processes there."""

    def __init__(self, node: str, why: str) -> None:
        self.node = node
        super().__init__(f"node {node}: {why}")


class NodeFailed(NodeUnreachable):
    """The agent of one node answered with an error. It says nothing about the processes there."""


class JobRefused(TbdError):  # noqa: N818
    """A node agent answered that it will not carry out a job. ``failure``: the failure kind that this is of a run."""

    def __init__(self, message: str, failure: str = "setup_failed") -> None:
        super().__init__(message)
        self.failure = failure


class DevicesTaken(TbdError):  # noqa: N818
    """Another user of the cluster uses devices that are free for us; the message names them. Worth trying again."""


class DataDirectoryInUse(TbdError):  # noqa: N818
    """Another server owns the data directory."""

    def __init__(self, path: str, owner: str, way_out: str) -> None:
        super().__init__(f"the data directory {path} belongs to the server at {owner}: {way_out}")


class AlreadyServed(TbdError):  # noqa: N818
    """Another server decides for the database: there is one at a time."""

    def __init__(self, database: str, server: str, way_out: str) -> None:
        super().__init__(f"{database} is served already, at {server}: {way_out}")


class SettingsError(TbdError):
    """A TBD_* variable of the environment has a value that cannot be used."""
