"""Definitions of an operator's own: one of ours with other versions of some packages.

They lie in the folders that ``TBD_INTERPRETER_PATH`` names, each as ours do (``definition``), by a name of their own.
The environment is one more of the interpreter that they are derived from, told from the others by its hash: so a run of
that interpreter can be made again with it, side by side with today's (docs/read_results/gate.md).
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Sequence

from workers.node.interpreters.definition import DEFINITIONS, Definition, InterpreterError, definition_at, definitions
from workers.node.interpreters.sources import canonical

PATH_SETTING = "TBD_INTERPRETER_PATH"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,59}")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.+!_-]*)")


def folders() -> list[Path]:
    return [Path(one).expanduser() for one in os.environ.get(PATH_SETTING, "").split(os.pathsep) if one]


def derived() -> dict[str, Definition]:
    """Return the derived definitions by their own names; the ``name`` of each is that of the interpreter it is of.

    Raises:
        InterpreterError: one cannot be read, or is called as one of ours is.
    """
    found: dict[str, Definition] = {}
    for folder in folders():
        for path in sorted(folder.glob("*/interpreter.toml")):
            label = path.parent.name
            if (DEFINITIONS / label).exists() or label in found:
                raise InterpreterError(f"{path}: there is an interpreter {label} already; call it otherwise")
            found[label] = definition_at(path)
    return found


def derive(base: str, pins: Sequence[str], label: str) -> Path:
    """Write the definition ``label``: ``base`` with each of ``pins`` (``package==version``); return its folder.

    Raises:
        InterpreterError: there is no such interpreter or package, the name is taken or none, or no folder is named.
    """
    known = definitions()
    if base not in known:
        raise InterpreterError(f"there is no interpreter {base}; there are {', '.join(known)}")
    if not _NAME.fullmatch(label) or label in known or label in derived():
        raise InterpreterError(f"{label!r} cannot be its name: a-z, 0-9, . and -, and no name of another interpreter")
    if not folders():
        raise InterpreterError(f"where to? {PATH_SETTING} names the folder for definitions of your own")
    wanted = dict(_parsed(pin) for pin in pins)
    source, target = known[base].path.parent, folders()[0] / label
    texts = {path.name: _pinned(path.read_text(encoding="utf-8"), wanted) for path in source.glob("requirements*.txt")}
    unknown = [name for name in wanted if not any(name in _packages(text) for text in texts.values())]
    if unknown or not wanted:
        told = f"{base} has no package {unknown[0]}" if unknown else "no version is another one: --pin torch==2.12.1"
        raise InterpreterError(f"{told}; it has {', '.join(sorted(set().union(*map(_packages, texts.values()))))}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target)
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8")
        facts = target / "interpreter.toml"
        python = f'python = "{known[base].python}"'  # that of the environment that it is to be held against
        facts.write_text(re.sub("(?m)^python = .*$", python, facts.read_text(encoding="utf-8")), encoding="utf-8")
    except OSError as error:
        raise InterpreterError(f"{target}: {error}") from error
    return target


def _parsed(pin: str) -> tuple[str, str]:
    match = _PIN.fullmatch(pin)
    if not match:
        raise InterpreterError(f"{pin!r} pins nothing: it looks like torch==2.12.1")
    return canonical(match[1]), match[2]


def _packages(text: str) -> set[str]:
    return {canonical(line.split("==")[0]) for line in text.splitlines() if _PIN.fullmatch(line.strip())}


def _pinned(text: str, wanted: dict[str, str]) -> str:
    lines = []
    for line in text.splitlines():
        match = _PIN.fullmatch(line.strip())
        version = wanted.get(canonical(match[1])) if match else None
        lines.append(f"{match[1]}=={version}" if match and version else line)
    return "\n".join(lines) + "\n"
