"""Why several devices take longer for an iteration than one: a waterfall whose parts add up to what was measured.

The decomposition is that of t_iter = max(t_io + t_h2d, t_f + t_b + exposed + t_u) of Shi, Wang & Chu (2018), with what
their model leaves out beside it: that the exchange takes cores from those who compute, and ranks that are slower than
others. Each part is made block by block from the runs of a block and then averaged, so that parts add up exactly.

one device        its iteration
input, copy       how much longer the ranks wait for batches and for copies than one device does: mean over ranks
cores taken       how much longer they compute: mean over ranks
exposed exchange  in which the exchange goes on and nothing is computed, less what one device exchanges with itself (DDP
                  does). Where no trainer tells that, all in which nothing is computed beyond what is so on one
                  device: then the residual is 0 by construction
straggler         how much longer one rank computes than the mean over ranks, where one is slower beyond noise. The
                  others wait for it, so the exposed exchange is then that rank's own, which waits for nobody
residual          the rest
"""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from statistics import fmean

from orchestrator.analysis.s_sgd.explain.block_terms import Estimate, Term, estimate
from orchestrator.analysis.s_sgd.explain.rank_steps import (
    Block,
    Side,
    all_tell,
    compute,
    each,
    exposed,
    idle,
    load,
    step,
)
from orchestrator.analysis.s_sgd.explain.stragglers import Straggler, excess, straggler_of

ROUNDED_OFF = 1e-12
# Judgement: what costs less of an iteration is no bottleneck.
LEAST_SHARE = 0.02

ONE_DEVICE, COMPUTING, INPUT_COPY, CORES_TAKEN = "one device", "computing", "input, copy", "cores taken"
EXPOSED, STRAGGLER, RESIDUAL = "exposed exchange", "straggler", "residual"
# What may be the bottleneck, in words.
COSTS = {
    INPUT_COPY: "input and copy",
    CORES_TAKEN: "the cores that the exchange takes from computing",
    EXPOSED: "the exchange",
    STRAGGLER: "the straggler",
}
FROM_WAITS = "all in which nothing is computed; no residual is told apart from it"


@dataclass(frozen=True)
class Part:
    """A part of the iteration; ``estimate`` is None where nothing tells it: it is then in the residual."""

    name: str
    estimate: Estimate | None
    note: str | None = None


@dataclass(frozen=True)
class Waterfall:
    """``parts`` add up to ``iteration``, the mean over ``blocks`` blocks. ``paired``: with one device in the same ones.
    ``straggler``: see ``straggler_of``; it is a part where it is named."""

    iteration: Estimate
    parts: tuple[Part, ...]
    straggler: Straggler | None
    bottleneck: str
    blocks: int
    paired: bool


def waterfall(many: Side, one: Side | None, paired: bool = True, stage: Container[Block] | None = None) -> Waterfall:
    """Return the waterfall of a cell of several devices.

    Args:
        many: block -> a run of the cell, one or more.
        one: the same of its counterpart of one device; None: there is none, and what the ranks compute takes the place
            of "one device" and "cores taken".
        paired: whether blocks of the same name are the same: both are of one experiment.
        stage: as of ``blocks.compare_groups``: the blocks whose noise chose how many there are.

    Raises:
        ValueError: a side has no runs.
    """
    if not many or (one is not None and not one):
        raise ValueError("a waterfall takes a run of each side")
    common = [block for block in many if one is not None and block in one] if paired else []
    if common and one is not None:
        many, one = {block: many[block] for block in common}, {block: one[block] for block in common}
    found = straggler_of(many, stage)
    terms = [*_working(many, one), *_waiting(many, one, found)]
    terms.append(_rest(many, one, [term for term in terms if term.told]))
    parts = [Part(term.name, estimate(term, bool(common), stage) if term.told else None, term.note) for term in terms]
    iteration = estimate(Term("iteration", each(many, step)), False, stage)
    return Waterfall(iteration, tuple(parts), found, _bottleneck(parts, iteration), len(many), bool(common))


def _is_computing_told(many: Side, one: Side | None) -> bool:
    return all_tell(many, compute) and (one is None or all_tell(one, compute))


def _working(many: Side, one: Side | None) -> list[Term]:
    """What is not waiting for other ranks."""
    told = _is_computing_told(many, one)
    own = each(many, compute)
    if one is None:
        return [Term(COMPUTING, own, told=told), Term(INPUT_COPY, each(many, load))]
    return [
        Term(ONE_DEVICE, dict.fromkeys(many, 0.0), {block: -run.step_s for block, run in one.items()}),
        Term(INPUT_COPY, each(many, load), each(one, load)),
        Term(CORES_TAKEN, own, each(one, compute), told),
    ]


def _waiting(many: Side, one: Side | None, found: Straggler | None) -> list[Term]:
    """The exchange, and who is waited for in it."""
    if not _is_computing_told(many, one):
        return [Term(EXPOSED, {}, told=False), Term(STRAGGLER, {}, told=False)]
    slow = found.rank if found and found.named else None
    cost = {block: 0.0 if slow is None else excess(run, slow) for block, run in many.items()}
    straggler = Term(STRAGGLER, cost, told=found is not None)
    if all_tell(many, exposed):
        own = each(one, exposed) if one and all_tell(one, exposed) else None
        return [Term(EXPOSED, each(many, exposed, slow), own, note=_sent(many, slow)), straggler]
    return [Term(EXPOSED, each(many, idle, slow), each(one, idle) if one else None, note=FROM_WAITS), straggler]


def _rest(many: Side, one: Side | None, terms: Sequence[Term]) -> Term:
    """The iteration less all that is told."""
    own = {block: _left([run.step_s, *(-term.own[block] for term in terms)]) for block, run in many.items()}
    others = [term.other for term in terms if term.other]
    other = {block: _left([-values[block] for values in others]) for block in one} if one else None
    return Term(RESIDUAL, own, other)


def _left(values: Sequence[float]) -> float:
    """Their sum; 0 where only what floats round off is left."""
    found = math.fsum(values)
    return found if abs(found) > ROUNDED_OFF * max(map(abs, values)) else 0.0


def _sent(many: Side, slow: int | None) -> str | None:
    """What is exchanged in a step, and how much of that is hidden."""
    ranks = [rank for run in many.values() for rank in run.ranks if slow in (None, rank.rank)]
    sent, words = ranks[0].sent, []
    if sent:
        words.append(f"{len(sent)} {'exchange' if len(sent) == 1 else 'exchanges'}, {sum(sent) / 1e6:.3g} MB")
    took = [rank.exchange_s for rank in ranks if rank.exchange_s is not None]
    if len(took) == len(ranks):
        hidden_s = fmean(took) - fmean(rank.exposed_s or 0.0 for rank in ranks)
        words.append(f"hidden {max(0.0, hidden_s) * 1e3:.3g} ms")
    return "; ".join(words) or None


def _bottleneck(parts: Sequence[Part], iteration: Estimate) -> str:
    """What costs most beyond one device, in words."""
    costs = {part.name: part.estimate for part in parts if part.name in COSTS and part.estimate}
    if EXPOSED not in costs:
        return "not told apart: see what is missing"
    name = max(costs, key=lambda one: costs[one].seconds)
    share, low = costs[name].seconds / iteration.seconds, costs[name].ci_low
    if share < LEAST_SHARE:
        return f"none: no part costs {LEAST_SHARE:.0%} of the iteration"
    beyond = "" if low is not None and low > 0 else ", as far as these runs tell"
    return f"{COSTS[name]}: {share:.0%} of the iteration{beyond}"
