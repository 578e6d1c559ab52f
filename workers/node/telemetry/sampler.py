"""Telemetry beside a running attempt: a reading each period, into the attempt's log.

Owns the timing (deadlines are start + k * period, so that it does not drift; a missed one is skipped and counted) and
the differences of counters. Reading them is procfs's and nvml's. The sampler's own processor time stands in each
reading (``sampler_cpu_s``): a measurement may have to know what it cost.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable, Hashable, Iterable, List, Mapping, Sequence

from workers.node import background, processes
from workers.node.event_log import EventLog
from workers.node.processes import ProcessId, Stat
from workers.node.telemetry import procfs
from workers.node.telemetry.census import Census
from workers.node.telemetry.cpu_time import FamilyTime, OwnTime

Value = List[Any]  # [metric, subject, value]

# Looking at all processes of a host takes milliseconds. Which processes belong to the attempt and to tbd is looked up
# this often; at distances that double up to it in the beginning, when frameworks start their helpers.
WALK_PERIOD_S = 10.0

# Shorter than this a last reading says nothing: the kernel's clock ticks are 0.01 s.
_LEAST_WINDOW_S = 0.1


class Deadlines:
    """The moments at which to sample: multiples of the period after the start, whatever a sample takes."""

    def __init__(self, start: float, period_s: float) -> None:
        self._start = start
        self._period_s = period_s
        self._index = 0
        self.missed = 0

    def next(self, now: float) -> float:
        """Return the next deadline after ``now``; those that have passed meanwhile are missed."""
        index = max(self._index, int((now - self._start) / self._period_s)) + 1
        self.missed += index - self._index - 1
        self._index = index
        return self._start + index * self._period_s


class Counters:
    """The last totals by name; turns a new total into what came since."""

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}

    def since(self, name: Hashable, total: float | None, first: float | None = None) -> float | None:
        """Return how much ``total`` grew since the last call; ``first`` when there was none.

        A counter that went back (its source began anew) has grown by its total.
        """
        if total is None:
            return None
        last = self._last.get(name)
        self._last[name] = total
        if last is None:
            return first
        return total - last if total >= last else total


class Neighbours:
    """The processes of other attempts on a shared node, and their processor time."""

    def __init__(self) -> None:
        self._there: set[ProcessId] = set()
        self._time = OwnTime()
        self._met_at_ticks = processes.now_ticks()
        self._began_after_ticks: int | None = None

    def meet(self, there: set[ProcessId]) -> None:
        """These are there now; of those that have come since the last time all that they have used counts."""
        self._there, self._began_after_ticks = there, self._met_at_ticks
        self._met_at_ticks = processes.now_ticks()

    def since(self) -> float:
        """Return the seconds that they have used since the last call."""
        return self._time.since(_stats(self._there), self._began_after_ticks)


class Observer:
    """Takes one reading after another of a host, an attempt's processes and its devices.

    Args:
        token: the attempt's token; finds processes that its processes have started.
        attempt: the processes by name.
        devices: the devices that the attempt holds on this node.
        nvml: a ``Nvml``.
        node: this node's name in the job; None where there are no others.
        is_neighbours: as a ``Census`` takes it; then readings tell what those who share the node use.
    """

    def __init__(
        self,
        token: str,
        attempt: Mapping[str, ProcessId],
        devices: Sequence[Mapping[str, Any]],
        nvml: Any,
        node: str | None = None,
        is_neighbours: Callable[[str], bool] | None = None,
    ) -> None:
        self._census = Census(token, node, is_neighbours)
        self._neighbours: Neighbours | None = Neighbours() if is_neighbours else None
        self._attempt = dict(attempt)
        self._gpus = [device["id"] for device in devices if device["kind"] == "cuda"]
        self._nvml = nvml
        self._counters = Counters()
        self._members: set[ProcessId] = set(attempt.values())
        self._attempt_time = FamilyTime()
        self._own: set[ProcessId] = set()
        self._own_time = OwnTime()
        self._counted_at_ticks: int | None = None
        self._adopted: list[tuple[str, ProcessId]] = []

    def adopt(self, name: str, process: ProcessId) -> None:
        """Count ``process`` as one of the attempt from the next reading on; may be called from another thread."""
        self._adopted.append((name, process))

    def walk(self) -> list[Value]:
        """Look up which processes there are, and read what is too dear for each sample."""
        counted = self._census.take()
        self._members = counted.members | set(self._attempt.values())
        self._own = counted.own - self._members
        if self._neighbours is not None:
            self._neighbours.meet(counted.neighbours)
        values: list[Value] = [["cpu_frequency_hz", "host", procfs.frequency_hz()]]
        values.append(["memory_bytes", "own", _resident_bytes(_stats(self._own).values())])
        pids = {process.pid for process in self._members}
        for uuid in self._gpus:
            foreign = self._nvml.foreign_processes(uuid, pids)
            values.append(["foreign_device_processes", "device:" + uuid, foreign])
        return [*values, *self.faults()]

    def faults(self) -> list[Value]:
        """Return what the driver tells of errors of the devices since the last call."""
        values: list[Value] = []
        for uuid in self._gpus:
            for metric, value in self._nvml.faults(uuid).items():
                if metric == "uncorrected_ecc_errors":
                    value = self._counters.since((uuid, metric), value, first=0.0)
                values.append([metric, "device:" + uuid, value])
        for name, errors in procfs.rdma_errors().items():
            values.append(["port_errors", "interface:" + name, self._counters.since((name, "errors"), errors, first=0)])
        return values

    def read(self) -> list[Value]:
        """Return all values since the last call. Those of the first call have no window and mean nothing."""
        return [*self._host(), *self._traffic(), *self._processes(), *self._devices()]

    def _host(self) -> list[Value]:
        active, stolen = procfs.cores()
        since = self._counters.since
        values: list[Value] = [
            ["core_active_s", f"core:{core}", _rounded(since(("core", core), total))] for core, total in active.items()
        ]
        values.append(["stolen_s", "host", _rounded(since("stolen", stolen))])
        available, swap = procfs.memory()
        values.append(["memory_available_bytes", "host", available])
        values.append(["swap_in_bytes", "host", since("swap", procfs.swap_in_bytes() if swap != 0 else 0)])
        return values

    def _traffic(self) -> list[Value]:
        since = self._counters.since
        values: list[Value] = []
        for name, (received, sent) in {**procfs.interfaces(), **procfs.rdma_ports()}.items():
            values.append(["received_bytes", "interface:" + name, since(("received", name), received)])
            values.append(["sent_bytes", "interface:" + name, since(("sent", name), sent)])
        read, written = procfs.disks() or (None, None)
        values.append(["read_bytes", "disk", since("read", read)])
        values.append(["written_bytes", "disk", since("written", written)])
        return values

    def _processes(self) -> list[Value]:
        while self._adopted:
            name, process = self._adopted.pop(0)
            self._attempt[name] = process
            self._members.add(process)
        stats, own = _stats(self._members), _stats(self._own)
        values: list[Value] = []
        for name, process in self._attempt.items():
            one = stats.get(process)
            used_s = one.cpu_ticks / procfs.TICKS_PER_S if one else None
            values.append(["cpu_s", "process:" + name, _rounded(self._counters.since(process, used_s, first=used_s))])
            values.append(["memory_bytes", "process:" + name, _resident_bytes([one] if one else [])])
        values.append(["cpu_s", "attempt", _rounded(self._attempt_time.since(stats))])
        values.append(["memory_bytes", "attempt", _resident_bytes(stats.values())])
        values.append(["cpu_s", "own", _rounded(self._own_time.since(own, self._counted_at_ticks))])
        self._counted_at_ticks = processes.now_ticks()
        if self._neighbours is not None:
            values.append(["cpu_s", "neighbours", _rounded(self._neighbours.since())])
        return values

    def _devices(self) -> list[Value]:
        values: list[Value] = []
        for uuid in self._gpus:
            subject = "device:" + uuid
            for metric, value in self._nvml.read(uuid).items():
                if metric == "energy_j":
                    value = self._counters.since((uuid, metric), value)
                values.append([metric, subject, value])
        return values


class Sampler:
    """Writes a ``reading`` into ``log`` each ``period_s`` from a thread of its own.

    ``error`` is the exception that ended it before its time, if one did.
    """

    def __init__(
        self,
        log: EventLog,
        period_s: float,
        token: str,
        attempt: Mapping[str, ProcessId],
        devices: Sequence[Mapping[str, Any]],
        nvml: Any,
        node: str | None = None,
        is_neighbours: Callable[[str], bool] | None = None,
    ) -> None:
        self._log = log
        self._period_s = period_s
        self._observer = Observer(token, attempt, devices, nvml, node, is_neighbours)
        self._availability: Callable[[], Any] = lambda: nvml.availability
        self._told = ""  # of what can be had, as it was written last
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tbd-sampler", daemon=True)
        self.error: Exception | None = None
        self.missed = 0

    def start(self) -> None:
        self._thread.start()

    def adopt(self, name: str, process: ProcessId) -> None:
        """Take in a process that has begun after the others."""
        self._observer.adopt(name, process)

    def stop(self) -> None:
        """End the sampler after a last reading. Never raises."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        background.step_back(name="tbd-sampler")  # its core is that of the thread that started it
        try:
            self._sample_until_end()
        except Exception as error:  # reported by whoever owns the attempt
            self.error = error

    def _sample_until_end(self) -> None:
        start = last = time.monotonic()
        deadlines = Deadlines(start, self._period_s)
        self._observer.read()
        self._observer.faults()  # of the time before
        walk_at = start
        going = True
        while going:
            deadline = deadlines.next(time.monotonic())
            going = not self._end.wait(max(0.0, deadline - time.monotonic()))
            now = time.monotonic()
            if not going and now - last < _LEAST_WINDOW_S:
                faults = self._observer.faults()
                if faults:  # what happened in no time may explain the run all the same
                    self._write(max(now - last, 1e-6), faults, deadlines.missed)
                return
            rare: list[Value] = []
            if now >= walk_at:
                rare = self._observer.walk()
                walk_at = now + min(WALK_PERIOD_S, now - start)
            elif not going:
                rare = self._observer.faults()
            values = [*self._observer.read(), *rare]
            self._write(now - last, values, deadlines.missed)
            last = now

    def _write(self, window_s: float, values: list[Value], missed: int) -> None:
        self.missed = missed
        available = self._availability()
        told = json.dumps(available)
        more: dict[str, Any] = {"nvml": available} if available and told != self._told else {}
        self._told = told
        self._log.append(
            "reading",
            window_s=round(window_s, 6),
            values=values,
            missed=missed,
            sampler_cpu_s=round(time.thread_time(), 6),
            **more,
        )


def _stats(members: Iterable[ProcessId]) -> dict[ProcessId, Stat]:
    """What the kernel says of those that still live."""
    found = ((process, processes.stat(process.pid)) for process in members)
    return {process: one for process, one in found if one is not None and one.start_ticks == process.start_ticks}


def _resident_bytes(stats: Iterable[Stat]) -> int:
    return sum(one.resident_pages for one in stats) * procfs.PAGE_BYTES


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
