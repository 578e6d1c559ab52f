"""How commands print: data to stdout, progress to stderr, colours only where they are wanted."""

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.cli.exits import FAILED, CommandError

FIGURES = (".svg", ".png", ".pdf", ".json")
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}
STATE_COLOURS = {"completed": "green", "failed": "red", "cancelled": "yellow", "running": "bold", "active": "bold"}
STATE_COLOURS |= {
    "submitted": "green",
    "missed": "red",
    "refused": "red",
    "skipped": "yellow",
    "waiting": "bold",
    "paused": "yellow",
    "sound": "green",
    "disturbed": "red",
    "broken": "red",
}


def print_json(data: Any) -> None:
    """Data for scripts, with REST's schema. Where stdout's encoding lacks a sign all are escaped: JSON can say any."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data, indent=2)
    print(text)


def write_file(name: str, content: str | bytes) -> None:
    """Write ``content`` to the file ``name``.

    Raises:
        CommandError: it cannot be written.
    """
    try:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None


def add_figure(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--figure", metavar="FILE", help=f"write {what}: FILE.svg, .png, .pdf or .json (Vega-Lite)")


def check_figure(name: str | None) -> None:
    """Raises CommandError: a figure is not written in the form that the name of its file ends with."""
    if name is not None and Path(name).suffix.lower() not in FIGURES:
        raise CommandError(f"{name}: a figure is written as FILE{', FILE'.join(FIGURES)}")


def write_figure(name: str, made: Callable[[], dict[str, Any]]) -> None:
    """Write the figure whose specification ``made`` returns, in the form that the name of the file ends with; it raises
    ValueError where there is nothing to draw.

    Raises:
        CommandError: there is nothing to draw, or the file cannot be written.
    """
    from orchestrator.reports.figures.vega import drawn

    try:
        specification = made()
    except ValueError as error:
        raise CommandError(f"there is nothing to draw: {error}", FAILED) from None
    write_file(name, drawn(specification, Path(name).suffix.lower()[1:]))
    say(f"figure: {name}")


def say(text: str) -> None:
    """Progress, for a person."""
    print(text, file=sys.stderr, flush=True)


def is_terminal() -> bool:
    """Whether progress goes to a person's screen."""
    return sys.stderr.isatty()


def width() -> int | None:
    """Columns of the screen; None where there is none: in a pipe a row stays one line, for grep and the like. COLUMNS
    says otherwise."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size((100, 24)).columns


def coloured(text: str, colour: str) -> str:
    """``text`` in a colour where stdout is a terminal and NO_COLOR is not set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or colour not in _COLOURS:
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def print_dim(text: str) -> None:
    """A line of small print."""
    for line in wrapped(text):
        print(coloured(line, "dim"))


def wrapped(text: str) -> list[str]:
    """The lines of a long one, on a terminal only: a pipe may want to search it."""
    columns = width()
    return textwrap.wrap(text, columns, subsequent_indent="    ") if columns else [one_line(text)]


def one_line(text: str) -> str:
    """``text`` without line breaks, which an error of a framework's may have."""
    return " ".join(text.split("\n"))


def state(text: str) -> str:
    """The name of a state, or of a grade, in its colour."""
    return coloured(text, STATE_COLOURS.get(text, ""))
