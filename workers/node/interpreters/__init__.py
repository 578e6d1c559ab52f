"""Named, pinned environments of frameworks, and the building of them.

Owns what a name means on this host, and the lock under which an environment is built once. An environment is a folder
named by its definition's hash, so another definition never meets an old environment; it counts as built when its
``interpreter.json`` is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from workers.node import pythons
from workers.node.interpreters import build, cuda_needs, system_parts
from workers.node.interpreters.build import Progress
from workers.node.interpreters.definition import (
    DEFINITIONS,
    RECORD,
    Definition,
    InterpreterError,
    base_folder,
    definitions,
)
from workers.node.interpreters.derived import derived

__all__ = ["DEFINITIONS", "Definition", "InterpreterError", "base_folder", "definitions"]


class Interpreter(NamedTuple):
    """What a name means on this host.

    ``definition`` is the hash of the definition (None for ``system``), ``python`` the path of the interpreter,
    ``environment`` what its processes need in theirs, ``reason`` why it is not ready.
    """

    name: str
    definition: str | None
    python: str | None
    environment: dict[str, str]
    ready: bool
    reason: str | None


def resolve(name: str, definition: str | None = None) -> Interpreter:
    """Return what ``name`` means here, ready or not. ``system`` is the agent's own Python. Never raises.

    Args:
        definition: the hash of the one that is wanted, where several may be built (of several Pythons).
    """
    if name == "system":
        return Interpreter(name, None, sys.executable, {}, True, None)
    try:
        known = definitions()
    except (InterpreterError, OSError, KeyError) as error:
        return Interpreter(name, None, None, {}, False, str(error))
    if name not in known:
        names = ", ".join(["system", *known])
        return Interpreter(name, None, None, {}, False, f"there is no interpreter {name}; there are {names}")
    if definition in (None, known[name].hash):
        return _resolved(known[name])
    built = [one for one in known[name].choices() if one.hash == definition and one.is_built]
    return _resolved(built[0]) if built else _earlier(known[name], str(definition))


def _earlier(today: Definition, definition: str) -> Interpreter:
    """The environment of an earlier definition of that name: it stays on disk until it is removed."""
    earlier = today._replace(hash=definition)
    folder = earlier.folder
    if not re.fullmatch("[0-9a-f]{12}", definition) or not earlier.is_built:
        reason = (
            f"the environment {today.name}-{definition} is not on this host (any more), and {today.name} is"
            f" {today.hash} here: a run on several hosts wants the same version of tbd, and the environment with the"
            " same Python, on all of them"
        )
        return Interpreter(today.name, None, None, {}, False, reason)
    try:
        own = json.loads((folder / RECORD).read_text()).get("environment")
    except (OSError, ValueError) as error:
        return Interpreter(today.name, None, None, {}, False, f"{folder / RECORD} cannot be read: {error}")
    return _resolved(earlier if own is None else earlier._replace(raw_environment=own))


def _resolved(wanted: Definition) -> Interpreter:
    python = str(wanted.folder / "bin" / "python")
    ready = wanted.is_built
    reason = None
    lost = system_parts.lost(wanted.system, wanted.folder) if ready else []
    if lost:
        ready = False
        reason = f"the interpreter {wanted.name}: {system_parts.how_to_get(wanted.system, lost, python)}"
    elif not ready:
        reason = f"the interpreter {wanted.name} is not built on this host: run `tbd frameworks install {wanted.name}`"
    return Interpreter(wanted.name, wanted.hash, python if ready else None, wanted.environment, ready, reason)


def all_resolved() -> list[Interpreter]:
    """Return every interpreter that is defined here, ``system`` first. Never raises."""
    try:
        found = [_resolved(wanted) for wanted in definitions().values()]
    except (InterpreterError, OSError, KeyError):
        found = []
    return [resolve("system"), *found]


def record(name: str) -> dict[str, Any] | None:
    """Return what was recorded when ``name`` was built ({python, variant, packages, proof, …}), or None."""
    found = resolve(name)
    if not found.ready or found.definition is None:
        return None
    text = (base_folder() / (f"{name}-{found.definition}") / RECORD).read_text()
    return dict(json.loads(text))


def describe() -> list[dict[str, Any]]:
    """Return every interpreter with its framework and, where built, ``versions`` of its main packages. Never raises."""
    try:
        known = definitions()
    except (InterpreterError, OSError, KeyError):
        known = {}
    described = []
    for found in all_resolved():
        wanted = known.get(found.name)
        versions = _versions(record(found.name), wanted) if wanted is not None else None
        framework = wanted.framework if wanted is not None else None
        described.append({**found._asdict(), "framework": framework, "versions": versions})
    return [*described, *_described_derived()]


def _described_derived() -> list[dict[str, Any]]:
    try:
        known = derived()
    except (InterpreterError, OSError, KeyError):
        return []
    described = []
    for label, wanted in known.items():
        found = _resolved(wanted)
        told = json.loads((wanted.folder / RECORD).read_text()) if found.ready else None
        reason = found.reason and found.reason.replace(f"install {wanted.name}`", f"install {label}`")
        more = {"name": label, "reason": reason, "derived_from": wanted.name}
        described.append(
            {**found._asdict(), "framework": wanted.framework, "versions": _versions(told, wanted), **more}
        )
    return described


def _versions(built: dict[str, Any] | None, wanted: Definition) -> dict[str, str] | None:
    if built is None:
        return None
    pinned = dict(line.split("==", 1) for line in built["packages"] if "==" in line)
    known = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned.items()}
    return {"python": built["python"], **{name: known[name] for name in wanted.packages if name in known}}


def install(name: str, progress: Progress = lambda line: None) -> Interpreter:
    """Build the environment ``name`` unless it is there; return it.

    Several callers at once build it once. What an interrupted build has left is removed first.

    Raises:
        InterpreterError: there is no such definition, no such Python, no room, or pip or the proof fails.
    """
    known = definitions() | derived()
    if name == "system":
        return resolve(name)
    if name not in known:
        raise InterpreterError("there is no interpreter {}; there are {}".format(name, ", ".join(known)))
    wanted = for_this_host(known[name])
    try:
        base_folder().mkdir(parents=True, exist_ok=True)
        with _locked(wanted.folder, progress):
            if not _resolved(wanted).ready:
                build.build(wanted, progress)
    except OSError as error:
        raise InterpreterError(f"building the interpreter {name}: {error}") from error
    return _resolved(wanted)


def prove(found: Interpreter) -> None:
    """Prove an environment on a GPU, at its first use there, where it was built without one; else nothing is done.

    Raises:
        InterpreterError: it does not work here.
    """
    wanted = definitions().get(found.name)
    if wanted is None or wanted.hash != found.definition or wanted.variant == "cpu":
        return
    if build.NOT_YET in (wanted.folder / RECORD).read_text():
        with _locked(wanted.folder, lambda line: None):
            build.prove(wanted)


def unfit() -> dict[str, str]:
    """Return the environments of which this machine is to have a CUDA variant, and can carry none, with the reason.
    Never raises."""
    try:
        known = definitions()
    except (InterpreterError, OSError, KeyError):
        return {}
    found = {}
    for name, wanted in known.items():
        needs = build.needs_of(wanted)
        if needs is not None and (why := cuda_needs.trouble(needs, cuda_needs.driver_here())):
            found[name] = why
    return found


def for_this_host(wanted: Definition) -> Definition:
    """Return ``wanted`` if it is built, or no Python is here that will do; else it is for the first of them."""
    found = None if wanted.is_built else pythons.first_of(wanted.pythons)
    return next((one for one in wanted.choices() if found and one.python == found[0]), wanted)


def remove(name: str) -> int:
    """Remove all environments of ``name``, of old definitions too; return how many there were."""
    folders = [path for path in base_folder().glob(name + "-*") if path.is_dir() and len(path.name) == len(name) + 13]
    for folder in folders:
        with _locked(folder, lambda line: None):
            (folder / RECORD).unlink(missing_ok=True)
            shutil.rmtree(str(folder))
    return len(folders)


@contextmanager
def _locked(folder: Path, progress: Progress) -> Iterator[None]:
    path = folder.parent / (f".{folder.name}.lock")
    descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"{folder.name}: another process is building it; waiting")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
