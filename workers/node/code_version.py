"""Which tbd this is: its version, the commit it was made from, whether it was changed since; where unknown, why.

Git answers for a checkout. A wheel holds ``workers/built_from.json``, which ``setup.py`` writes when it is built.
Standard library only: ``setup.py`` and ``tbd --version`` import this.
"""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

# The folder that holds our packages: the checkout, or the ``site-packages`` that a wheel was installed into.
ROOT = Path(__file__).resolve().parents[2]
# Where a build leaves its commit, relative to the folder of our packages.
RECORD = Path("workers") / "built_from.json"

_DISTRIBUTION = "tbd-orchestrator"
_GIT_PATIENCE_S = 5.0


class Code(NamedTuple):
    """``dirty``: whether tracked files differed from the commit. ``reason``: why the commit is None."""

    commit: str | None
    dirty: bool | None
    reason: str | None = None


def code_version(root: Path = ROOT) -> dict[str, Any]:
    """Return {version, commit, dirty, reason} of the tbd code. Where commit and dirty are null, the reason says why."""
    return {"version": _installed_version(), **of_folder(root)._asdict()}


def described(facts: dict[str, Any]) -> str:
    """Return in one line what ``code_version`` has found: ``0.1.0 (commit 0123456789ab)``."""
    version = facts["version"] or "(not installed)"
    if facts["commit"] is None:
        return f"{version} (commit unknown: {facts['reason']})"
    return f"{version} (commit {facts['commit'][:12]}{', with changes' if facts['dirty'] else ''})"


def of_folder(root: Path) -> Code:
    """Return what is known of the code in ``root``, a checkout or a folder that tbd was installed into."""
    if (root / ".git").exists():
        return _of_checkout(root)
    try:
        record = json.loads((root / RECORD).read_text(encoding="utf-8"))
        return Code(record["commit"], record["dirty"], record["reason"])
    except FileNotFoundError:
        return Code(None, None, "this is no git checkout, and no record of a build lies in it")
    except (OSError, ValueError, LookupError, TypeError) as error:
        return Code(None, None, f"{root / RECORD} cannot be read: {type(error).__name__}: {error}")


def write_record(root: Path, target: Path) -> None:
    """Write what is known of the code in ``root`` as the record of a build into ``target``."""
    path = target / RECORD
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(of_folder(root)._asdict()) + "\n", encoding="utf-8")


def _of_checkout(root: Path) -> Code:
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    except FileNotFoundError:
        return Code(None, None, "git is not installed")
    except (OSError, subprocess.SubprocessError) as error:
        return Code(None, None, f"git does not say: {error}")
    return Code(commit, bool(changes))


def _git(root: Path, *arguments: str) -> str:
    # Whoever owns the checkout: the agent may run as root on a user's files, which git would refuse to look at.
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "--no-optional-locks", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_PATIENCE_S, check=True)
    return done.stdout.strip()


def _installed_version() -> str | None:
    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
