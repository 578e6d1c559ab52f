"""Making a job complete on this node: its interpreter, its dataset, its control port, its place for device locks.

Owns the folder of datasets (``TBD_DATASETS_DIR``, default ``~/.cache/tbd/datasets``). A dataset is prepared once, under
a lock, beside its place, and renamed into it when it is whole: a folder that exists is complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Iterator, Mapping, Sequence

from workers.node import children, datasets, interpreters, port_choice, processes, speed_settings, suites
from workers.node.code_version import ROOT
from workers.trainer import protocol
from workers.trainer.base import manifest
from workers.trainer.base.failure import lacks_space

# A judgement: long enough for any dataset that is cut from files at hand, short enough to be noticed.
PREPARE_LIMIT_S = 3600.0


class SetupError(Exception):
    """The attempt cannot begin on this node; the message says what to do about it."""


class NoSpaceError(SetupError):
    """It cannot begin because the disk of ``folder``, which holds the datasets, is full."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class SetupStoppedError(Exception):
    """The attempt was stopped while it was being set up."""


def complete(
    job: Mapping[str, Any],
    on_this_node: bool,
    near_cores: Mapping[str, Sequence[int]] = MappingProxyType({}),
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return ``job`` with everything filled in that only this node knows. The dataset may still have to be prepared.

    Args:
        on_this_node: whether rank 0, which listens on the control channel, belongs to this node.
        near_cores: GPU -> the logical cores that are its own where the node is shared.
        folder: of the attempt, for the code of an earlier commit.

    Raises:
        SetupError: there is no such interpreter here, or no free port, or no dataset that is registered by that name,
            or no such commit of a model's code.
    """
    completed = json.loads(json.dumps(job))
    on_gpus = any(device["kind"] == "cuda" for process in job["processes"] for device in process["devices"])
    completed["interpreter"].update(_interpreter(job["interpreter"], on_gpus))
    _check_variables(job["interpreter"].get("variables") or {})
    if folder is not None and job["interpreter"].get("suite_commit"):
        completed["suite_path"] = _suite_path(job, folder)
    completed.setdefault("lock_dir", str(lock_folder()))
    dataset = completed["dataset"]
    if dataset is not None and dataset.get("root") is None:
        dataset["root"] = str(dataset_root(dataset))
    if dataset is not None and dataset.get("registered"):
        dataset["path"] = _registered_path(dataset)
    if completed["plan"].get("exclusive") == "device":
        _own_cores(completed["processes"], near_cores)
    _ports(completed, on_this_node)
    return dict(completed)


def _check_variables(variables: Mapping[str, str | None]) -> None:
    """What is recorded may be made again; nothing else comes over the network into an environment."""
    for name in variables:
        if not name.startswith(speed_settings.VARIABLES) or name.startswith("LD_"):
            raise SetupError(f"{name} is no variable that a job may fix")


def _suite_path(job: Mapping[str, Any], folder: Path) -> list[str] | None:
    try:
        return suites.checked_out(job, folder / "suite")
    except suites.SuiteError as error:
        raise SetupError(str(error)) from error


def _registered_path(dataset: Mapping[str, Any]) -> str:
    try:
        return datasets.path_of(dataset)
    except datasets.DatasetError as error:
        raise SetupError(str(error)) from error


def _own_cores(given: Sequence[dict[str, Any]], near_cores: Mapping[str, Sequence[int]]) -> None:
    """Give each process those near its GPUs, and what a model runs beside a rank those of the rank's worker."""
    workers = {process["name"]: process for process in given}
    for process in given:
        devices = workers.get(process.get("beside"), process)["devices"]
        near = {core for device in devices for core in near_cores.get(device["id"], ())}
        if near:
            process["cores"] = sorted(near)


def _ports(completed: dict[str, Any], on_this_node: bool) -> None:
    """Fill in the ports of a job that is for this node alone; one for several nodes comes with them."""
    nodes = completed.setdefault("nodes", [protocol.local_node(completed["processes"][0]["node"])])
    control = completed["control"]
    if control.get("port") is not None and (len(nodes) > 1 or nodes[0]["ports"].get("framework")):
        return
    if not on_this_node or len(nodes) > 1:
        raise SetupError("the job names no control port, and its processes are on several nodes")
    try:
        if control.get("port") is None:
            control["port"] = port_choice.free_port(host=control["host"])
        framework = port_choice.free_port({control["port"]}, host=control["host"])
    except OSError as error:
        raise SetupError("no control port on {}: {}".format(control["host"], error)) from error
    nodes[0]["ports"] = {"control": control["port"], "framework": framework}


def _interpreter(wanted: Mapping[str, Any], on_gpus: bool = False) -> dict[str, Any]:
    if wanted.get("python"):
        if not os.access(wanted["python"], os.X_OK):
            raise SetupError("there is no interpreter at {}".format(wanted["python"]))
        return {"environment": wanted.get("environment") or {}}
    found = interpreters.resolve(wanted["name"], wanted.get("definition"))
    if not found.ready:
        raise SetupError(found.reason or "the interpreter {} is not ready".format(wanted["name"]))
    if on_gpus:
        try:
            interpreters.prove(found)
        except interpreters.InterpreterError as error:
            raise SetupError(f"the interpreter {found.name} was built without a GPU, and fails here: {error}") from None
    return {
        "definition": found.definition,
        "python": found.python,
        "environment": {**found.environment, **(wanted.get("environment") or {})},
    }


def lock_folder() -> Path:
    """Return the folder of the per-device locks: one per user and host, whatever agents there are.

    Raises:
        SetupError: it belongs to somebody else.
    """
    folder = Path(os.environ.get("TBD_LOCK_DIR") or os.path.join(tempfile.gettempdir(), f"tbd-locks-{os.getuid()}"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise SetupError(f"{folder}, the folder of the device locks, belongs to another user")
    return folder


def module_folder(folder: Path) -> Path:
    """Make in ``folder`` the one entry of the children's PYTHONPATH: ``workers`` and ``suites`` and nothing else.

    Their parent itself would not do: beside an installed tbd lie the control plane's packages, which must not shadow
    those of a framework's interpreter.
    """
    path = folder / "path"
    path.mkdir(parents=True, exist_ok=True)
    for name in ("workers", "suites"):
        link = path / name
        target = ROOT / name
        if not link.is_symlink() or Path(os.readlink(str(link))) != target:
            # In one go: attempts that share the node may begin at the same moment, and none must find it missing.
            new = path / f".{name}.{uuid.uuid4().hex}"
            new.symlink_to(target)
            new.replace(link)
    return path


def dataset_root(dataset: Mapping[str, Any]) -> Path:
    """Return the folder where the files of ``dataset`` lie, or will lie: other facts, another folder."""
    return datasets.prepared_folder() / manifest.folder_name(dataset)


def dataset_files(
    job: Mapping[str, Any], path: Path, spawner: children.Spawner, stopped: Callable[[], bool] = lambda: False
) -> None:
    """Prepare the files of the job's dataset where they are missing.

    Args:
        path: the children's PYTHONPATH.
        stopped: asked again and again meanwhile.

    Raises:
        SetupError: it failed, with the tail of what the preparation said.
        NoSpaceError: for want of room.
        SetupStoppedError: ``stopped`` said so.
    """
    dataset = job["dataset"]
    if dataset is None or Path(dataset["root"]).is_dir():
        return
    root = Path(dataset["root"])
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with _locked(root.parent / ("." + root.name + ".lock"), stopped):
            if root.is_dir():
                return  # another attempt has prepared it meanwhile
            unfinished = root.parent / ("." + root.name + ".preparing")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            _run_preparation(job, unfinished, path, spawner, stopped)
            os.rename(unfinished, root)
    except OSError as error:
        raise _failed(
            "cannot prepare the dataset {}: {}".format(dataset["name"], error), root, lacks_space(error)
        ) from error


def dataset_identity(job: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return {name, files, bytes, sha256} of the job's dataset: as it was registered, or as its manifest has it. None
    where there is neither."""
    dataset = job["dataset"]
    if dataset is None:
        return None
    if dataset.get("registered"):
        return {key: dataset[key] for key in ("name", "files", "bytes", "sha256")}
    try:
        return {"name": dataset["name"], **manifest.identity(manifest.read(dataset["root"]))}
    except (OSError, ValueError, KeyError):
        return None  # whoever reads it says what is wrong


def _failed(message: str, root: Path, for_space: bool) -> SetupError:
    return NoSpaceError(message, root.parent) if for_space else SetupError(message)


def _run_preparation(
    job: Mapping[str, Any], root: Path, path: Path, spawner: children.Spawner, stopped: Callable[[], bool]
) -> None:
    dataset = job["dataset"]
    interpreter = interpreters.resolve(dataset["interpreter"])
    if not interpreter.ready or not interpreter.python:
        raise SetupError("dataset {}: {}".format(dataset["name"], interpreter.reason))
    # The token makes it a process of the attempt: it is found and ended with the others.
    added = {protocol.TOKEN_VARIABLE: job["token"], "PYTHONPATH": str(path), **interpreter.environment}
    command = [
        interpreter.python,
        "-m",
        "workers.trainer.preparation",
        dataset["module"] + ".prepare",
        "--root",
        str(root),
    ]
    if dataset.get("registered"):
        command += ["--source", dataset["path"], "--layout", dataset["layout"], "--sha256", dataset["sha256"]]
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as output:
        popen = spawner.popen(
            command, cwd=scratch, env=children.environment(os.environ, added), stdout=output, stderr=subprocess.STDOUT
        )
        status = _wait(popen, job["token"], stopped)
        if status != 0:
            output.seek(max(0, output.seek(0, os.SEEK_END) - children.STDERR_TAIL_BYTES))
            tail = output.read().decode("utf-8", "replace").strip()
            message = f"preparing the dataset {dataset['name']} ended with status {status}: {tail}"
            raise _failed(message, root, status == protocol.EXIT_STATUS["no_space"])


def _wait(popen: subprocess.Popen[bytes], token: str, stopped: Callable[[], bool]) -> int:
    deadline = time.monotonic() + PREPARE_LIMIT_S
    while True:
        try:
            return popen.wait(0.1)
        except subprocess.TimeoutExpired:
            late = time.monotonic() > deadline
            if not late and not stopped():
                continue
            processes.end_all(token, reap=popen.poll)
            if late:
                raise SetupError(f"preparing the dataset took longer than {PREPARE_LIMIT_S} s") from None
            raise SetupStoppedError() from None


@contextmanager
def _locked(path: Path, stopped: Callable[[], bool]) -> Iterator[None]:
    descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopped():
                    raise SetupStoppedError() from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
