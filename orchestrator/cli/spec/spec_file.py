"""Reads the spec of an experiment from a YAML or JSON file, and says which line an error is about."""

import re
import sys
from pathlib import Path
from typing import Any

import suites
from orchestrator.cli.exits import USAGE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import ServerProblem
from orchestrator.domain.words import untrusted

# The specs that come with tbd, in a checkout as from a wheel.
READY = Path(suites.__path__[0])
# Judgements that bound the work: YAML's anchors can make nine lines mean a thousand million values.
LONGEST = 2**20
MOST_NODES = 50_000


class SpecFile:
    """The parsed ``spec`` of a file, and the lines of its keys. ``-`` is stdin.

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
        if len(text) > LONGEST:
            raise CommandError(f"{name}: longer than {LONGEST} characters: that is no spec", USAGE)
        self.lines: dict[str, int] = {}
        self._nodes = 0
        self.spec: Any = self._parse_json(text) if name.endswith(".json") else self._parse_yaml(text)

    def _parse_json(self, text: str) -> Any:
        try:
            return untrusted.parse_json(text.encode(errors="surrogatepass"))[0]
        except untrusted.Malformed as error:
            raise CommandError(f"{self.name}: {error}", USAGE) from None

    def _parse_yaml(self, text: str) -> Any:
        import yaml

        try:
            loader = _loader()
            node = yaml.compose(text, Loader=loader)
            if node is None:
                raise CommandError(f"{self.name}: the file is empty", USAGE)
            self._note_lines(node, "")
            return yaml.load(text, Loader=loader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that no calendar has
            raise CommandError(f"{self.name}{_yaml_problem(error)}", USAGE) from None

    def _note_lines(self, node: Any, pointer: str) -> None:
        """JSON pointer -> line, for each key and item. YAML lets a key stand twice and takes the last: that is a
        mistake, and it is refused."""
        self.lines.setdefault(pointer, node.start_mark.line + 1)
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise CommandError(f"{self.name}: its anchors expand to more than {MOST_NODES} values", USAGE)
        if node.id == "sequence":
            for index, item in enumerate(node.value):
                self._note_lines(item, f"{pointer}/{index}")
        elif node.id == "mapping":
            for key, value in node.value:
                below = f"{pointer}/{str(key.value).replace('~', '~0').replace('/', '~1')}"
                if below in self.lines:
                    line = key.start_mark.line + 1
                    first = self.lines[below]
                    raise CommandError(f"{self.name}:{line}: {key.value} stands on line {first} already", USAGE)
                self.lines[below] = key.start_mark.line + 1
                self._note_lines(value, below)

    def replace(self, fields: dict[str, Any]) -> None:
        """Take these values for some fields; they have no line."""
        if fields and isinstance(self.spec, dict):
            self.spec = self.spec | fields
            self.lines = {place: line for place, line in self.lines.items() if f"{place}/".split("/")[1] not in fields}

    def explain(self, problem: ServerProblem) -> CommandError:
        """The server's problem with the lines of the file."""
        items = problem.document.get("errors") or []
        if not items:
            return problem
        texts = [f"{self.name}{self._line(item['pointer'])}: {_named(item)}" for item in items]
        return CommandError("\n  ".join(["the spec is refused", *texts]), problem.code)

    def _line(self, pointer: str) -> str:
        """``:7``, the line of the nearest part that the file has. What is missing at the top has no line: the first
        one, where the file begins, would send a person to something else."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return f":{self.lines[pointer]}" if pointer and pointer in self.lines else ""


def _existing(name: str) -> Path:
    """``name`` where it exists; else, for ``suites/quick.yaml``, the spec of that name that comes with tbd."""
    own = READY / Path(name).name
    if Path(name).exists() or name != f"suites/{own.name}" or not own.is_file():
        return Path(name)
    output.say(f"there is no {name} in this folder: taking {own}, which comes with tbd")
    return own


def _yaml_problem(error: Exception) -> str:
    """``:7:3: what is wrong``, as the spec's own problems are told."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f": {str(error).splitlines()[0]}"
    context = getattr(error, "context", None)
    where = f" ({context})" if context else ""
    return f":{mark.line + 1}:{mark.column + 1}: {getattr(error, 'problem', error)}{where}"


def _named(item: dict[str, Any]) -> str:
    name = str(item["pointer"]).lstrip("/")
    return f"{name}: {item['detail']}" if name else str(item["detail"])


def _loader() -> Any:
    """YAML 1.1 takes 1e-2 for text; to a person, to YAML 1.2 and to JSON it is a number."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    number = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return Loader
