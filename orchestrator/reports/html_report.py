"""A report as one HTML file: its Markdown rendered, its figures within as SVG; no script, nothing from elsewhere."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from orchestrator.reports.figures import cells, convergence, scaling, vega

Json = Mapping[str, Any]
_RESULTS = "## Results\n"
_STYLE = """
body { margin: 2rem auto; padding: 0 1rem; max-width: 62rem; font: 16px/1.5 sans-serif }
body, figure { color: #1a1a1a; background: #fff }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #d0d0d0; text-align: left; vertical-align: top }
pre { overflow-x: auto; padding: .75rem; background: #f3f3f3 }
figure { margin: 1.5rem 0; overflow-x: auto }
figure svg { overflow: visible }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616 } th, td { border-color: #444 } pre { background: #242424 }
}
@media print { body { margin: 0; max-width: none } }
"""


def html_report(report: str, name: str, figures: Sequence[Sequence[vega.Json]]) -> str:
    """``report``: those of ``experiment_report``, one behind the other. The same bytes for the same data.

    Args:
        name: a title.
        figures: specifications, of each of these reports; they stand below its results.
    """
    from markdown_it import MarkdownIt

    renderer = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink"])
    parts, waiting = [], iter(figures)
    for section in re.split(r"(?m)^(?=## )", report):
        parts.append(renderer.render(section))
        if section.startswith(_RESULTS):
            parts += [f"<figure>{vega.drawn(one, 'svg').decode()}</figure>\n" for one in next(waiting, ())]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    title = f"<title>{escape(name)}</title><style>{_STYLE}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}{title}</head><body>\n{"".join(parts)}</body></html>\n'


def figures_of(material: Json) -> Iterator[vega.Json]:
    """What can be drawn of what a report is made of: TBD's figures 2 and 4 to 10, and a map of all cells."""
    yield from cells.figures(material["rows"])
    makers = (
        lambda: cells.heat_map(material["rows"]),
        lambda: cells.gpus_figure(material["rows"]),
        lambda: cells.memory_figure(material["memory"]),
        lambda: convergence.figure(material["runs"]),
        lambda: scaling.figure(material["scaling"], material["experiment"]["name"]),
    )
    for make in makers:
        try:
            yield make()
        except ValueError:
            continue
