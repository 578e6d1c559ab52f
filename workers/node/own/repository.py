"""Which code a script is: the commit of its folder, what differs from it, and other commits beside it.

Git's own commands are asked, each within a limit of time. A folder that is no repository has no commit, and says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

DIRTY = "."  # what stands for the folder as it is, among commits

_PATIENCE_S = 60.0
_COMPILED = ("--exclude", "__pycache__")  # who imports a file changes nothing of it
# A judgement: of a larger file that git does not know its size and time of change count, not what is in it.
_LARGEST_BYTES = 16 * 1024 * 1024


class RepositoryError(Exception):
    """A commit cannot be had; the message says why and what to do."""


def code_of(folder: Path, unknown: Mapping[bytes, bytes] | None = None) -> dict[str, Any]:
    """Return {commit, dirty_sha256}: the digest is of all that differs from the commit; null where nothing does.
    Without a commit also its ``reason``.

    Args:
        unknown: what ``unknown_to_git`` has found before; None: as it is now.
    """
    try:
        commit = _git(folder, "rev-parse", "HEAD").decode().strip()
        changes = _git(folder, "diff", "--binary", "HEAD")
    except (OSError, subprocess.SubprocessError) as error:
        return {"commit": None, "dirty_sha256": None, "reason": _why(error)}
    unknown = unknown_to_git(folder) if unknown is None else unknown
    digest = hashlib.sha256(changes)
    for name, content in sorted(unknown.items()):
        digest.update(b"\0" + name + b"\0" + content)
    return {"commit": commit, "dirty_sha256": digest.hexdigest() if changes or unknown else None}


def unknown_to_git(folder: Path) -> dict[bytes, bytes]:
    """Return name -> digest of the files in the repository of ``folder`` that git does not know, but for those that it
    is told to ignore and what Python has compiled. Ask before a script runs: what it writes is not its code."""
    try:
        top = Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())
        others = _git(top, "ls-files", "--others", "--exclude-standard", *_COMPILED, "-z").split(b"\0")
    except (OSError, subprocess.SubprocessError):  # ``code_of`` says why
        return {}
    return {name: _content(top / name.decode("utf-8", "surrogateescape")) for name in others if name}


def _content(path: Path) -> bytes:
    try:
        told = path.lstat()
        if path.is_file() and told.st_size <= _LARGEST_BYTES:
            return hashlib.sha256(path.read_bytes()).digest()
        return f"{told.st_size} {told.st_mtime_ns}".encode()
    except OSError:
        return b"gone"


@contextlib.contextmanager
def folders_of(commits: Sequence[str], folder: Path) -> Iterator[dict[str, Path]]:
    """Yield commit -> the folder in it that ``folder`` is in the repository: work trees of their own, which are removed
    at the end; for ``.`` the folder itself.

    Raises:
        RepositoryError: there is no such commit, the folder is in no repository, or is not there in that commit.
    """
    with tempfile.TemporaryDirectory(prefix="tbd-commits-") as place:
        made: list[Path] = []
        try:
            inside = _inside(folder) if any(one != DIRTY for one in commits) else Path()
            found = {}
            for number, commit in enumerate(commits):
                if commit == DIRTY:
                    found[commit] = folder
                    continue
                tree = Path(place) / str(number)
                _make(folder, commit, tree)
                made.append(tree)
                found[commit] = tree / inside
                if not found[commit].is_dir():
                    raise RepositoryError(f"there is no folder {inside} in {commit}")
            yield found
        finally:
            for tree in made:
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    _git(folder, "worktree", "remove", "--force", str(tree))


def take_out(folder: Path, commit: str, target: Path) -> None:
    """Put ``folder``, as it was in ``commit`` of its repository, into ``target``, which is made. Nothing is written to
    the repository, which may be somebody else's.

    Raises:
        RepositoryError: there is no such commit or folder any more.
    """
    archive = target.parent / (target.name + ".tar")
    commands = (
        ["git", "-c", "safe.directory=*", "-C", str(folder), "archive", "--output", str(archive), commit],
        ["tar", "-x", "-f", str(archive), "-C", str(target)],
    )
    try:
        target.mkdir(parents=True)
        for command in commands:
            subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=True)
        archive.unlink()
    except (OSError, subprocess.SubprocessError) as error:
        raise RepositoryError(f"commit {commit} of {folder} cannot be had (any more): {_why(error)}") from None


def _inside(folder: Path) -> Path:
    try:
        return Path(_git(folder, "rev-parse", "--show-prefix").decode().strip())
    except (OSError, subprocess.SubprocessError) as error:
        raise RepositoryError(f"--commits takes a git repository: {_why(error)}") from None


def _make(folder: Path, commit: str, tree: Path) -> None:
    try:
        _git(folder, "worktree", "add", "--detach", str(tree), commit)
    except (OSError, subprocess.SubprocessError) as error:
        raise RepositoryError(f"{commit} cannot be had from this repository: {_why(error)}") from None


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "git is not installed, or the folder has gone"
    told = getattr(error, "stderr", None)
    lines = [line for line in (told or b"").decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else str(error)


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=True).stdout
