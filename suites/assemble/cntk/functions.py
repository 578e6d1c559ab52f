"""What a network in CNTK computes beside its layers: losses."""

from typing import Any

import cntk

# A variable or an operation of CNTK's graph.
Node = Any


def cross_entropy(logits_K: Node, label: Node) -> Node:
    """Return the cross entropy of each sample."""
    return cntk.cross_entropy_with_softmax(logits_K, cntk.one_hot(label, logits_K.shape[0]))
