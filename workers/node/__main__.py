"""One job on this host without the service: ``python -m workers.node JOB.json --events OUT.jsonl``.

Needs only the standard library (and pynvml, where installed, for GPUs). The log it writes is the log that the service
ingests. Progress goes to stderr; Ctrl-C ends the attempt in order. Exit status: 0 done, 1 the attempt failed, 2 usage
or no job. ``python -m workers.node serve`` runs an agent instead; see ``workers.node.server``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Sequence

from workers.node.event_log import EventLog
from workers.node.one_host import carry_out
from workers.trainer import protocol


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
