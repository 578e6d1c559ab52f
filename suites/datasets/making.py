"""What the making of all datasets has in common: a folder that appears as a whole, with a manifest of its files."""

import argparse
import os
import shutil
import tempfile
from typing import Callable, Dict, Optional, Sequence

from workers.trainer.base import manifest

# Writes the files of a dataset below a folder; returns the versions of what they were made with.
Writer = Callable[[str], Dict[str, str]]


def main(version: int, write_all: Writer, arguments: Optional[Sequence[str]] = None) -> int:
    """Make the dataset in the folder that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(description="Makes a dataset of files that are on this machine.")
    parser.add_argument("--root", required=True, help="the folder to make")
    root = os.path.abspath(parser.parse_args(arguments).root)
    if not is_prepared(root, version):
        prepare(root, version, write_all)
    print("%s: %d files" % (root, len(manifest.read(root)["files"])))
    return 0


def is_prepared(root: str, version: int) -> bool:
    """Whether ``root`` holds this version of the dataset."""
    try:
        found = manifest.read(root)
    except (OSError, ValueError):
        return False
    return found.get("version") == version and all(os.path.exists(os.path.join(root, path)) for path in found["files"])


def prepare(root: str, version: int, write_all: Writer) -> None:
    """Make the dataset in ``root``, in one move. What stood there, an older or a damaged one, is replaced."""
    parent = os.path.dirname(root)
    os.makedirs(parent, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=os.path.basename(root) + ".partial-", dir=parent)
    try:
        manifest.write(folder, version, write_all(folder))
        os.chmod(folder, 0o755)
        if os.path.exists(root) and not is_prepared(root, version):
            os.rename(root, os.path.join(folder, "replaced"))
        _put_in_place(folder, root, version)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(os.path.join(root, "replaced"), ignore_errors=True)


def _put_in_place(folder: str, root: str, version: int) -> None:
    """Rename ``folder`` to ``root``, unless another process has just made the same."""
    try:
        os.rename(folder, root)
    except OSError:
        if not is_prepared(root, version):
            raise
