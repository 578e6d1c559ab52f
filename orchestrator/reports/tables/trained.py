"""What an experiment trained, and on what: the columns of TBD's Tables 2 and 3 (Zhu et al., IISWC 2018)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.reports.numbers import NOTHING, memory, plain
from orchestrator.reports.tables.results_table import Table

Json = Mapping[str, Any]
FULL = "full"


def models_table(rows: Sequence[Json], models: Sequence[Json]) -> Table:
    """A line for each model and size of ``rows``; what options change in it is not told."""
    facts = {one["name"]: one for one in models}
    used = dict.fromkeys((row["axes"]["model"], row["axes"]["size"]) for row in rows)
    lines = [_model(facts[name], size, rows) for name, size in used if name in facts]
    heads = ["model", "size", "application", "layers", "mostly", "parameters", "GFLOP", "frameworks", "data"]
    notes = [
        "GFLOP: of one forward pass of a sample, a multiply-add as two; of the size, its options at their defaults"
    ]
    return Table("", heads, lines, notes if lines else [])


def _model(facts: Json, size: str, rows: Sequence[Json]) -> list[str]:
    told = {"parameters": facts["parameters"], **facts["sizes"].get(size, {})}
    mine = [row["axes"] for row in rows if row["axes"]["model"] == facts["name"] and row["axes"]["size"] == size]
    flops = told.get("flops_per_sample")
    return [
        facts["name"],
        size,
        facts["domain"],
        str(facts["layers"] or NOTHING) if size == FULL else NOTHING,  # a fact of full size
        facts["dominant_layer"] or NOTHING,
        f"{told['parameters']:,}" if told["parameters"] else NOTHING,
        plain(flops / 1e9, 3) if flops else NOTHING,
        ", ".join(dict.fromkeys(axes["framework"] for axes in mine)),
        ", ".join(dict.fromkeys(axes["data"] for axes in mine)),
    ]


def datasets_table(rows: Sequence[Json], datasets: Sequence[Json]) -> Table:
    """A line for each dataset of ``rows`` that is real files."""
    known = {one["name"]: one for one in datasets}
    used = [known[name] for name in dict.fromkeys(row["axes"]["data"] for row in rows) if name in known]
    lines = [
        [
            one["name"],
            "; ".join(_splits(one["splits"] or {})) or NOTHING,
            memory(one["bytes"]) if one["bytes"] else NOTHING,
            one["description"] or NOTHING,
        ]
        for one in used
    ]
    return Table("", ["data", "samples", "size", "what it is"], lines, [])


def _splits(splits: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for name, counts in splits.items():
        yield f"{name} " + ", ".join(f"{count:,} {what}" for what, count in counts.items())
