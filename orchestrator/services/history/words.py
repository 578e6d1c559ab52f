"""What a history tells, in words: of a border, of a change of software, of drift. Nothing more than the data hold."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.analysis.history.baselines import Change, Mean
from orchestrator.analysis.history.breaks import Border, Judged, SoftwareChange
from orchestrator.services.history.observed import Place
from orchestrator.services.history.workload import Line

Verdict = Literal["slower", "faster", "no_difference_found", "cannot_tell"]
MOST_FIELDS = 3  # of a change that are named in a line; all are in the answer: a judgement
LONGEST_VALUE = 40
UNCONFIRMED = "unconfirmed, as nothing was tried side by side"


@dataclass(frozen=True)
class Finding:
    """Something that is said of a line, and what it rests on.

    Attributes:
        kind: of the software (a change of the subject), or a move within baselines.
        verdict: of what the places have in common.
        places: keys of the places that were asked and do not stand out; ``apart`` those that do, each with how far it
            itself moved.
        common: of the former, of logarithms; None where nobody could be asked.
        points: the first points behind the borders of a change.
    """

    kind: Literal["software_change", "drift"]
    line: int
    verdict: Verdict
    changes: tuple[Change, ...]
    points: tuple[int, ...]
    places: tuple[str, ...]
    apart: tuple[tuple[str, Mean], ...]
    common: Mean | None
    detectable_ratio: float | None
    text: str


def findings(lines: Sequence[Line], places: Mapping[str, Place]) -> list[Finding]:
    """Everything that can be said, line by line: the changes of software in the order of time, then drift."""
    told = []
    for number, line in enumerate(lines):
        told += [_of_change(number, change, places) for change in line.changes]
        if line.drift is not None:
            told.append(_of_drift(number, line.drift, places))
    return told


def verdict_of(mean: Mean, is_found: bool) -> Verdict:
    if mean.error is None:
        return "cannot_tell"
    if not is_found:
        return "no_difference_found"
    return "slower" if mean.value < 0 else "faster"


def _of_change(line: int, change: SoftwareChange, places: Mapping[str, Place]) -> Finding:
    seen = sorted([*change.borders, *change.confounded], key=lambda border: border.point)
    points, what = tuple(border.point for border in seen), fields(change.changes)
    notes = [_confounded(border, places) for border in change.confounded]
    judged = change.judged
    if judged is None:
        why = "" if change.borders else "the rig changed with it wherever it was measured"
        why = why or "a single session on each side, and nobody knows how sessions scatter"
        text = "; ".join([f"cannot tell what {what} did: {why}", *notes])
        return Finding("software_change", line, "cannot_tell", change.changes, points, (), (), None, None, text)
    text = _judged(judged, places, "the only device measured on both sides")
    if judged.is_common or judged.apart:
        text += f"; it coincides with {what}; {UNCONFIRMED}"
    else:
        text = f"{what}: {text}"
    text += _unclear(judged, places)
    text += _why_apart(judged, "or a matter of the new software on that device alone")
    return Finding(
        kind="software_change",
        line=line,
        verdict=verdict_of(judged.common, judged.is_common),
        changes=change.changes,
        points=points,
        places=judged.places,
        apart=judged.apart,
        common=judged.common,
        detectable_ratio=judged.detectable_ratio,
        text="; ".join([text, *notes]),
    )


def _of_drift(line: int, judged: Judged, places: Mapping[str, Place]) -> Finding:
    text = _judged(judged, places, "the only device that can be asked")
    if judged.is_common or judged.apart:
        text += "; software and rig unchanged"
    if judged.is_common and not judged.apart:
        alone = len(judged.places) == 1
        text += (
            "; drift of the device, or of something that is not recorded: one device cannot tell"
            if alone
            else "; all devices moved alike, so it is not the drift of one, and nothing that is recorded explains it"
        )
    text += _unclear(judged, places) + _why_apart(judged, "")
    return Finding(
        kind="drift",
        line=line,
        verdict=verdict_of(judged.common, judged.is_common),
        changes=(),
        points=(),
        places=judged.places,
        apart=judged.apart,
        common=judged.common,
        detectable_ratio=judged.detectable_ratio,
        text=f"within baselines, later half of the sessions against the earlier: {text}",
    )


def _judged(judged: Judged, places: Mapping[str, Place], alone: str) -> str:
    """The places apart first, then what the others have in common."""
    told = [f"{places[name].name} is {_moved(mean)}" for name, mean in judged.apart]
    names = [places[name].name for name in judged.places]
    if len(names) > 1:
        who = f"the other {len(names)} devices" if judged.apart else f"all {len(names)} devices"
    elif judged.apart:
        who = f"the other device ({names[0]})"
    else:
        who = f"{names[0]} ({alone})"
    if judged.is_common:
        alike = " alike" if len(names) > 1 else ""
        be = "are" if len(names) > 1 else "is"
        return ", ".join([*told, f"{who} {be} {_moved(judged.common)}{alike}"])
    if judged.apart:
        return ", ".join([*told, f"{who} did not move that one could tell ({_size(judged.common)})"])
    least = judged.detectable_ratio
    would = "" if least is None else f"; {least:.1%} or more would be found in four of five cases"
    return f"no difference found on {who}: {_size(judged.common)}{would}"


def _unclear(judged: Judged, places: Mapping[str, Place]) -> str:
    return "".join(f"; {places[name].name} is far noisier and left out: {_size(mean)}" for name, mean in judged.unclear)


def _why_apart(judged: Judged, otherwise: str) -> str:
    if not judged.apart:
        return ""
    which = "that device" if len(judged.apart) == 1 else "those devices"
    return f"; what one device shows and others do not is drift of {which}" + (f", {otherwise}" if otherwise else "")


def _confounded(border: Border, places: Mapping[str, Place]) -> str:
    rig = fields([change for change in border.changes if change.part == "rig"])
    moved = "" if border.effect is None else f" ({_size(border.effect)})"
    return f"on {places[border.place].name} {rig} changed too, which cannot be told apart there{moved}"


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


def verdict_at(border: Border) -> Verdict:
    """What one place shows at its border, by itself."""
    if border.effect is None or border.effect.p is None:
        return "cannot_tell"
    return verdict_of(border.effect, border.effect.p <= 0.05)


def fields(changes: Sequence[Change]) -> str:
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


def _moved(mean: Mean) -> str:
    word = "slower" if mean.value < 0 else "faster"
    return f"{word} by {abs(math.expm1(mean.value)):.1%}{_bounds(mean)}"


def _size(mean: Mean) -> str:
    return f"{math.expm1(mean.value):+.1%}{_bounds(mean)}"


def _bounds(mean: Mean) -> str:
    ends = mean.bounds()
    return "" if ends is None else f" (95 % interval {math.expm1(ends[0]):+.1%} to {math.expm1(ends[1]):+.1%})"
