"""Finding a CPython of a wanted version on this host: on PATH, in pyenv, conda and uv.

``python -m workers.node.pythons VERSION`` prints its path, or nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Sequence

_ASK = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def find(version: str) -> str | None:
    """Return the path of a Python ``version`` (``3.11``) that can make environments, or None."""
    for candidate in _candidates(version):
        if _is(candidate, version):
            return candidate
    return None


def first_of(versions: Sequence[str]) -> tuple[str, str] | None:
    """Return (version, path) of the first of ``versions`` that this host has, or None."""
    for version in versions:
        found = find(version)
        if found is not None:
            return version, found
    return None


def how_to_get(versions: Sequence[str], why: str | None = None) -> str:
    """Say what a person can do when there is none of ``versions``; ``why`` no other will do, where that is known."""
    first = versions[0]
    needed = first if len(versions) == 1 else f"{', '.join(versions[:-1])} or {versions[-1]}"
    reason = f" ({why})" if why else ""
    none = "which is not" if len(versions) == 1 else "none of which is"
    return (
        f"needs Python {needed}{reason} with venv, {none} on PATH nor in pyenv, conda or uv. One of these brings it: "
        f"`apt-get install python{first}-venv` (where the distribution has it), `pyenv install {first}`, "
        f"`uv python install {first}`, `conda create -n python-{first} python={first}`"
    )


def _candidates(version: str) -> Iterator[str]:
    # This environment's own base first: an environment made from another environment would keep a link to it.
    yield getattr(sys, "_base_executable", None) or sys.executable
    on_path = shutil.which("python" + version)
    if on_path:
        yield on_path
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv")
    folders: list[Iterator[Path]] = [
        pyenv.glob(f"versions/{version}.*"),
        (home / ".local/share/uv/python").glob(f"cpython-{version}.*"),
    ]
    conda = os.environ.get("CONDA_PREFIX")
    roots = [Path(conda)] if conda else []
    roots += [home / name for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge")]
    for root in roots:
        folders += [iter([root]), root.glob("envs/*")]
    for found in folders:
        for folder in sorted(found):
            yield str(folder / "bin" / ("python" + version))


def _is(python: str, version: str) -> bool:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, timeout=30, env=environment, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.strip() == version


if __name__ == "__main__":
    print(find(sys.argv[1]) or "", end="")
