"""Reads the text of a spec, YAML or JSON, and knows on which line each of its parts stands.

The standard library and PyYAML alone: commands that only ask a server read this too.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.words import untrusted

# Judgements that bound the work: YAML's anchors can make nine lines mean a thousand million values.
LONGEST = 2**20
MOST_NODES = 50_000


class SpecError(ValueError):
    """The text is no spec. It begins with ``:7:3``, line and column, where those are known, and a colon."""


class SpecText:
    """The parsed ``spec`` of a text, and the ``lines`` of its parts by their JSON pointers. What is JSON has no lines.

    Raises:
        SpecError: the text is too long, is no YAML (or JSON), or names a key twice.
    """

    def __init__(self, text: str, as_json: bool = False) -> None:
        if len(text) > LONGEST:
            raise SpecError(f": longer than {LONGEST} characters: that is no spec")
        self.lines: dict[str, int] = {}
        self._nodes = 0
        self.spec: Any = _parsed_json(text) if as_json else self._parse_yaml(text)

    def _parse_yaml(self, text: str) -> Any:
        import yaml

        try:
            loader = _loader()
            node = yaml.compose(text, Loader=loader)
            if node is None:
                raise SpecError(": the file is empty")
            self._note_lines(node, "")
            return yaml.load(text, Loader=loader)
        except SpecError:
            raise
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that no calendar has
            raise SpecError(_yaml_problem(error)) from None

    def _note_lines(self, node: Any, pointer: str) -> None:
        """JSON pointer -> line, for each key and item. YAML lets a key stand twice and takes the last: that is a
        mistake, and it is refused."""
        self.lines.setdefault(pointer, node.start_mark.line + 1)
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise SpecError(f": its anchors expand to more than {MOST_NODES} values")
        if node.id == "sequence":
            for index, item in enumerate(node.value):
                self._note_lines(item, f"{pointer}/{index}")
        elif node.id == "mapping":
            for key, value in node.value:
                below = f"{pointer}/{str(key.value).replace('~', '~0').replace('/', '~1')}"
                if below in self.lines:
                    line = key.start_mark.line + 1
                    raise SpecError(f":{line}: {key.value} stands on line {self.lines[below]} already")
                self.lines[below] = key.start_mark.line + 1
                self._note_lines(value, below)

    def explained(self, items: Sequence[Mapping[str, Any]]) -> list[str]:
        """The problems that a server found (``errors`` of its answer), each with its line: ``:7: model: …``."""
        return [f"{self._line(item['pointer'])}: {_named(item)}" for item in items]

    def _line(self, pointer: str) -> str:
        """``:7``, the line of the nearest part that the text has. What is missing at the top has no line: the first
        one, where the text begins, would send a person to something else."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return f":{self.lines[pointer]}" if pointer and pointer in self.lines else ""


def _parsed_json(text: str) -> Any:
    try:
        return untrusted.parse_json(text.encode(errors="surrogatepass"))[0]
    except untrusted.Malformed as error:
        raise SpecError(f": {error}") from None


def _yaml_problem(error: Exception) -> str:
    """``:7:3: what is wrong``, as the spec's own problems are told."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f": {str(error).splitlines()[0]}"
    context = getattr(error, "context", None)
    where = f" ({context})" if context else ""
    return f":{mark.line + 1}:{mark.column + 1}: {getattr(error, 'problem', error)}{where}"


def _named(item: Mapping[str, Any]) -> str:
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
