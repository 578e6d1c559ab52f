"""``tbd serve`` that kills itself at a call of a port. ``TBD_TEST_KILL`` says when: METHOD:before:3, METHOD:after:1.

The product knows nothing of it: what it opens is wrapped here. ``TBD_TEST_CALLS`` is a folder with a file for each
method that was called.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator import app

KILL, CALLS = "TBD_TEST_KILL", "TBD_TEST_CALLS"


class Deadly:
    """A port, each call of which may be the last of this process."""

    def __init__(self, port: Any, method: str, when: str, number: int) -> None:
        self._port, self._method, self._when, self._left = port, method, when, number
        self._calls = Path(os.environ[CALLS])
        self._called: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)
        return self._watched(name, real) if callable(real) else real

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._called[name] += 1
            if self._called[name] == 1:
                (self._calls / name).touch()
            dies = name == self._method and self._called[name] == self._left
            if dies and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = real(*arguments, **named)
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call


def main() -> int:
    method, when, number = os.environ[KILL].split(":")
    opened, made = app.open_store, app.make_cluster

    def open_store(*given: Any, **named: Any) -> Any:
        return Deadly(opened(*given, **named), method, when, int(number))

    def make_cluster(*given: Any) -> Any:
        return Deadly(made(*given), method, when, int(number))

    app.open_store, app.make_cluster = open_store, make_cluster
    return app.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
