"""The rank that the others wait for: by what each rank itself computes, for its step takes as long as theirs."""

import math
from collections.abc import Container
from dataclasses import dataclass
from statistics import fmean

from scipy import special

from orchestrator.analysis.s_sgd.explain.block_terms import Estimate, Term, error, estimate
from orchestrator.analysis.s_sgd.explain.rank_steps import Block, RunSteps, Side, all_tell, compute, of_run

# Of level gangs one in a hundred is accused, whatever the number of ranks (Bonferroni).
FALSE_ACCUSATIONS = 0.01


@dataclass(frozen=True)
class Straggler:
    """The rank that computes longest, and how much longer than the mean over ranks. ``named``: beyond noise."""

    rank: int
    cost: Estimate
    named: bool


def straggler_of(many: Side, stage: Container[Block] | None = None) -> Straggler | None:
    """Return the rank that computes longest; None where runs differ in which ranks told what they compute, or fewer
    than two did.

    It is named where it computes longer than the mean by a one-sided t test over blocks, at ``FALSE_ACCUSATIONS`` over
    the number of ranks, since the slowest of them was chosen. Of one run no rank is.
    """
    ranks = {tuple(sorted(rank.rank for rank in run.ranks)) for run in many.values()}
    if len(ranks) != 1 or not all_tell(many, compute):
        return None
    (known,) = ranks
    if len(known) < 2:
        return None
    found = {rank: {block: excess(run, rank) for block, run in many.items()} for rank in known}
    rank = max(found, key=lambda one: fmean(found[one].values()))
    spread = error(found[rank], stage)
    named = False
    if spread is not None:
        quantile = float(special.stdtrit(spread[1], 1 - FALSE_ACCUSATIONS / len(known)))
        named = fmean(found[rank].values()) > quantile * math.sqrt(spread[0])
    return Straggler(rank, estimate(Term("straggler", found[rank]), False, stage), named)


def excess(run: RunSteps, rank: int) -> float:
    """Return how much longer a rank computes than the mean over ranks, in seconds."""
    return of_run(run, compute, rank) - of_run(run, compute)
