"""Environments of this host: ``python -m workers.node.interpreters install NAME...``, ``list``, ``remove NAME...``.

``install-some NAME...`` goes on without those that cannot be had, and fails if that is all of them.
"""

from __future__ import annotations

import sys
from typing import Sequence

from workers.node.interpreters import InterpreterError, all_resolved, install, remove


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status: 0 done, 1 failed, 2 usage."""
    command, *names = arguments or ["list"]
    if command not in ("install", "install-some", "list", "remove") or (command != "list" and not names):
        print(__doc__, file=sys.stderr)
        return 2
    if command == "list":
        for found in all_resolved():
            print(f"{found.name:<12} {found.python if found.ready else found.reason}")
        return 0
    if command == "install-some":
        installed = [name for name in names if _could_install(name)]
        return 0 if installed else 1
    try:
        for name in names:
            if command == "install":
                install(name, _say)
            else:
                print(f"{name}: {remove(name)} removed", file=sys.stderr)
    except InterpreterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _could_install(name: str) -> bool:
    try:
        install(name, _say)
    except InterpreterError as error:
        print(f"going on without {name}: {error}", file=sys.stderr)
        return False
    return True


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
