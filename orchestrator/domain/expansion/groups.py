"""Which cells of a sweep are compared with each other: those that agree in all axes but one.

``auto`` stands for something else in each framework, and for several devices than for one. Cells that differ only in
what it stood for still agree. So a cell is known here by what its spec says, not by its plan.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.fields import AXES, BY_NAME
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import LARGEST_THAT_FITS, POWERS_OF_TWO, ExperimentSpec
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.domain.words.spelling import did_you_mean

AUTO = "auto"
OPTION = "options."  # how the axis of an option begins
_NEVER = ("size",)  # another size is another network: its speed says nothing about this one's
_FOLLOWS = ("strategy", "interpreter", "data_on")
_BATCHES = ("per_device_batch_size", "global_batch_size")


@dataclass(frozen=True)
class Group:
    """``shared``: its values of the other axes that have several; ``plans``: one of each cell, in the given order."""

    shared: Mapping[str, Any]
    plans: tuple[Plan, ...]


def axes_of(spec: ExperimentSpec, plans: Sequence[Plan]) -> list[str]:
    """The axes by which cells can be compared, because they have several values: ``framework`` first, options last."""
    listed = [axis for axis in AXES if axis not in _NEVER and _is_listed(getattr(spec, axis))]
    listed += [OPTION + name for name, values in sorted(spec.options.items()) if len(values) > 1]
    found = [axis for axis in listed if len({value_of(plan, axis) for plan in plans}) > 1]
    return sorted(found, key=lambda axis: axis != "framework")


def chosen_axis(spec: ExperimentSpec, plans: Sequence[Plan], asked: str) -> str:
    """The axis that a person means by ``asked``: also ``batch``, or the bare name of an option.

    Raises:
        InvalidRequest: it is none by which these cells can be compared; the text names those that are.
    """
    offered = axes_of(spec, plans)
    meant = [asked, OPTION + asked, *(_BATCHES if asked == "batch" else ())]
    if found := next((axis for axis in meant if axis in offered), None):
        return found
    known = (*AXES, *(OPTION + name for name in spec.options))
    if asked in _NEVER:
        why = f"cells of another {asked} do other work: they are never compared"
    elif asked in known:
        why = f"{asked} has one value in this experiment"
    else:
        why = f"there is no axis {asked!r}{did_you_mean(asked, known)}"
    several = f"several values have: {', '.join(offered)}" if offered else "no axis has several values"
    raise InvalidRequest([Problem("/axis", f"{why}{' ' if why.endswith('?') else '; '}{several}")])


def value_of(plan: Plan, axis: str) -> Any:
    """What a plan has on an axis, ``options.NAME`` among them."""
    if axis.startswith(OPTION):
        return plan.option(axis.removeprefix(OPTION))
    return plan.told(axis)


def label(axis: str, value: Any) -> str:
    """The value of an axis, as one says it in a sentence: ``pytorch``, ``batch 4``, ``depth 101``."""
    word = axis.removeprefix(OPTION) if axis.startswith(OPTION) else BY_NAME[axis].word
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"{word} {text}".strip()


def chosen_value(values: Iterable[Any], axis: str, asked: str) -> Any:
    """The one of ``values`` that a person means, with or without its word (``4``, ``batch 4``).

    Raises:
        InvalidRequest: it is none of them; the text names them.
    """
    by_text = {label(axis, value): value for value in values}
    word = axis.removeprefix(OPTION) if axis.startswith(OPTION) else BY_NAME[axis].word
    for text in (asked, f"{word} {asked}".strip()):
        if text in by_text:
            return by_text[text]
    hint = did_you_mean(asked, by_text)
    offered = ", ".join(by_text)
    message = f"no cell has {axis} {asked!r}{hint + ' ' if hint else '; '}there are: {offered}"
    raise InvalidRequest([Problem("/baseline", message)])


def groups_of(
    spec: ExperimentSpec, plans: Sequence[Plan], by: str, unit_of: Callable[[Plan], Any] = lambda plan: None
) -> list[Group]:
    """The groups of ``plans`` (one of each cell) whose cells differ in the axis ``by`` only, those of one cell among
    them. Rates of different units of work (``unit_of``) are never in one group."""
    others = [axis for axis in axes_of(spec, plans) if axis != by]
    members: dict[tuple[Any, ...], list[Plan]] = {}
    shared: dict[tuple[Any, ...], dict[str, Any]] = {}
    for plan in plans:
        for values in _values(spec, plan, by):
            key = (*values.values(), unit_of(plan))
            members.setdefault(key, []).append(plan)
            shared.setdefault(key, {axis: values[axis] for axis in others})
    found = {tuple(one.cell_key for one in own): Group(shared[key], tuple(own)) for key, own in members.items()}
    return list(found.values())


def _values(spec: ExperimentSpec, plan: Plan, by: str) -> Iterator[dict[str, Any]]:
    """axis -> what the spec says of it, without ``by``. A plan of one node has no fabric: next to other topologies it
    stands for every fabric."""
    given = [axis for axis in AXES if axis != by and getattr(spec, axis) is not None]
    given += [OPTION + name for name in sorted(spec.options) if OPTION + name != by]
    for values in itertools.product(*(_said(spec, plan, axis, by) for axis in given)):
        yield dict(zip(given, values, strict=True))


def _said(spec: ExperimentSpec, plan: Plan, axis: str, by: str) -> Sequence[Any]:
    value = value_of(plan, axis)
    if axis in _FOLLOWS and value not in getattr(spec, axis):
        return [AUTO]
    if axis == "fabric" and value is None and by == "topology":
        return spec.fabric
    if (
        axis == "per_device_batch_size"
        and value not in getattr(spec, axis)
        and LARGEST_THAT_FITS in getattr(spec, axis)
    ):
        return [LARGEST_THAT_FITS]  # each framework, and each topology, has found its own
    return [value]


def _is_listed(values: Sequence[Any] | None) -> bool:
    return values is not None and (len(values) > 1 or POWERS_OF_TWO in values)
