"""Named, pinned environments of frameworks, and the building of them.

Owns the definitions (``deploy/interpreters/NAME``: ``interpreter.toml``, requirements, ``proof.py``) and the built
environments (``TBD_INTERPRETERS_DIR``, default ``~/.cache/tbd/interpreters``). An environment is a folder named by its
definition's hash, so another definition never meets an old environment. It is built in place, since one cannot be
moved, and counts as built when its ``interpreter.json`` is there, which is written last.

    python -m workers.node.interpreters install NAME...      list | remove NAME...
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence

from workers.node import pythons

DEFINITIONS = Path(__file__).resolve().parents[2] / "deploy" / "interpreters"

_RECORD = "interpreter.json"
_MARKER = ".building"
_PROOF_LIMIT_S = 600.0
_TAIL_LINES = 15

Progress = Callable[[str], None]


class InterpreterError(Exception):
    """An interpreter cannot be built or does not exist; the message says what to do."""


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


class Definition(NamedTuple):
    """A definition as it applies here: ``variant`` is ``cuda`` where there is an NVIDIA driver, else ``cpu``."""

    name: str
    python: str
    variant: str
    requirements: Path
    proof: Path
    environment: dict[str, str]
    download_bytes: int
    installed_bytes: int
    hash: str

    @property
    def folder(self) -> Path:
        return base_folder() / (f"{self.name}-{self.hash}")


def base_folder() -> Path:
    return Path(os.environ.get("TBD_INTERPRETERS_DIR") or os.path.expanduser("~/.cache/tbd/interpreters"))


def has_nvidia_driver() -> bool:
    return os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl")


def definitions(root: Path = DEFINITIONS) -> dict[str, Definition]:
    """Return the definitions by name.

    Raises:
        InterpreterError: a definition cannot be read.
    """
    if not root.is_dir():
        return {}
    return {path.parent.name: _definition(path) for path in sorted(root.glob("*/interpreter.toml"))}


def _definition(path: Path) -> Definition:
    facts = _toml(path)
    variants = facts["variants"]
    variant = "cuda" if has_nvidia_driver() and "cuda" in variants else "cpu"
    chosen = variants[variant]
    requirements = path.parent / chosen["requirements"]
    digest = hashlib.sha256()
    for part in (variant, facts["python"], platform.machine()):
        digest.update(part.encode() + b"\0")
    for file in (path, requirements, path.parent / "proof.py"):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return Definition(
        facts["name"],
        facts["python"],
        variant,
        requirements,
        path.parent / "proof.py",
        dict(facts.get("environment", {})),
        chosen["download_bytes"],
        chosen["installed_bytes"],
        digest.hexdigest()[:12],
    )


def _toml(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:
        raise InterpreterError(f"reading {path} needs Python 3.11 or newer") from None
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InterpreterError(f"{path}: {error}") from error


def resolve(name: str) -> Interpreter:
    """Return what ``name`` means here, ready or not. ``system`` is the agent's own Python. Never raises."""
    if name == "system":
        return Interpreter(name, None, sys.executable, {}, True, None)
    try:
        known = definitions()
    except (InterpreterError, OSError, KeyError) as error:
        return Interpreter(name, None, None, {}, False, str(error))
    if name not in known:
        names = ", ".join(["system", *known])
        return Interpreter(name, None, None, {}, False, f"there is no interpreter {name}; there are {names}")
    return _resolved(known[name])


def _resolved(wanted: Definition) -> Interpreter:
    python = str(wanted.folder / "bin" / "python")
    ready = (wanted.folder / _RECORD).is_file() and os.access(python, os.X_OK)
    reason = None
    if not ready:
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
    text = (base_folder() / (f"{name}-{found.definition}") / _RECORD).read_text()
    return dict(json.loads(text))


def install(name: str, progress: Progress = lambda line: None) -> Interpreter:
    """Build the environment ``name`` unless it is there; return it.

    Several callers at once build it once. What an interrupted build has left is removed first.

    Raises:
        InterpreterError: there is no such definition, no such Python, no room, or pip or the proof fails.
    """
    known = definitions()
    if name == "system":
        return resolve(name)
    if name not in known:
        raise InterpreterError("there is no interpreter {}; there are {}".format(name, ", ".join(known)))
    wanted = known[name]
    try:
        base_folder().mkdir(parents=True, exist_ok=True)
        with _locked(wanted.folder, progress):
            if not _resolved(wanted).ready:
                _build(wanted, progress)
    except OSError as error:
        raise InterpreterError(f"building the interpreter {name}: {error}") from error
    return _resolved(wanted)


def remove(name: str) -> int:
    """Remove all environments of ``name``, of old definitions too; return how many there were."""
    folders = [path for path in base_folder().glob(name + "-*") if path.is_dir() and len(path.name) == len(name) + 13]
    for folder in folders:
        with _locked(folder, lambda line: None):
            (folder / _RECORD).unlink(missing_ok=True)
            shutil.rmtree(str(folder))
    return len(folders)


def _build(wanted: Definition, progress: Progress) -> None:
    folder = wanted.folder
    if folder.exists():
        progress(f"{wanted.name}: removing what an interrupted build has left")
        shutil.rmtree(str(folder))
    python = pythons.find(wanted.python)
    if python is None:
        raise InterpreterError(f"the interpreter {wanted.name} {pythons.how_to_get(wanted.python)}")
    _check_room(wanted)
    progress(
        f"{wanted.name} ({wanted.variant}): downloading about {_size(wanted.download_bytes)},"
        f" {_size(wanted.installed_bytes)} on disk, into {folder}"
    )
    folder.mkdir()
    (folder / _MARKER).write_text(f"{os.getpid()}\n")
    _run(wanted, "making the environment", [python, "-m", "venv", str(folder)])
    own = str(folder / "bin" / "python")
    pip = [own, "-m", "pip", "--require-virtualenv", "--no-input", "--disable-pip-version-check"]
    progress(f"{wanted.name}: installing {wanted.requirements.name}")
    _run(wanted, "pip install", [*pip, "install", "--no-warn-script-location", "-r", str(wanted.requirements)])
    packages = _run(wanted, "pip freeze", [*pip, "freeze"]).splitlines()
    progress(f"{wanted.name}: proving it")
    proof = _run(wanted, "its proof", [own, "-I", str(wanted.proof)], limit_s=_PROOF_LIMIT_S).strip().splitlines()[-1]
    found = {
        "name": wanted.name,
        "definition": wanted.hash,
        "variant": wanted.variant,
        "python": _run(
            wanted, "asking its version", [own, "-c", "import platform; print(platform.python_version())"]
        ).strip(),
        "packages": packages,
        "proof": proof,
    }
    _write_last(folder, found)
    progress(f"{wanted.name}: ready: {proof}")


def _write_last(folder: Path, found: dict[str, Any]) -> None:
    (folder / _MARKER).unlink()
    temporary = folder / (_RECORD + ".new")
    temporary.write_text(json.dumps(found, indent=1) + "\n")
    os.replace(str(temporary), str(folder / _RECORD))


def _check_room(wanted: Definition) -> None:
    free = shutil.disk_usage(str(base_folder())).free
    needed = wanted.download_bytes + wanted.installed_bytes
    if free < needed:
        raise InterpreterError(
            f"the interpreter {wanted.name} needs about {_size(needed)} of disk while it is built;"
            f" {base_folder()} has {_size(free)} free, and TBD_INTERPRETERS_DIR can name another folder"
        )


def _run(wanted: Definition, what: str, command: Sequence[str], limit_s: float | None = None) -> str:
    """Run one step of the build away from any folder that could shadow a module; return what it printed.

    Raises:
        InterpreterError: it fails, with the tail of what it said.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment.update(wanted.environment, PYTHONNOUSERSITE="1")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = subprocess.run(
                list(command),
                cwd=scratch,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise InterpreterError(f"interpreter {wanted.name}: {what} took longer than {limit_s} s") from None
    if done.returncode != 0:
        said = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").strip().splitlines()
        tail = "\n".join("    " + line for line in said[-_TAIL_LINES:])
        raise InterpreterError(f"interpreter {wanted.name}: {what} failed with status {done.returncode}:\n{tail}")
    return done.stdout.decode("utf-8", "replace")


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


def _size(count: int) -> str:
    return "%.1f GiB" % (count / 2**30) if count >= 2**30 else "%.0f MiB" % (count / 2**20)


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status: 0 done, 1 failed, 2 usage."""
    command, *names = arguments or ["list"]
    if command not in ("install", "list", "remove") or (command != "list" and not names):
        print(__doc__, file=sys.stderr)
        return 2
    if command == "list":
        for found in all_resolved():
            print(f"{found.name:<12} {found.python if found.ready else found.reason}")
        return 0
    try:
        for name in names:
            if command == "install":
                install(name, lambda line: print(line, file=sys.stderr, flush=True))
            else:
                print(f"{name}: {remove(name)} removed", file=sys.stderr)
    except InterpreterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
