"""One job on this host without the service: ``python -m workers.node JOB.json --events OUT.jsonl``.

Needs only the standard library (and pynvml, where installed, for GPUs). The log it writes is the log that the service
ingests. Progress goes to stderr; Ctrl-C ends the attempt in order. Exit status: 0 done, 1 the attempt failed, 2 usage
or no job. ``python -m workers.node serve`` runs an agent instead; see ``workers.node.server``.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Sequence

from workers.node.children import Spawner
from workers.node.event_log import EventLog
from workers.node.inventory import Inventory
from workers.node.outcome import Failure
from workers.node.provenance import Provenance
from workers.node.supervisor import Supervisor, Surroundings
from workers.node.telemetry.nvml import Nvml
from workers.trainer import protocol

_PROGRESS_S = 1.0


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status."""
    if arguments[:1] == ["serve"]:
        from workers.node import server

        return server.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m workers.node", description=__doc__.splitlines()[0])
    parser.add_argument("job", type=Path, metavar="JOB.json")
    parser.add_argument("--events", type=Path, required=True, metavar="OUT.jsonl", help="the log; must not exist yet")
    options = parser.parse_args(arguments)
    try:
        job = protocol.read_job(str(options.job))
        if options.events.exists() and options.events.stat().st_size > 0:
            raise ValueError(f"{options.events} exists: a log is never written over")
        log = EventLog(options.events)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    failure = carry_out(job, log)
    Path(str(options.events) + ".reserve").unlink(missing_ok=True)
    if failure is not None:
        print(f"failed: {failure.kind}: {failure.message}", file=sys.stderr)
        return 1
    print(f"done: {log.last_seq} entries in {options.events}", file=sys.stderr)
    return 0


def carry_out(job: dict[str, Any], log: EventLog) -> Failure | None:
    """Carry out all processes of ``job`` on this host; return the failure, None when it ended well."""
    folder = Path(tempfile.mkdtemp(prefix="tbd-attempt-"))
    nvml = Nvml()
    spawner = Spawner()
    try:
        inventory = Inventory(None, folder, nvml)
        around = Surroundings(None, folder, spawner, inventory.read, Provenance().read, nvml)
        supervisor = Supervisor(job, folder, log, around)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: supervisor.stop("cancelled", "interrupted on this host"))
        end = threading.Event()
        progress = threading.Thread(target=_show, args=(log, end), daemon=True)
        progress.start()
        failure = supervisor.run()
        end.set()
        progress.join()
        return failure
    finally:
        spawner.close()
        nvml.close()
        shutil.rmtree(str(folder), ignore_errors=True)


def _show(log: EventLog, end: threading.Event) -> None:
    """Say on stderr how far it is: when that has changed, at most once a second."""
    started, seen, said = time.monotonic(), 0, ""
    phase, steps = "setting up", 0
    while not end.wait(_PROGRESS_S):
        for entry in log.slice(seen, sys.maxsize - seen):
            seen = entry["seq"]
            if entry["kind"] == "interval" and entry["rank"] in (0, None):
                phase, steps = entry["data"]["phase"], entry["data"]["first_step"] + entry["data"]["n"] - 1
            elif entry["kind"] in ("process_started", "built", "stopping_decided", "finished"):
                phase = entry["kind"].replace("_", " ")
        line = f"{phase}, step {steps}"
        if line != said:
            print(f"{time.monotonic() - started:6.0f} s  {line}", file=sys.stderr, flush=True)
        said = line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
