"""What ``tbd parity`` prints."""

from collections.abc import Mapping
from typing import Any

from orchestrator.reports.drawing import table
from orchestrator.reports.numbers import NOTHING

Json = Mapping[str, Any]

_HEADERS = ["framework", "loss", "gradient", "worst in", "weights", "worst in", "statistics", "beginning", "verdict"]


def text(found: Json, width: int | None) -> str:
    """The table of a comparison (``orchestrator.cli.commands.measure.parity`` makes it), and what was skipped."""
    rows = [_row(name, one) for name, one in found["frameworks"].items()]
    options = "".join(f" {name}={value}" for name, value in found["options"].items())
    parts = [
        f"{found['model']}{options}, size {found['size']}, {found['precision']}, {found['batch']} samples, "
        f"seed {found['seed']}: relative distance from PyTorch in double precision",
        table.text(_HEADERS, rows, width),
        "gradient: the worst of all parameters; weights: after three updates, in parts of what these changed; "
        "beginning: the first losses of a training from the seed.",
    ]
    for name, one in found["frameworks"].items():
        parts += [f"{name}: {problem}" for problem in one["problems"]]
    counts = found["parameters"]
    if counts["counted"] != counts["stated"]:
        parts.append(f"it trains {counts['counted']:,} parameters, and its facts state {counts['stated']:,}")
    parts += [f"{name} was skipped: {reason}" for name, reason in found["skipped"].items()]
    return "\n".join(parts)


def _row(name: str, one: Json) -> list[str]:
    verdict = "the same" if one["same"] else "another network"
    if "loss" not in one:
        return [name, *[NOTHING] * 7, "failed"]
    numbers = [_distance(one["loss"])]
    for kind in ("gradient", "weight"):
        numbers += [_distance(one[kind]["distance"]), one[kind]["name"]]
    statistic = one["statistic"]
    numbers.append(_distance(statistic["distance"]) if statistic else NOTHING)
    return [name, *numbers, _distance(one["begin"]), verdict]


def _distance(value: float) -> str:
    return f"{value:.1e}"
