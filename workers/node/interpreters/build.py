"""Building one environment in place: venv, pip, packages from source, proof, record.

A build is marked while it goes on, and counts only once its record is there, which is written last. What pip downloads
is said as it does: on a slow line that takes minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from workers.node import pythons
from workers.node.interpreters import cpu_builds, cuda_needs, definition, room, sources, system_parts
from workers.node.interpreters.cpu_builds import CpuBuild
from workers.node.interpreters.definition import RECORD, Definition, InterpreterError, base_folder

Progress = Callable[[str], None]

_MARKER = ".building"
# What a record says of a CUDA variant that was built where there is no GPU.
NOT_YET = "; not yet proved on a GPU: that is done at its first use"
_PROOF_LIMIT_S = 600.0
_TAIL_LINES = 15
_LINE_CHARACTERS = 150

# Lines of pip that tell how far it is.
_TELLING = ("Downloading", "Installing collected", "Processing", "Building")


class StoppedError(InterpreterError):
    """A step of a build was ended at what it printed."""


def build(wanted: Definition, progress: Progress) -> None:
    """Build the environment ``wanted``, anew if there is a half-built one. The caller holds its lock.

    Raises:
        InterpreterError: there is no such Python, a part of the system is missing, no room, or pip or the proof fails.
        OSError: the disk cannot be written.
    """
    folder = wanted.folder
    if folder.exists():
        progress(f"{wanted.name}: removing what an interrupted build has left")
        shutil.rmtree(str(folder))
    python = pythons.find(wanted.python)
    if python is None:
        needed = pythons.how_to_get(wanted.pythons, wanted.one_python)
        raise InterpreterError(f"the interpreter {wanted.name} {needed}")
    _check_machine(wanted, python)
    room.check(wanted.name, wanted.download_bytes, wanted.installed_bytes, progress)
    sizes = f"downloading about {room.size(wanted.download_bytes)}, {room.size(wanted.installed_bytes)} on disk"
    progress(f"{wanted.name} ({wanted.variant}, Python {wanted.python}): {sizes}, into {folder}")
    own = _make(wanted, python)
    pip = [own, "-I", "-m", "pip", "--require-virtualenv", "--no-input", "--disable-pip-version-check"]
    _install(wanted, own, pip, progress)
    progress(f"{wanted.name}: proving it")
    found = _described(wanted, own, pip)
    _write_last(folder, found)
    progress(f"{wanted.name}: ready: {found['proof']}")


def _make(wanted: Definition, python: str) -> str:
    """Make the environment of ``python``, empty but for what its system has; return its own Python."""
    folder = wanted.folder
    folder.mkdir()
    (folder / _MARKER).write_text(f"{os.getpid()}\n")
    _run(wanted, "making the environment", [python, "-m", "venv", str(folder)])
    system_parts.make_links(wanted.system, folder, python)
    return str(folder / "bin" / "python")


def _install(wanted: Definition, own: str, pip: Sequence[str], progress: Progress) -> None:
    progress(f"{wanted.name}: installing {wanted.requirements.name}")
    command = [*pip, "install", "--no-warn-script-location"]
    pins = ["-r", str(wanted.requirements)]
    builds = cpu_builds.of(wanted.name) if wanted.variant == "cpu" else None
    if builds is None:
        _run(wanted, "pip install", [*command, *pins], progress=progress)
    else:
        _install_for_cpus(wanted, builds, pip, progress)
    _install_sources(wanted, own, pip, progress)


def _install_for_cpus(wanted: Definition, builds: CpuBuild, pip: Sequence[str], progress: Progress) -> None:
    """Install the build for CPUs where it can be had. Where it cannot, end before that with CUDA is downloaded, unless
    a person has agreed to it."""
    version = cpu_builds.pinned(builds, wanted.requirements)
    # It comes first: where it is not to be had, the others are not downloaded either.
    install_all = [*pip, "install", "--no-warn-script-location", f"{builds.package}=={version}"]
    install_all += ["-r", str(wanted.requirements)]
    progress(f"{wanted.name}: looking for {builds.package} {version} for CPUs")
    places, reasons = cpu_builds.find(builds, version, pip, wanted.python)

    def shown(line: str) -> str | None:
        return cpu_builds.cuda_in_line(builds, line)

    for place in places:
        progress(f"{wanted.name}: taking {place.requirement} of {place.where}")
        command = [*pip, "install", "--no-deps", *place.options, place.requirement]
        try:
            _run(wanted, "pip install", command, progress=progress, extra=place.environment, stop_at=shown)
        except InterpreterError as error:
            reasons.append(f"{place.where}: {str(error).splitlines()[-1].strip()}")
        else:
            _run(wanted, "pip install", install_all, progress=progress, stop_at=shown)
            return
    if cpu_builds.is_consented():
        room.check(wanted.name, builds.cuda_download_bytes, builds.cuda_installed_bytes, progress)
        progress(f"{wanted.name}: {'; '.join(reasons)}")
        progress(f"{wanted.name}: taking what pip's indexes have, which {builds.with_cuda()} if it is that with CUDA")
        pins = ["-c", str(wanted.requirements.with_name("requirements-cuda.txt"))]
        _run(wanted, "pip install", [*install_all, *pins], progress=progress)
        return
    try:
        _run(wanted, "pip install", install_all, progress=progress, stop_at=shown)
    except StoppedError as stopped:
        told = cpu_builds.refusal(builds, version, wanted.python, str(stopped), reasons)
        raise InterpreterError(f"the interpreter {wanted.name} is not downloaded: {told}") from None


def _described(wanted: Definition, own: str, pip: Sequence[str]) -> dict[str, Any]:
    """What the environment is, and what its proof says: it is run here."""
    packages = _run(wanted, "pip freeze", [*pip, "freeze"]).splitlines()
    _check_build(wanted, packages)
    proof = _run(wanted, "its proof", [own, "-I", str(wanted.proof), *wanted.proof_arguments], limit_s=_PROOF_LIMIT_S)
    version = [own, "-c", "import platform; print(platform.python_version())"]
    return {
        "name": wanted.name,
        "definition": wanted.hash,
        "variant": wanted.variant,
        "environment": wanted.raw_environment,
        "python": _run(wanted, "asking its version", version).strip(),
        # An old pip repeats its options here.
        "packages": [line for line in packages if line[:1] != "-"],
        "proof": proof.strip().splitlines()[-1] + _proved_on_a_gpu(wanted, own),
    }


def _proved_on_a_gpu(wanted: Definition, own: str) -> str:
    """Have each framework of a CUDA variant train two steps on a GPU; return what was proved, to be added."""
    needs = needs_of(wanted)
    if needs is None:
        return ""
    if is_unproven(wanted):
        return NOT_YET
    command = [own, "-I", str(cuda_needs.PROOF), *needs.frameworks]
    said = _run(wanted, "its proof on a GPU", command, limit_s=_PROOF_LIMIT_S)
    return "; " + said.strip().splitlines()[-1]


def needs_of(wanted: Definition) -> cuda_needs.Needs | None:
    """Return what a CUDA variant needs of the machine; None of another."""
    return None if wanted.variant == "cpu" else cuda_needs.of(wanted.name, wanted.variant)


def is_unproven(wanted: Definition) -> bool:
    """Whether a CUDA variant is built where there is no driver, for other hosts: an image."""
    return wanted.variant != "cpu" and not definition.has_nvidia_driver()


def prove(wanted: Definition) -> None:
    """Prove an environment on a GPU that was built where there was none, and note it. The caller holds its lock.

    Raises:
        InterpreterError: a framework takes no step there, or this machine cannot carry it.
    """
    found, own = json.loads((wanted.folder / RECORD).read_text()), str(wanted.folder / "bin" / "python")
    if not found["proof"].endswith(NOT_YET):
        return
    _check_machine(wanted, own)
    said = _proved_on_a_gpu(wanted, own)
    _replace_record(wanted.folder, {**found, "proof": found["proof"][: -len(NOT_YET)] + said})


def _check_build(wanted: Definition, packages: Sequence[str]) -> None:
    """Raise where an environment for CPUs has become one with CUDA, in spite of the look at what pip says."""
    builds = cpu_builds.of(wanted.name) if wanted.variant == "cpu" else None
    found = cpu_builds.cuda_in_packages(builds, packages) if builds is not None else None
    if builds is not None and found is not None and not cpu_builds.is_consented():
        version = cpu_builds.pinned(builds, wanted.requirements)
        raise InterpreterError(
            f"the interpreter {wanted.name} is not ready: {cpu_builds.refusal(builds, version, wanted.python, found)}"
        )


def wheels_folder() -> Path:
    """Return where wheels are kept that were built from source."""
    return base_folder() / "wheels"


def _install_sources(wanted: Definition, python: str, pip: Sequence[str], progress: Progress) -> None:
    def run(what: str, command: Sequence[str], extra: Mapping[str, str]) -> str:
        return _run(wanted, what, command, progress=progress, extra=extra)

    for source in wanted.sources:
        wheel = sources.kept(source, wheels_folder())
        if wheel is None:
            progress(
                f"{wanted.name}: building {source.requirement} from source, about {source.minutes:g} minutes, once"
            )
            wheel = sources.build(source, python, wheels_folder(), run)
        progress(f"{wanted.name}: installing {wheel.name} from {wheel.parent}")
        # By its name, and not as a file: its version is then recorded like those of the other packages.
        command = [
            *pip,
            "install",
            "--no-deps",
            "--no-index",
            "--only-binary",
            ":all:",
            "--find-links",
            str(wheel.parent),
        ]
        _run(wanted, f"installing {wheel.name}", [*command, source.requirement])


def _check_machine(wanted: Definition, python: str) -> None:
    needs = None if is_unproven(wanted) else needs_of(wanted)
    trouble = cuda_needs.trouble(needs, cuda_needs.driver_here()) if needs is not None else None
    if trouble is not None:
        raise InterpreterError(f"the interpreter {wanted.name} (CUDA) is not downloaded: {trouble}")
    missing = system_parts.missing(wanted.system, python)
    advice = system_parts.how_to_get(wanted.system, missing, python) if missing else None
    advice = advice or sources.missing(wanted.sources, wheels_folder(), python)
    if advice is not None:
        raise InterpreterError(f"the interpreter {wanted.name} cannot be built: {advice}")


def _write_last(folder: Path, found: dict[str, Any]) -> None:
    (folder / _MARKER).unlink()
    _replace_record(folder, found)


def _replace_record(folder: Path, found: dict[str, Any]) -> None:
    temporary = folder / (RECORD + ".new")
    temporary.write_text(json.dumps(found, indent=1) + "\n")
    os.replace(str(temporary), str(folder / RECORD))


def _run(
    wanted: Definition,
    what: str,
    command: Sequence[str],
    limit_s: float | None = None,
    progress: Progress = lambda line: None,
    extra: Mapping[str, str] | None = None,
    stop_at: Callable[[str], str | None] = lambda line: None,
) -> str:
    """Run one step of the build away from any folder that could shadow a module; return what it printed.

    Args:
        stop_at: says of a line of what it prints why it must end there, or None.

    Raises:
        InterpreterError: it fails, with the tail of what it said.
        StoppedError: it was ended, with what ``stop_at`` said.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment.update(wanted.environment, PYTHONNOUSERSITE="1", **(extra or {}))
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as errors:
        environment["TMPDIR"] = (extra or {}).get("TMPDIR", scratch)  # what is ended leaves nothing behind
        process = subprocess.Popen(
            list(command),
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            universal_newlines=True,
            errors="replace",
        )
        timer = threading.Timer(limit_s or threading.TIMEOUT_MAX, process.kill)
        timer.daemon = True
        timer.start()
        with process:
            lines, stopped = _followed(process, wanted.name, progress, stop_at)
        timer.cancel()
        errors.seek(0)
        said = [*lines, *errors.read().decode("utf-8", "replace").splitlines()]
    if stopped is not None:
        raise StoppedError(stopped)
    if process.returncode != 0:
        tail = "\n".join("    " + line.rstrip() for line in said[-_TAIL_LINES:] if line.strip())
        raise InterpreterError(f"interpreter {wanted.name}: {what} failed with status {process.returncode}:\n{tail}")
    return "".join(lines)


def _followed(
    process: subprocess.Popen[str], name: str, progress: Progress, stop_at: Callable[[str], str | None]
) -> tuple[list[str], str | None]:
    """Return the lines that ``process`` prints, and why it was ended at the last of them, if it was."""
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        stopped = stop_at(line)
        if stopped is not None:
            process.kill()
            return lines, stopped
        if line.strip().startswith(_TELLING):
            progress(f"{name}: {line.strip()[:_LINE_CHARACTERS]}")
    return lines, None
