"""Tables of ``orchestrator.reports`` as pages show them: cells that lead somewhere, numbers to the right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.reports.drawing.table import is_numeric
from orchestrator.reports.tables.results_table import Table

# Columns whose words have a look of their own, which is never all that tells them apart.
_WORDS = ("state", "became", "grade", "answer", "verdict")
# Judgements: signs of a text that is wrapped rather than making a table wide, and those seen of one that is folded:
# options are many, and seldom what one looks for.
LONG, FOLDED = 40, 24
_FOLDED = ("options",)


class Link(NamedTuple):
    """A text that leads somewhere."""

    text: str
    href: str


@dataclass(frozen=True)
class Cell:
    """``look``: its class in the stylesheet; ``links``: what it is made of, and ``whole``: all of a long text; both are
    shown when it is opened."""

    text: str
    href: str | None = None
    look: str = ""
    links: Sequence[Link] = ()
    whole: str | None = None


@dataclass(frozen=True)
class Head:
    """A heading; ``href``: the same page sorted by it, ``sorted``: ascending or descending, where it is."""

    text: str
    is_number: bool
    href: str | None = None
    sorted: str | None = None


@dataclass(frozen=True)
class Grid:
    """A table. ``marks`` of rows are what links within the page lead to; with ``chosen`` (an id for each row) some can
    be chosen, and a form leads to their comparison."""

    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    common: str = ""
    notes: Sequence[str] = ()
    marks: Sequence[str] = ()
    chosen: Sequence[str] = ()


def grid(
    found: Table,
    caption: str,
    hrefs: Mapping[str, Sequence[str | None]] | None = None,
    links: Mapping[str, Sequence[Sequence[Link]]] | None = None,
    marks: Sequence[str] = (),
) -> Grid:
    """The table ``found``. ``hrefs`` and ``links``: heading of a column -> for each row where its cell leads, or what
    it is made of."""
    right = [is_numeric([row[column] for row in found.rows]) for column in range(len(found.headers))]
    heads = [Head(text, right[column]) for column, text in enumerate(found.headers)]
    rows = [
        [
            folded(text)
            if head.text in _FOLDED and len(text) > LONG
            else Cell(
                text,
                hrefs[head.text][place] if hrefs and head.text in hrefs else None,
                _look(head, text),
                links[head.text][place] if links and head.text in links else (),
            )
            for head, text in zip(heads, row, strict=True)
        ]
        for place, row in enumerate(found.rows)
    ]
    return Grid(caption, heads, rows, found.common, found.notes, marks)


def folded(text: str) -> Cell:
    """A text of which the beginning is shown, and the rest when it is opened."""
    return Cell(f"{text[:FOLDED]}…", look="folded", whole=text)


def _look(head: Head, text: str) -> str:
    if head.is_number:
        return "number"
    if len(text) > LONG:
        return "long"
    return f"word {text.split(' ')[0]}" if head.text in _WORDS and text else ""
