"""Processor time of processes that come and go.

Totals come from /proc/PID/stat: a process's own, and that of its children that have ended and that it has waited for.
"""

from __future__ import annotations

from typing import Mapping

from workers.node.processes import ProcessId, Stat
from workers.node.telemetry import procfs


class FamilyTime:
    """What a growing and shrinking family of processes has used, those included that came and went unseen.

    A process that ends is in its parent's total from then on, if the parent waits for it; where the parent is not of
    the family (an agent, init), what was last known of it is kept.
    """

    def __init__(self) -> None:
        self._last: dict[ProcessId, Stat] = {}
        self._kept_ticks = 0
        self._counted_ticks = 0

    def since(self, stats: Mapping[ProcessId, Stat]) -> float:
        """Return the seconds used since the last call; of a member seen first, all that it has ever used.

        Args:
            stats: the members that there are now.
        """
        parents = {process.pid for process in stats}
        for process, last in self._last.items():
            if process not in stats and last.parent not in parents:
                self._kept_ticks += last.cpu_ticks + last.waited_ticks
        self._last = dict(stats)
        ticks = self._kept_ticks + sum(one.cpu_ticks + one.waited_ticks for one in stats.values())
        # Processes are read one after the other: one that ends meanwhile may be missed for once, and comes again.
        grown, self._counted_ticks = max(0, ticks - self._counted_ticks), max(ticks, self._counted_ticks)
        return grown / procfs.TICKS_PER_S


class OwnTime:
    """What single processes have used, without their children, since they were seen first."""

    def __init__(self) -> None:
        self._last: dict[ProcessId, int] = {}

    def since(self, stats: Mapping[ProcessId, Stat], began_after_ticks: int | None = None) -> float:
        """Return the seconds used since the last call.

        Args:
            began_after_ticks: of processes seen first that began later than this many clock ticks after boot, all they
                have used counts; None for none.
        """
        ticks = 0
        for process, one in stats.items():
            is_young = began_after_ticks is not None and process.start_ticks > began_after_ticks
            ticks += one.cpu_ticks - self._last.get(process, 0 if is_young else one.cpu_ticks)
        self._last = {process: one.cpu_ticks for process, one in stats.items()}
        return ticks / procfs.TICKS_PER_S
