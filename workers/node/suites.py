"""Models from outside the tree (``TBD_SUITE_PATH``): which code one is, and the same code as of an earlier commit."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Mapping

from workers.node.own import repository


class SuiteError(Exception):
    """An earlier commit cannot be had; the message says why."""


def path_of(job: Mapping[str, Any]) -> list[str]:
    """Return the folders with further models: those of the job, else this host's."""
    own = job.get("suite_path")
    return list(own if own is not None else filter(None, os.environ.get("TBD_SUITE_PATH", "").split(os.pathsep)))


def folder_of(job: Mapping[str, Any]) -> Path | None:
    """Return the one that the job's model is from; None for a model of ours."""
    module = str(job["model"].get("module") or "")
    if not module.isidentifier():  # those of ours stand in a package
        return None
    folders = [Path(one).expanduser() for one in path_of(job)]
    return next((one for one in folders if (one / module).is_dir()), None)


def code_of(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return {commit, dirty_sha256} of the folder that the job's model is from; None for a model of ours."""
    commit = job["interpreter"].get("suite_commit")
    if commit:
        return {"commit": commit, "dirty_sha256": None}
    folder = folder_of(job)
    if folder is None:
        return None
    found = repository.code_of(folder)
    return {key: found[key] for key in ("commit", "dirty_sha256")}


def checked_out(job: Mapping[str, Any], target: Path) -> list[str] | None:
    """Put the model's folder as of the job's ``suite_commit`` into ``target``; return ``path_of`` with that in its
    place. None for a job that names no commit.

    Raises:
        SuiteError: there is no such commit or folder any more.
    """
    commit = job["interpreter"].get("suite_commit")
    if not commit:
        return None
    folder = folder_of(job)
    if folder is None:
        raise SuiteError(f"the model {job['model'].get('name')} is in no folder of TBD_SUITE_PATH here")
    if not re.fullmatch("[0-9a-f]{40}", commit):
        raise SuiteError(f"{commit!r} is no commit")
    try:
        repository.take_out(folder, commit, target)
    except repository.RepositoryError as error:
        raise SuiteError(str(error)) from None
    return [str(target) if Path(one).expanduser() == folder else one for one in path_of(job)]
