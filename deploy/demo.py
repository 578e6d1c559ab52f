"""What ``make demo`` does once everything is installed: serve, submit half of the quick suite, show, report, stop.

``python deploy/demo.py FRAMEWORK... -- OPTION...``: with those of the frameworks that are installed, and with further
options of ``tbd submit``. One of the suite's batches, the smaller, answers which framework is faster in less than
half of the time. On a host with a GPU, and with PyTorch, it is ResNet-50 of the suite for GPUs, four times.

Everything goes through the ``tbd`` command and REST, as a user would do it. What is measured stays in ``.tbd`` of this
folder (or ``TBD_DATA_DIR``).
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from workers.node import interpreters
from workers.node.telemetry.nvml import Nvml

ROOT = Path(__file__).resolve().parent.parent
TBD = str(Path(sys.executable).parent / "tbd")
QUICK, BATCH = "suites/quick.yaml", ("--batch", "1")
# The batch is ResNet-50's. Some ten minutes, most of which compiling and warming up take: a judgement.
OF_GPUS, SHORTENED = "suites/gpus.yaml", ("--batch", "256", "--repeats", "4")


def main(arguments: list[str]) -> int:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    resolved = [interpreters.resolve(name) for name in arguments[:split] or ("pytorch", "tensorflow")]
    frameworks = [one.name for one in resolved if one.ready]
    if not frameworks:
        print("\n".join(str(one.reason) for one in resolved), file=sys.stderr)
        return 1
    if len(frameworks) < len(resolved):
        absent = [one.name for one in resolved if not one.ready]
        print(f"without {', '.join(absent)}, which cannot be had here (see above)", file=sys.stderr)
    data_dir = Path(os.environ.get("TBD_DATA_DIR") or ROOT / ".tbd")
    environment = {**os.environ, "TBD_DATA_DIR": str(data_dir)}
    print("starting the service (SQLite, a local Ray) …", file=sys.stderr, flush=True)
    server = subprocess.Popen(
        [TBD, "serve", "--port", "0", "--end-runs", "--json"], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        first = server.stdout.readline()
        if not first:
            return server.wait()
        environment["TBD_SERVER"] = json.loads(first)["url"]
        suite, options = asked(frameworks, arguments[split + 1 :], bool(Nvml().gpus()))
        status, experiment = measure(environment, data_dir / "reports", suite, options)
    finally:
        stop(server)
    if experiment:
        print("where to look next:", *next_commands(data_dir, suite), sep="\n")
    return status


def asked(frameworks: Sequence[str], own: Sequence[str], has_gpus: bool) -> tuple[str, list[str]]:
    """The suite and the options of ``tbd submit``, of which those of the person, ``own``, come last."""
    of_gpus = has_gpus and "pytorch" in frameworks
    usual = [*SHORTENED] if of_gpus else [one for name in frameworks for one in ("--framework", name)]
    if not of_gpus and not any(option.startswith("--batch") for option in own):
        usual += BATCH
    return OF_GPUS if of_gpus else QUICK, [*usual, *own]


def next_commands(data_dir: Path, suite: str) -> list[str]:
    """What to type next in this folder, each with what it is for; none of it needs a server."""
    found = "" if os.environ.get("TBD_DATA_DIR") else f"TBD_DATA_DIR={shlex.quote(os.path.relpath(data_dir))} "
    tbd = found + shlex.quote(os.path.relpath(TBD))
    return [
        f"{tbd} show latest             # the runs, and where the time of the devices went",
        f"{tbd} compare latest          # the frameworks against each other, and what more runs would tell",
        f"{tbd} export latest -o q.csv  # the numbers, for other tools",
        f"{tbd} run {suite}   # the whole suite",
    ]


def measure(environment: dict[str, str], reports: Path, suite: str, options: list[str]) -> tuple[int, str | None]:
    """Submit, wait, print the table and write the report: the exit code of ``tbd submit --wait``, the experiment."""
    submitted = subprocess.run(
        [TBD, "submit", str(ROOT / suite), *options, "--wait", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    if submitted.returncode not in (0, 1):
        return submitted.returncode, None
    experiment = json.loads(submitted.stdout)["id"]
    subprocess.run([TBD, "results", experiment], env=environment, check=True)
    reports.mkdir(parents=True, exist_ok=True)
    report = reports / f"{experiment}.md"
    subprocess.run([TBD, "report", experiment, "-o", str(report)], env=environment, check=True)
    return submitted.returncode, experiment


def stop(server: subprocess.Popen[str]) -> None:
    """An orderly stop, as Ctrl-C would do it."""
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=60)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
