"""How well a network plays: the mean score of whole games, each played to its end by the policy.

Actions are drawn by the policy, as in training, and rewards are the game's own. Source: Mnih et al., "Asynchronous
Methods for Deep Reinforcement Learning", 2016, section 5, whose scores are means of whole games.
"""

from typing import Any, Callable, Dict, Mapping, Sequence

from suites.quality import Examples


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {"games", "score"}: the score of all games together; ``examples.references`` plays them
    (``suites.inputs.games.Match``)."""
    match = examples.references  # type: Any
    scores = match.scores(outputs, compute)
    return {"games": float(len(scores)), "score": float(sum(scores))}


def value(sums: Mapping[str, float]) -> float:
    return sums["score"] / sums["games"]
