"""What a network in MXNet computes beside its layers: functions between them, and losses."""

from typing import Any


def single(F: Any, x: Any) -> Any:
    """Return ``x`` in single precision: for sums, and for what is between layers."""
    return F.cast(x, dtype="float32")


def side_by_side(F: Any, *vectors: Any) -> Any:
    """Return vectors of each sample as one, in the widest of their types: in mixed precision MXNet casts what is added,
    and not what is joined."""
    return F.concat(*F.amp_multicast(*vectors, num_outputs=len(vectors)), dim=1)


def weighted_cross_entropy(F: Any, logits_NTK: Any, labels_NT: Any, shares_NT: Any, smoothing: float = 0.0) -> Any:
    """Return the sum of the cross entropies, each with its share.

    ``smoothing``: the part of the labels' probability that is spread over all K.
    """
    logarithms_NTK = F.log_softmax(logits_NTK, axis=-1)
    found_NT = F.pick(logarithms_NTK, labels_NT, axis=-1)
    if smoothing:
        found_NT = (1.0 - smoothing) * found_NT + smoothing * F.mean(logarithms_NTK, axis=-1)
    return F.negative(F.sum(found_NT * shares_NT))
