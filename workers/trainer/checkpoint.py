"""Checkpoints of a training to convergence: files from which another attempt of the same run goes on.

A checkpoint is one ``.npz`` of numpy, without pickled objects, whatever the framework: the arrays that the adapter
gives (``workers.trainer.frameworks``, ``checkpoint``) and, as ``head``, a JSON object in UTF-8. Its name is
``STEP-SHA256.npz``, with the digest of the file: a damaged one is told. It is written beside its place and renamed when
it is on the disk, so that one that was begun is never taken for one.
"""

import hashlib
import importlib
import json
import os
import re
import time
from typing import List, NamedTuple, Optional, Tuple

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Adapter, Arrays, Data

# So many are kept: the newest one, and one before it in case that the newest is damaged.
KEPT = 2
VERSION = 1
_HEAD = "head"
_NAME = re.compile(r"(\d{12})-([0-9a-f]{64})\.npz")
_UNFINISHED = ".new"
_BEGUN = "checkpoint" + _UNFINISHED
_CHUNK = 1 << 20


class Checkpoint(NamedTuple):
    """One that was read: its file's name, its head, and the arrays."""

    name: str
    head: Data
    arrays: Arrays


def key_of(job: Job, version: str) -> str:
    """Return what must be the same for an attempt to go on from another one's checkpoint: a digest of the plan, the
    model's facts, the number of ranks and the framework's version."""
    told = [dict(job.plan._asdict()), job.model.facts, job.world_size, version]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8")).hexdigest()


def write(folder: str, head: Data, arrays: Arrays) -> Data:
    """Write a checkpoint of ``head["step"]`` steps; return {bytes, sha256}. Older ones but the last go.

    Raises:
        OSError: it cannot be written. What was there before is there still.
    """
    numpy = importlib.import_module("numpy")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(_UNFINISHED):
            os.unlink(os.path.join(folder, name))
    told = json.dumps(head, sort_keys=True).encode("utf-8")
    path = os.path.join(folder, _BEGUN)
    try:
        with open(path, "wb") as file:
            numpy.savez(file, **dict(arrays, **{_HEAD: numpy.frombuffer(told, dtype=numpy.uint8)}))
            file.flush()
            os.fsync(file.fileno())
        sha256, size = _digest(path), os.path.getsize(path)
        os.replace(path, os.path.join(folder, "%012d-%s.npz" % (head["step"], sha256)))
        _sync(folder)
    except OSError:
        if os.path.exists(path):
            os.unlink(path)
        raise
    own = "%012d-%s.npz" % (head["step"], sha256)
    # Of as many steps or more are only such as an attempt before could not go on from.
    before = [name for name in _names(folder) if int(name[:12]) < head["step"]]
    for name in set(_names(folder)) - {own, *before[: KEPT - 1]}:
        os.unlink(os.path.join(folder, name))
    return {"bytes": size, "sha256": sha256}


def newest(folder: str, key: str) -> Tuple[Optional[Checkpoint], List[str]]:
    """Return the newest whole checkpoint of ``key`` in ``folder``, or None, and what was wrong with those after it."""
    wrong = []
    for name in _names(folder):
        try:
            found = read(folder, name)
        except TrainerError as error:
            wrong.append(str(error))
            continue
        if found.head.get("key") == key and found.head.get("version") == VERSION:
            return found, wrong
        wrong.append("%s is of another plan, or of another version of tbd or of the framework" % name)
    return None, wrong


def read(folder: str, name: str) -> Checkpoint:
    """Read the checkpoint ``name``, a file's name.

    Raises:
        TrainerError: ``setup_failed``, it is not there, or it is damaged.
    """
    numpy = importlib.import_module("numpy")
    path, told = os.path.join(folder, name), _NAME.match(name)
    try:
        if told is None or _digest(path) != told.group(2):
            raise TrainerError("setup_failed", "the checkpoint %s is damaged: its digest is another one" % path)
        with numpy.load(path, allow_pickle=False) as found:
            arrays = {one: found[one] for one in found.files}
    except OSError as error:
        raise TrainerError("setup_failed", "the checkpoint %s cannot be read here: %s" % (path, error))
    return Checkpoint(name, json.loads(arrays.pop(_HEAD).tobytes().decode("utf-8")), arrays)


def is_ours(name: str) -> bool:
    """Whether a file is named as ``write`` names what it writes, finished or not."""
    return _NAME.fullmatch(name) is not None or name == _BEGUN


def lost_s(head: Data) -> float:
    """Return the seconds since the checkpoint was written, by the real-time clock."""
    return max(0.0, time.time() - float(head["wall"]))


def _names(folder: str) -> List[str]:
    """Return the names of the checkpoints in ``folder``, those of most steps first; none where there is no folder."""
    found = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted((name for name in found if _NAME.match(name)), reverse=True)


def _digest(path: str) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            found.update(chunk)
    return found.hexdigest()


def _sync(folder: str) -> None:
    """Let the new name reach the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def why_none(job: Job, adapter: Adapter) -> Optional[str]:
    """Return why the run writes no checkpoints and takes none, None where it does."""
    if job.checkpoints is None:
        return "this host gives the run no folder for checkpoints"
    if "checkpoint" not in adapter.abilities:
        return "%s gives and takes no checkpoints" % job.plan.framework
    if job.plan.strategy not in adapter.checkpointed:
        told = "strategy %s of %s gives and takes no checkpoints" % (job.plan.strategy, job.plan.framework)
        why = getattr(adapter, "not_checkpointed", {}).get(job.plan.strategy)
        return "%s: %s" % (told, why) if why else told
    if len(job.nodes) > 1 and not job.checkpoints.shared:
        return "several nodes resume only from a folder that they share: TBD_CHECKPOINTS names it"
    return None
