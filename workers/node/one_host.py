"""One attempt on this host, without a service: what carries it out, and what a person sees of it meanwhile."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Mapping

from workers.node.children import Spawner
from workers.node.event_log import EventLog
from workers.node.inventory import Inventory
from workers.node.outcome import Failure
from workers.node.provenance import Provenance
from workers.node.supervisor import Supervisor, Surroundings
from workers.node.telemetry.nvml import Nvml

_PROGRESS_S = 1.0


def carry_out(
    job: Mapping[str, Any], log: EventLog, make: Callable[..., Supervisor] = Supervisor, said: str = ""
) -> Failure | None:
    """Carry out all processes of ``job`` on this host; return the failure, None when it ended well.

    Args:
        make: makes the supervisor, from what ``Supervisor`` takes.
        said: stands before each line of progress.
    """
    folder = Path(tempfile.mkdtemp(prefix="tbd-attempt-"))
    nvml = Nvml()
    spawner = Spawner()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        inventory = Inventory(None, folder, nvml)
        around = Surroundings(None, folder, spawner, inventory.read, Provenance().read, nvml)
        supervisor = make(job, folder, log, around)
        for number in before:
            signal.signal(number, lambda *_: supervisor.stop("cancelled", "interrupted on this host"))
        end = threading.Event()
        progress = threading.Thread(target=_show, args=(log, end, said), daemon=True)
        progress.start()
        found: list[Failure | None] = []
        # A thread of its own, for it steps back for good: what a later attempt starts must not begin with that.
        thread = threading.Thread(target=lambda: found.append(supervisor.run()), name="tbd-attempt")
        thread.start()
        while thread.is_alive():  # a signal is noticed between two waits
            thread.join(0.2)
        end.set()
        progress.join()
        return found[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        spawner.close()
        nvml.close()
        shutil.rmtree(str(folder), ignore_errors=True)


def _show(log: EventLog, end: threading.Event, said: str) -> None:
    """Say on stderr how far it is: when that has changed, at most once a second."""
    started, seen, told = time.monotonic(), 0, ""
    phase, steps = "setting up", 0
    while not end.wait(_PROGRESS_S):
        for entry in log.slice(seen, sys.maxsize - seen):
            seen = entry["seq"]
            if entry["kind"] == "interval" and entry["rank"] in (0, None):
                phase, steps = entry["data"]["phase"], entry["data"]["first_step"] + entry["data"]["n"] - 1
            elif entry["kind"] in ("process_started", "built", "stopping_decided", "finished"):
                phase = entry["kind"].replace("_", " ")
        line = f"{said}{phase}, step {steps}"
        if line != told:
            print(f"{time.monotonic() - started:6.0f} s  {line}", file=sys.stderr, flush=True)
        told = line
