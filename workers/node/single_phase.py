"""One phase of one process, apart from any attempt: for what is computed on this host and not measured.

The process begins as one of an attempt does (``children``), but nothing watches it: no log, no telemetry.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Mapping

from workers.node import children, prepare


class PhaseError(Exception):
    """The process failed; the message has what it said last."""


def carry_out(job: Mapping[str, Any], phase: str, folder: Path, timeout_s: float) -> None:
    """Run the only process of ``job`` with ``--phase`` in its interpreter, whose files then lie in ``folder``.

    Args:
        job: complete, with the interpreter's ``python`` and ``environment``.

    Raises:
        PhaseError: it failed, or was not done in time.
    """
    (process,) = job["processes"]
    job_path, events = folder / "job.json", folder / "events.jsonl"
    job_path.write_text(json.dumps({**job, "process": process["name"]}))
    job_path.chmod(0o600)
    cores = children.cores_of(process)
    added = children.of_process(job, process, str(prepare.module_folder(folder)), cores)
    command = [job["interpreter"]["python"], "-m", "workers.trainer", "--job", str(job_path), "--events", str(events)]
    spawner = children.Spawner()
    try:
        popen = spawner.popen(
            [*command, "--phase", phase],
            cores=cores,
            cwd=str(folder),
            env=children.environment(os.environ, added),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        _await(popen, events, timeout_s)
    finally:
        spawner.close()


def _await(popen: subprocess.Popen[bytes], events: Path, timeout_s: float) -> None:
    try:
        _, err = popen.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise PhaseError(f"it was not done after {timeout_s:.0f} s") from None
    finally:
        popen.kill()
        popen.wait()
    if popen.returncode != 0:
        raise PhaseError(_reported(events) or _ended(popen.returncode, err))


def _ended(status: int, err: bytes) -> str:
    if status == -signal.SIGKILL:
        return "it was killed, as the kernel does when memory runs out: with a smaller batch or size it takes less"
    last = err.decode("utf-8", "replace").strip().splitlines()[-1:]
    return " ".join([f"it ended with status {status}", *last])


def _reported(events: Path) -> str | None:
    """What the process itself says has gone wrong."""
    try:
        told = [json.loads(line) for line in events.read_text().splitlines()]
    except (OSError, ValueError):
        return None
    return next((str(one["data"]["message"]) for one in told if one["kind"] == "error"), None)
