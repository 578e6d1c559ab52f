"""Reads the spec of an experiment from a YAML or JSON file, and says which line an error is about."""

import sys
from pathlib import Path
from typing import Any

import suites
from orchestrator.cli.exits import USAGE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import ServerProblem
from orchestrator.services.experiment.spec_text import SpecError, SpecText

# The specs that come with tbd, in a checkout as from a wheel.
READY = Path(suites.__path__[0])


class SpecFile:
    """The parsed ``spec`` of a file. ``-`` is stdin.

    Raises:
        CommandError: the file cannot be read, is no YAML, or names a key twice.
    """

    def __init__(self, name: str) -> None:
        self.name = "stdin" if name == "-" else name
        try:
            text = sys.stdin.read() if name == "-" else _existing(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            ready = ", ".join(f"suites/{path.name}" for path in sorted(READY.glob("*.yaml")))
            raise CommandError(f"{name}: there is no such file (with tbd come {ready})", USAGE) from None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise CommandError(f"{name}: {reason}", USAGE) from None
        try:
            self._text = SpecText(text, as_json=name.endswith(".json"))
        except SpecError as error:
            raise CommandError(f"{self.name}{error}", USAGE) from None
        self.spec: Any = self._text.spec

    def replace(self, fields: dict[str, Any]) -> None:
        """Take these values for some fields; they have no line."""
        if fields and isinstance(self.spec, dict):
            self.spec = self.spec | fields
            lines = self._text.lines
            self._text.lines = {place: n for place, n in lines.items() if f"{place}/".split("/")[1] not in fields}

    def explain(self, problem: ServerProblem) -> CommandError:
        """The server's problem with the lines of the file."""
        items = problem.document.get("errors") or []
        if not items:
            return problem
        texts = [f"{self.name}{text}" for text in self._text.explained(items)]
        return CommandError("\n  ".join(["the spec is refused", *texts]), problem.code)


def _existing(name: str) -> Path:
    """``name`` where it exists; else, for ``suites/quick.yaml``, the spec of that name that comes with tbd."""
    own = READY / Path(name).name
    if Path(name).exists() or name != f"suites/{own.name}" or not own.is_file():
        return Path(name)
    output.say(f"there is no {name} in this folder: taking {own}, which comes with tbd")
    return own
