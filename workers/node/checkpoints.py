"""Where the runs to convergence of this node keep their checkpoints (``workers.trainer.checkpoint``), and when they go.

A folder of the run, beside those of its attempts: ``DIRECTORY/checkpoints/RUN``. Where ``TBD_CHECKPOINTS`` names a
folder that all nodes share, another node goes on, and so do several: ``TBD_CHECKPOINTS/RUN``.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any, Mapping

NAME = "checkpoints"
# A run that ended in a failure may get another attempt, which nobody here knows. A judgement.
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
    """Remove the checkpoints of an attempt that is over, where none will follow it: it ended well, or on request.

    The agent of rank 0 does, which alone knows of its end whether all have ended well."""
    told = (job or {}).get(NAME)
    if job is None or told is None or (failure is not None and failure.get("kind") != "cancelled"):
        return
    if any(0 in process["ranks"] and process["node"] == node for process in job["processes"]):
        shutil.rmtree(told["folder"], ignore_errors=True)


def tidy(directory: Path) -> None:
    """Remove what was left by runs of which no attempt came any more."""
    folder = directory / NAME
    for run in folder.iterdir() if folder.is_dir() else ():
        if run.is_dir() and time.time() - run.stat().st_mtime > _KEPT_S:
            shutil.rmtree(str(run), ignore_errors=True)
