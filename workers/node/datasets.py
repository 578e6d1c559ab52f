"""The datasets of this host: those that somebody registered here, and which of all are prepared.

Owns the folder of registrations (``TBD_REGISTERED_DATASETS_DIR``, default ``~/.config/tbd/datasets``): a facts file for
each, ``<name>.toml``, written by ``tbd datasets register``. A path on a host is said on that host, by who may write
there, and never over REST.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from workers.trainer.base import manifest

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")


class Layout(NamedTuple):
    """A way in which files are laid out: the domain of what is trained on it, and what of ``suites.datasets`` reads
    it once it is prepared. ``version``: counted up where other files are prepared of the same."""

    domain: str
    loader: str
    version: int = 1


LAYOUTS = {
    "image-folder": Layout("image classification", "image_folder"),
    "tfrecord": Layout("image classification", "image_folder"),
    "recordio": Layout("image classification", "image_folder"),
    "small-images": Layout("image generation", "small_images"),
    "parallel-text": Layout("machine translation", "sentence_pairs", 3),
    "text": Layout("language modelling", "running_text", 2),
    "wikipedia": Layout("language modelling", "articles", 2),
    "squad": Layout("question answering", "questions", 2),
    "librispeech": Layout("speech recognition", "utterances"),
    "atari": Layout("reinforcement learning", "games"),
    "pascal-voc": Layout("object detection", "pascal_voc"),
    "coco": Layout("instance segmentation", "coco"),
}
_KEYS = ("name", "layout", "path", "files", "bytes", "sha256")


class DatasetError(Exception):
    """A dataset cannot be registered or used here; the message says what to do about it."""


def folder() -> Path:
    return Path(os.environ.get("TBD_REGISTERED_DATASETS_DIR") or os.path.expanduser("~/.config/tbd/datasets"))


def prepared_folder() -> Path:
    """Return the folder of the prepared datasets, those that come with tbd and registered ones."""
    return Path(os.environ.get("TBD_DATASETS_DIR") or os.path.expanduser("~/.cache/tbd/datasets"))


def prepared() -> list[str]:
    """Return the folders' names (``workers.trainer.base.manifest.folder_name``) of prepared datasets. Never raises."""
    try:
        return sorted(path.name for path in prepared_folder().iterdir() if path.is_dir() and path.name[0] != ".")
    except OSError:
        return []


def registered() -> dict[str, dict[str, Any]]:
    """Return the facts of all registrations of this host, by name. One that cannot be read has a ``problem`` instead.
    Never raises."""
    found = {}
    for path in sorted(folder().glob("*.toml")):
        try:
            facts = _read(path)
            missing = [key for key in _KEYS if key not in facts]
            if missing or facts["name"] != path.stem or facts["layout"] not in LAYOUTS:
                raise ValueError(f"it lacks {', '.join(missing) or 'its own name or a known layout'}")
        except (OSError, ValueError) as error:
            found[path.stem] = {"name": path.stem, "problem": f"{path}: {error}"}
            continue
        found[path.stem] = _complete(facts)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:
        raise ValueError("reading it needs Python 3.11 or newer") from None
    return dict(tomllib.loads(path.read_text(encoding="utf-8")))


def _complete(facts: Mapping[str, Any]) -> dict[str, Any]:
    """``facts`` of a file, with what follows from the layout."""
    layout = LAYOUTS[facts["layout"]]
    rest = {
        "domain": layout.domain,
        "loader": layout.loader,
        "interpreter": "datasets",
        "module": "suites.datasets.registered",
        "registered": True,
    }
    # Where nothing has changed, what is prepared stays where it is.
    version = {"version": layout.version} if layout.version > 1 else {}
    return {**facts, **rest, **version}


def offered() -> dict[str, dict[str, Any]]:
    """Return what the inventory tells of the registrations: those that can be read and whose path is there, without
    the path, which is nobody's business elsewhere."""
    usable = {name: facts for name, facts in registered().items() if "path" in facts and os.path.isdir(facts["path"])}
    return {name: {key: facts[key] for key in facts if key != "path"} for name, facts in usable.items()}


def path_of(dataset: Mapping[str, Any]) -> str:
    """Return the path on this host of a registered dataset that a job names.

    Raises:
        DatasetError: it is not registered here, or something else is under its name.
    """
    name = dataset["name"]
    here = registered().get(name)
    if here is None:
        raise DatasetError(
            f"the dataset {name} is not registered on this host: run `tbd datasets register {name} PATH"
            f" --layout {dataset['layout']}` on it"
        )
    if "problem" in here:
        raise DatasetError(here["problem"])
    if here["sha256"] != dataset["sha256"]:
        raise DatasetError(
            f"what is registered as {name} on this host ({here['files']} files, {here['bytes']} bytes) is not what the"
            f" run was planned for ({dataset['files']} files, {dataset['bytes']} bytes): two datasets have two names"
        )
    if not os.path.isdir(here["path"]):
        raise DatasetError(f"the dataset {name} was registered at {here['path']}, and there is no such folder now")
    return str(here["path"])


def register(
    name: str,
    path: str,
    layout: str,
    licence: str = "",
    replace: bool = False,
    splits: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, Any]:
    """Record what lies below ``path`` under ``name``; return the facts.

    Args:
        splits: what was counted in each split ({"train": {"pairs": 133317}}), for the lists.

    Raises:
        DatasetError: the name, the layout or the path will not do, or the name stands for something else.
    """
    if not NAME.fullmatch(name):
        raise DatasetError(f"{name!r} is no name for a dataset: use a-z, 0-9 and -, 64 at most")
    if layout not in LAYOUTS:
        raise DatasetError(f"there is no layout {layout}: {', '.join(LAYOUTS)}")
    where = Path(path).expanduser().resolve()
    if not where.is_dir():
        raise DatasetError(f"{where} is no folder on this host")
    try:
        identity = manifest.listing(str(where))
    except OSError as error:
        raise DatasetError(f"cannot read {where}: {error}") from error
    facts = {"name": name, "layout": layout, "path": str(where), "licence": licence, **identity}
    if splits:
        facts["splits"] = {split: dict(counts) for split, counts in splits.items()}
    old = registered().get(name)
    if old is not None and not replace and old.get("sha256") != identity["sha256"]:
        raise DatasetError(
            f"{name} stands for other files here already ({old.get('path') or old.get('problem')}): give another name,"
            " or --replace to begin a new series under this one"
        )
    _write(folder() / f"{name}.toml", facts)
    return _complete(facts)


def forget(name: str) -> None:
    """Remove the registration ``name`` of this host; the files stay.

    Raises:
        DatasetError: there is none.
    """
    try:
        (folder() / f"{name}.toml").unlink()
    except FileNotFoundError:
        raise DatasetError(f"no dataset {name} is registered on this host") from None


def _write(path: Path, facts: Mapping[str, Any]) -> None:
    """As a whole or not at all."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    head = f"# Written by `tbd datasets register` on {day}; sha256: of names and sizes.\n"
    text = head + "".join(f"{key} = {_toml(value)}\n" for key, value in facts.items())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unready = path.with_name(f".{path.name}.{os.getpid()}")
        unready.write_text(text, encoding="utf-8")
        unready.replace(path)
    except OSError as error:
        raise DatasetError(f"cannot write {path}: {error}") from error


def _toml(value: Any) -> str:
    """A table in one line, or what TOML writes as JSON does: a string or a number."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
