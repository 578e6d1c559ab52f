"""Many tries of one series, of which the good ones are kept: how often chance may keep one.

Who tries a hundred edits that change nothing, and keeps what is "faster, at 5 %", keeps some five. Here each try has a
level of its own, which is fixed before it is measured, and the levels of all tries add up to 5 %, however many there
will be: alpha-spending, in the words of Tian & Ramdas 2021, "Online control of the familywise error rate" (Statistical
Methods in Medical Research 30:976), section 2. So the probability that any edit is kept which is not faster is 5 % or
less: by Bonferroni's inequality, and whatever a try has to do with those before it.

Only faster edits are kept, so that each test is one-sided: Student's t of the differences within blocks, of logarithms.
"""

from dataclasses import dataclass

from scipy import special

from orchestrator.analysis.statistics.blocks import FAMILY_ERROR, detectable

# Judgement: slower than 1 / i^2, so that late tries can still see something; above 1, so that the sum is finite.
DECAY = 1.6


@dataclass(frozen=True)
class Judged:
    """``kept``: whether the edit is faster at the level of its try; ``p``: one-sided; ``detectable_ratio``: the
    smallest gain (0.02: 2 %) that these runs find with 80 % probability at that level."""

    kept: bool
    p: float
    detectable_ratio: float


def level(number: int) -> float:
    """Return the level of try ``number``, from 1 on. All of them add up to ``FAMILY_ERROR``."""
    return FAMILY_ERROR * float(number) ** -DECAY / float(special.zeta(DECAY))


def judge(difference: float, error: float, degrees: float, number: int) -> Judged:
    """Judge the edit of try ``number``.

    Args:
        difference: mean difference of logarithms of rates, edited - before.
        error: its standard error, with ``degrees`` of freedom.
    """
    own = level(number)
    if error == 0.0:
        return Judged(difference > 0, 0.0 if difference > 0 else 1.0, 0.0)
    p = float(special.stdtr(degrees, -difference / error))
    smallest = detectable(error, degrees, 2 * own)  # of one side
    return Judged(p <= own, p, float(special.expm1(smallest)))
