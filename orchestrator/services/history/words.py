"""What a history tells, in words: of a border, of a change of the level of nights, of an alert."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from orchestrator.analysis.history.baselines import Mean
from orchestrator.analysis.history.breaks import Border
from orchestrator.domain.around.alerts import Alert
from orchestrator.domain.asked.fingerprint import Changed
from orchestrator.services.history.observed import Place

MOST_FIELDS = 3  # of a change that are named in a line; all are in the answer: a judgement
LONGEST_VALUE = 40


def of_move(
    kind: Literal["step", "drift"],
    difference: float,
    where: str,
    since: float,
    changes: Sequence[Changed],
    alert: Alert | None,
) -> str:
    """A change of level, as nights had it (``difference``: after / before - 1), and what was tried of it."""
    way = "slower" if difference < 0.0 else "faster"
    how = f"looks {way} by" if kind == "step" else f"gets {way} bit by bit:"
    text = f"{where} {how} {abs(difference):.1%} since {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M}"
    if changes:
        text += f"; it coincides with {fields(changes)}"
    if alert is not None:
        return f"{text}; {alert.state}: {alert.told.text} ({alert.id})"
    return f"{text}; a candidate: nothing was tried side by side" if (kind, way) == ("step", "slower") else text


def of_border(border: Border, places: Mapping[str, Place]) -> str:
    """A border in a few words: what changed, and that a new baseline begins where it does."""
    told = fields(border.changes)
    if border.is_new_place:
        also = [change for change in border.changes if change.part == "subject"]
        with_what = f"; {fields(also)} changed too, which cannot be told apart" if also else ""
        return f"first on {places[border.place].name}: new baseline{with_what}"
    if border.parts == {"subject"}:
        return told
    moved = f", {_size(border.effect)}" if border.effect is not None and border.effect.error is not None else ""
    return f"rig, new baseline: {told}{moved}"


def fields(changes: Sequence[Changed]) -> str:
    """``framework_version 2.12 → 2.13``, of the first few fields."""
    told = [f"{one.field} {value(one.before)} → {value(one.after)}" for one in changes[:MOST_FIELDS]]
    more = len(changes) - MOST_FIELDS
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def value(one: Any) -> str:
    """A value of a fingerprint, short."""
    if one is None:
        return "none"
    if isinstance(one, list) and len(one) == 1:
        return value(one[0])
    text = str(one)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _size(mean: Mean) -> str:
    return f"{math.expm1(mean.value):+.1%}{_bounds(mean)}"


def _bounds(mean: Mean) -> str:
    ends = mean.bounds()
    return "" if ends is None else f" (95 % interval {math.expm1(ends[0]):+.1%} to {math.expm1(ends[1]):+.1%})"
