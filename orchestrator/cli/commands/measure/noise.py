"""Measure how noisy this machine is, in two minutes: between fresh processes, within one, levels, and how many runs
1, 2 and 5 % take.

tbd noise
GLIBC_TUNABLES=glibc.malloc.hugetlb=1 tbd noise

Each process trains a small network in numpy (matrix products in float32) on the cores of the first CPU device, in the
environment that a training would inherit. No framework, server or GPU is needed, and none is used. The processes give
way to trainings: where one holds a CPU device of this machine, nothing is measured.
"""

import argparse
from typing import Any

from orchestrator.cli.exits import DONE, RUN_FAILED, USAGE, CommandError
from orchestrator.cli.machine import cpu_devices
from orchestrator.cli.printing import output

KERNEL = "steps of a small training in numpy"
LEAST_S, MOST_S = 5.0, 3600.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=110.0, help="how long, about (default 110)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def execute(options: argparse.Namespace) -> int:
    from orchestrator.reports.tables import noise_table

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
    from orchestrator.analysis.probe import noise as judging
    from workers.node import noise

    devices = cpu_devices.offered()
    cores = list(devices[0].cores)
    try:
        found = noise.measure(cores, seconds, lambda: _hindrance(devices), output.say)
    except noise.NoiseError as error:
        raise CommandError(str(error), RUN_FAILED) from None
    judged = judging.judge(found.durations_s).to_json()
    facts = {"device": devices[0].id, "cores": cores, "kernel": KERNEL, "steps_per_interval": found.outline.steps}
    times = {"start_up_s": found.start_up_s, "elapsed_s": found.elapsed_s, "timed_s": sum(map(sum, found.durations_s))}
    conditions = {"foreign_ratio": found.foreign_ratio, "stolen_ratio": found.stolen_ratio}
    return facts | judged | times | conditions | {"settings": _settings()}


def _hindrance(devices: list[cpu_devices.CpuDevice]) -> str | None:
    """Why nothing can be measured now. Locks are only looked at: to try one might make a training fail."""
    held = cpu_devices.hindrance(devices)
    return held and f"{held}: measure again when it is over (tbd ls)"


def _settings() -> dict[str, Any]:
    """What moves speed here, as a fingerprint names it."""
    import os

    from workers.node import children, speed_settings

    return speed_settings.of_machine() | {"inherited": speed_settings.of_process(children.environment(os.environ, {}))}
