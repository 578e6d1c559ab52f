"""By which parts of an iteration two cells differ, as the paper sets frameworks side by side."""

import math
from collections.abc import Container
from dataclasses import dataclass
from statistics import fmean

from orchestrator.analysis.s_sgd.explain.block_terms import Estimate, Term, estimate
from orchestrator.analysis.s_sgd.explain.rank_steps import (
    Block,
    RankStep,
    RunSteps,
    Side,
    Told,
    all_tell,
    each,
    exposed,
    step,
)


def _pass(number: int) -> Told:
    def told(run: RunSteps, rank: RankStep) -> float | None:
        return None if rank.passes is None else rank.passes[number]

    return told


# A part of a step -> what it is of a rank.
PARTS: dict[str, Told] = {
    "input": lambda run, rank: rank.input_s,
    "copy": lambda run, rank: rank.copy_s,
    "forward": _pass(0),
    "backward": _pass(1),
    "exposed exchange": exposed,
    "update": _pass(2),
}
REST, WHOLE = "rest", "iteration"


@dataclass(frozen=True)
class Difference:
    """A part of the iteration of two cells, in seconds, means over blocks and ranks, and the second less the first.
    None where one of them does not tell it; it is then in the rest."""

    name: str
    first_s: float | None
    second_s: float | None
    difference: Estimate | None


def differences(
    first: Side, second: Side, paired: bool = True, stage: Container[Block] | None = None
) -> tuple[Difference, ...]:
    """Return the parts, then the rest, then the iteration, which they add up to. Arguments as of ``waterfall``.

    Raises:
        ValueError: a side has no runs.
    """
    if not first or not second:
        raise ValueError("a difference takes a run of each side")
    common = [block for block in first if block in second] if paired else []
    if common:
        first, second = {block: first[block] for block in common}, {block: second[block] for block in common}
    terms = []
    for name, told in PARTS.items():
        if all_tell(first, told) and all_tell(second, told):
            terms.append(Term(name, each(second, told), each(first, told)))
        else:
            terms.append(Term(name, {}, {}, told=False))
    known = [term for term in terms if term.told]
    steps, others = each(second, step), each(first, step)
    rest = {block: value - math.fsum(term.own[block] for term in known) for block, value in steps.items()}
    of_first = [term.other for term in known if term.other]
    rest_of_first = {block: value - math.fsum(part[block] for part in of_first) for block, value in others.items()}
    terms += [Term(REST, rest, rest_of_first), Term(WHOLE, steps, others)]
    return tuple(_difference(term, bool(common), stage) for term in terms)


def _difference(term: Term, paired: bool, stage: Container[Block] | None) -> Difference:
    if not term.told or not term.other:
        return Difference(term.name, None, None, None)
    means = fmean(term.other.values()), fmean(term.own.values())
    return Difference(term.name, *means, estimate(term, paired, stage))
