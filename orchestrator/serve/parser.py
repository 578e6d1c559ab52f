"""The parser of each command: argparse's own, which also says what was probably meant."""

import argparse
import re
from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any, NoReturn


class _Folded(argparse.HelpFormatter):
    """Keeps the lines of a description, as a list needs, and folds those that are too long below their beginning."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(fill(line, width, subsequent_indent=_hanging(line)) for line in text.splitlines())


def _hanging(line: str) -> str:
    """What is below the first word of a text, or below the second column of ``  name   text``."""
    beginning = re.match(r" +(\S+  +)?", line)
    return " " * beginning.end() if beginning else ""


class Parser(argparse.ArgumentParser):
    """Takes no abbreviations: a script would break when an option with the same beginning comes."""

    def __init__(self, **more: Any) -> None:
        super().__init__(formatter_class=_Folded, allow_abbrev=False, **more)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            self._refuse(rest)
        return options

    def _refuse(self, rest: Sequence[str]) -> NoReturn:
        wrong = next((word for word in rest if word.startswith("-")), None)
        if wrong is None:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        name = wrong.partition("=")[0]
        self.error(f"there is no option {name}{_meant(name, self._option_string_actions)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """argparse's check of ``choices``."""
        if action.choices is not None and value not in action.choices:
            offered = [str(choice) for choice in action.choices]
            hint = _meant(str(value), offered)
            raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(offered)}{hint}")


def _meant(word: str, offered: Iterable[str]) -> str:
    from orchestrator.domain.words.spelling import did_you_mean  # difflib is for mistakes only

    return did_you_mean(word, offered)
