"""How far another node's clock is ahead, from the answers to pings."""

from typing import Dict, Sequence, Tuple


def clock_of(answers: Sequence[Tuple[float, float, float]]) -> Dict[str, float]:
    """Return what pings say of another clock: ``{"offset_s", "uncertainty_s", "at_t"}``.

    ``answers`` are triples (sent, clock of the peer, received), sent and received on the own clock. The peer looked at
    its clock between the two; taking the middle, half the round trip is the largest possible error, so the quickest
    answer counts (F. Cristian, Probabilistic clock synchronization, 1989). ``at_t`` is that middle.
    """
    sent, there, received = min(answers, key=lambda answer: answer[2] - answer[0])
    middle = (sent + received) / 2
    return {"offset_s": there - middle, "uncertainty_s": (received - sent) / 2, "at_t": middle}
