"""Measure how noisy this machine is, in two minutes: between fresh processes, within one, levels, and how many runs
1, 2 and 5 % take.

tbd noise
GLIBC_TUNABLES=glibc.malloc.hugetlb=1 tbd noise

Each process trains a small network in numpy (matrix products in float32) on the cores of the first CPU device, in the
environment that a training would inherit. No framework, server or GPU is needed, and none is used. The processes give
way to trainings: where one holds a CPU device of this machine, nothing is measured.
"""

import argparse
from pathlib import Path
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.exits import DONE, RUN_FAILED, USAGE, CommandError

KERNEL = "steps of a small training in numpy"
LEAST_S, MOST_S = 5.0, 3600.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=110.0, help="how long, about (default 110)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.reports import noise_table

    if not LEAST_S <= options.seconds <= MOST_S:
        raise CommandError(f"--seconds {options.seconds:g} is outside {LEAST_S:g} to {MOST_S:g}", USAGE)
    found = measured(options.seconds)
    if options.json:
        output.print_json(found)
    else:
        print(noise_table.text(found, output.width()))
    return DONE


def measured(seconds: float) -> dict[str, Any]:
    """What was found, as JSON.

    Raises:
        CommandError: it could not be measured.
    """
    from orchestrator.analysis import noise as judging
    from workers.node import noise

    names, cores = _devices()
    try:
        found = noise.measure(cores, seconds, lambda: _hindrance(names), output.say)
    except noise.NoiseError as error:
        raise CommandError(str(error), RUN_FAILED) from None
    judged = judging.judge(found.durations_s).to_json()
    facts = {"device": names[0], "cores": cores, "kernel": KERNEL, "steps_per_interval": found.outline.steps}
    times = {"start_up_s": found.start_up_s, "elapsed_s": found.elapsed_s, "timed_s": sum(map(sum, found.durations_s))}
    conditions = {"foreign_ratio": found.foreign_ratio, "stolen_ratio": found.stolen_ratio}
    return facts | judged | times | conditions | {"settings": _settings()}


def _devices() -> tuple[list[str], list[int]]:
    """The names of this machine's CPU devices and the cores of the first of them; all cores where none is offered."""
    from workers.node.inventory import Inventory, ranges, usable_cores
    from workers.node.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        devices = Inventory(None, Path("/"), nvml).read()["devices"]
    except ValueError as error:
        raise CommandError(str(error), USAGE) from None
    finally:
        nvml.close()
    offered = [device for device in devices if device["kind"] == "cpu"]
    if not offered:
        cores = usable_cores()
        return [f"cpu:{ranges(cores)}"], cores
    return [device["id"] for device in offered], list(offered[0]["cores"])


def _hindrance(names: list[str]) -> str | None:
    """Which device a training holds, if any. Only looked at: to try the lock might make a training fail."""
    from workers.node.prepare import lock_folder
    from workers.trainer.host import lock_path

    held = _locked_inodes(Path("/proc/locks"))
    for name in names:
        path = Path(lock_path(str(lock_folder()), name))
        if path.exists() and path.stat().st_ino in held:
            return f"a training holds {name}: measure again when it is over (tbd ls, or `fuser {path}`)"
    return None


def _locked_inodes(locks: Path) -> set[int]:
    """The inodes of all files that somebody holds a lock on (proc(5): the sixth word is MAJOR:MINOR:INODE)."""
    try:
        lines = [line.split() for line in locks.read_text().splitlines()]
    except OSError:
        return set()
    return {int(words[5].rpartition(":")[2]) for words in lines if len(words) > 5 and words[1] == "FLOCK"}


def _settings() -> dict[str, Any]:
    """What moves speed here, as a fingerprint names it."""
    import os

    from workers.node import children, speed_settings

    return speed_settings.of_machine() | {"inherited": speed_settings.of_process(children.environment(os.environ, {}))}
