"""Figures on pages: SVG as images within the page, of the data of the tables beside them.

A process of its own draws them, and what was drawn is kept. Of what goes on none is drawn: a machine that measures has
better things to do, and its tables follow.
"""

import base64
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.words.errors import TbdError
from orchestrator.reports.figures.apart import Drawings

log = logging.getLogger(__name__)
_DRAWINGS = Drawings()


@dataclass(frozen=True)
class Picture:
    """``source``: a URL that holds all of it."""

    title: str
    source: str


def pictures(specifications: Iterable[Mapping[str, Any]]) -> list[Picture]:
    """One of each; none where they cannot be drawn: a page has the tables in any case."""
    wanted = [dict(one) for one in specifications]
    try:
        drawn = _DRAWINGS.svgs(wanted) if wanted else []
    except TbdError as error:
        log.warning("a page has no figures: %s", error)
        return []
    return [Picture(one["title"]["text"], _source(svg)) for one, svg in zip(wanted, drawn, strict=True)]


def _source(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
