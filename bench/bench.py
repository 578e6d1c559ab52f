"""``make bench``: the ratios of docs/build/benchmarks.md, measured side by side in one run on this machine.

Prints one line a ratio, with its 95 % interval, and writes them with all readings to ``bench.json``.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from bench import (
    command_line,
    disturbance,
    entries,
    gang_mpirun,
    gang_one_node,
    gang_start_up,
    ingest,
    lists,
    own_script,
    pages,
    posts,
    published,
    ray_jobs,
    ready,
    scheduler,
    sharing,
    start_up,
    training,
    trouble,
)
from bench.ratio import Ratio
from tests.support.service import running_service

# name -> (what is measured on, measure, pairs; of disturbance: trainers). The numbers of pairs are judgements: as many
# as fit into half an hour; 0: as many as a pilot says.
MEASUREMENTS: dict[
    str, tuple[Callable[[], AbstractContextManager[Any]], Callable[[Any, int], Ratio | list[Ratio]], int]
] = {
    "ls": (running_service, command_line.measure, 20),
    "start-up": (running_service, start_up.measure, 12),
    "lists": (lists.little_and_much, lists.measure, 4),
    "pages": (pages.rig, pages.measure, 4),
    "pages-mlflow": (pages.beside_mlflow, pages.measure_beside, 10),
    "idle": (lists.a_long_queue, lists.measure_idle, 6),
    "ingest": (ingest.rig, ingest.measure, 4),
    "entries": (entries.rig, entries.measure, 8),
    "posts": (running_service, posts.measure, 8),
    "control": (training.rig, training.measure_control, 32),
    "pytorch": (training.rig, training.measure_pytorch, 62),
    "tensorflow": (training.rig, training.measure_tensorflow, 62),
    "mxnet": (training.rig, training.measure_mxnet, 62),
    "cntk": (training.rig, training.measure_cntk, 62),
    "published": (published.rig, published.measure, 0),
    "disturbance": (training.rig, disturbance.measure_all, disturbance.TRAINERS),
    "sharing": (sharing.rig, sharing.measure, 6),
    "ray-jobs": (ray_jobs.rig, ray_jobs.measure, 6),
    "ready": (ready.rig, ready.measure, 4),
    "scheduler": (scheduler.rig, scheduler.measure, 8),
    "trouble": (trouble.rig, trouble.measure, 6),
    "exec": (own_script.rig, own_script.measure, 6),
    "exec-whole": (own_script.rig, own_script.measure_whole, 4),
    "gang-mpirun": (gang_one_node.rig, gang_mpirun.measure, 6),
    "gang-one-node": (gang_one_node.rig, gang_one_node.measure, 6),
    "gang": (gang_start_up.rig, gang_start_up.measure, 6),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *MEASUREMENTS], help="which; all where none is named")
    parser.add_argument("--pairs", type=int, help="instead of each measurement's own number")
    parser.add_argument("--only", nargs="+", default=[], choices=published.NETWORKS, help="the networks of `published`")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):  # unwinds, as SIGINT does: no process is left behind frozen
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    found: list[Ratio] = []
    for name in options.names or MEASUREMENTS:
        rig, measure, pairs = MEASUREMENTS[name]
        if name == "published":
            measure = partial(published.measure, only=options.only)
        print(f"{name} …", file=sys.stderr, flush=True)
        with rig() as service:  # a fresh one each: what one leaves in the database slows no other
            measured = measure(service, options.pairs or pairs)
        for one in measured if isinstance(measured, list) else [measured]:
            found.append(one)
            print(one, flush=True)
    options.out.write_text(json.dumps([one.to_json() for one in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
