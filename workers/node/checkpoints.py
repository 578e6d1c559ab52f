"""Where the runs to convergence of this node keep their checkpoints (``workers.trainer.checkpoint``), and when they go.

A folder of the run, beside those of its attempts: ``DIRECTORY/checkpoints/RUN``. Where ``TBD_CHECKPOINTS`` names a
folder that all nodes share, another node goes on, and so do several: ``TBD_CHECKPOINTS/RUN``.

A run that ended in a failure may get another attempt, which nobody here knows: its checkpoints are kept for a week. A
folder that nodes share may hold what is not ours: only folders with nothing but checkpoints in them go, and their age
is told by that folder's own clock, not by that of a node.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Mapping

from workers.trainer import checkpoint

NAME = "checkpoints"
# Judgement.
_KEPT_S = 7 * 24 * 3600.0
_RUN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def given(job: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return ``job`` with the folder of its run's checkpoints, if its plan is one to convergence."""
    if job["plan"].get("mode") != "convergence" or not _RUN.fullmatch(str(job["run_id"])):
        return dict(job)
    shared = os.environ.get("TBD_CHECKPOINTS")
    folder = Path(shared) if shared else directory / NAME
    return {**job, NAME: {"folder": str(folder.absolute() / job["run_id"]), "shared": bool(shared)}}


def settle(job: Mapping[str, Any] | None, failure: Mapping[str, Any] | None, node: str) -> None:
    """Remove the checkpoints of an attempt that is over, where none will follow it: it ended well, or on request; and
    those beside them that are too old.

    The agent of rank 0 does, which alone knows of its end whether all have ended well."""
    told = (job or {}).get(NAME)
    if job is None or told is None:
        return
    if any(0 in process["ranks"] and process["node"] == node for process in job["processes"]):
        if failure is None or failure.get("kind") == "cancelled":
            shutil.rmtree(told["folder"], ignore_errors=True)
        tidy(Path(told["folder"]).parent)


def tidy(folder: Path) -> None:
    """Remove from ``folder``, the folder of all runs, what was left by those of which no attempt came any more."""
    with suppress(OSError):  # it is not there, or nothing can be written in it, or another agent was quicker
        now = _time_there(folder)
        for run in folder.iterdir():
            if _RUN.fullmatch(run.name) and run.is_dir() and not run.is_symlink():
                _remove(run, now - _KEPT_S)


def _time_there(folder: Path) -> float:
    """Return the time by the clock that dates the files in ``folder``: that of a file server, maybe."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def _remove(run: Path, before: float) -> None:
    """Remove the folder of a run, if it holds nothing but checkpoints and all that is there is of a time ``before``."""
    files = list(run.iterdir())
    if not all(checkpoint.is_ours(file.name) for file in files):
        return
    if max(path.lstat().st_mtime for path in (run, *files)) < before:
        for file in files:
            file.unlink()
        run.rmdir()
