"""The names of operators in TensorFlow's graph: which part of the step and which layer of the model each belongs to.

A model calls each layer under a name scope of its own, the adapter the exchange and the update; gradients of what a
scope holds are put under ``gradient_tape/<scope>`` by TensorFlow. Optimisations of the graph keep these names.
"""

import re

EXCHANGE = "tbd.exchange"
BACKWARD = "tbd.backward"
UPDATE = "tbd.update"
# Around what the network does to make a batch: it acts.
ACTING = "tbd.acting"
# With the name of an update: around all of it, where a step has several.
OF = "tbd.of."
# The mark in a trace for the time in which the process waits for its batches.
INPUT = "input"
# What the network does outside of its layers.
NETWORK = "(network)"

_GRADIENTS = "gradient_tape/"

# What stands before the scopes: of replicas after the first one, of the adapter's own parts, of gradients.
_PREFIX = re.compile(
    r"^(replica_\d+|gradient_tape|tbd\.of\.[^/]*|tbd\.backward(_\d+)?|StatefulPartitionedCall(_\d+)?)/"
)

_OF = re.compile(r"tbd\.of\.[^/]*/")

# What is sent to another device is recorded as "<operator>/_<number>".
_SENT = re.compile(r"/_\d+$")

_REPLICA = re.compile(r"(^|/)replica_[1-9]\d*/")


def part_of(name: str) -> str:
    """Return "forward", "backward", "exchange", "update" or "input", by the name of an operator."""
    for scope, part in ((ACTING, "input"), (UPDATE, "update"), (EXCHANGE, "exchange"), (_GRADIENTS, "backward")):
        if scope in name:
            return part
    return "backward" if BACKWARD in name else "forward"


def layer_of(name: str) -> str:
    """Return the name of the layer of an operator of the forward or backward pass: its outermost scope."""
    name = operator_of(name)
    while _PREFIX.match(name):
        name = _PREFIX.sub("", name, count=1)
    layer, scoped, _ = name.partition("/")
    return layer if scoped else NETWORK


def operator_of(name: str) -> str:
    """Return the name in the graph of an operator that was recorded under ``name``."""
    return _SENT.sub("", name)


def without_update(name: str) -> str:
    """Return a name as it would be if its update were the only one."""
    return _OF.sub("", name)


def of_first_replica(name: str) -> bool:
    """Return whether an operator is the first rank's of its process."""
    return not _REPLICA.search(name)
