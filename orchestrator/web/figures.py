"""Figures on pages: SVG as images within the page, of the data of the tables beside them.

A process of its own draws them, and what was drawn is kept. Of what goes on none is drawn: a machine that measures has
better things to do, and its tables follow.
"""

import base64
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.words.errors import TbdError
from orchestrator.reports.figures.apart import Drawings
from orchestrator.reports.figures.vega import WIDTH

log = logging.getLogger(__name__)
# The width of a drawing, and how far to the right the first of its parts stands: that of the plotted area.
_PLOTTED = re.compile(r'viewBox="0 0 ([\d.]+) [\d.]+".*?<g[^>]*transform="translate\(([\d.]+),', re.DOTALL)
_DRAWINGS = Drawings()


@dataclass(frozen=True)
class Picture:
    """``source``: a URL that holds all of it; ``left`` and ``right``: where its plotted area begins and ends, as parts
    of its width."""

    title: str
    source: str
    left: float
    right: float


def pictures(specifications: Iterable[Mapping[str, Any]]) -> list[Picture]:
    """One of each; none where they cannot be drawn: a page has the tables in any case."""
    wanted = [dict(one) for one in specifications]
    try:
        drawn = _DRAWINGS.svgs(wanted) if wanted else []
    except TbdError as error:
        log.warning("a page has no figures: %s", error)
        return []
    return [_picture(one["title"]["text"], svg) for one, svg in zip(wanted, drawn, strict=True)]


def _picture(title: str, svg: str) -> Picture:
    found = _PLOTTED.search(svg)
    width, left = (float(one) for one in found.groups()) if found else (1.0, 0.0)
    return Picture(title, _source(svg), left / width, min(1.0, (left + WIDTH) / width))


def _source(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
