"""Words that a person chooses from: what times were measured beside, how gradients are merged and summed."""

from enum import StrEnum


class Beside(StrEnum):
    """What went on while times were measured: a library alone is quicker than beside a training."""

    UNSTATED = "unstated"
    IDLE = "idle"
    BUSY_CORES = "busy-cores"
    BACKWARD_PASS = "backward-pass"
    TRAINING = "training"


class Merger(StrEnum):
    """By whose rule gradients are merged (``buckets``)."""

    DDP = "ddp"
    HOROVOD = "horovod"


class Algorithm(StrEnum):
    """How gradients are summed over nodes (``more_nodes.counts``).

    Gloo's default, NCCL's rings and Open MPI above 10,000 bytes are ``RING``. MXNet's stores have a server on each
    node, ``SERVERS``; what adds up the devices of a process in one place is a ``SERVER``.
    """

    RING = "ring"
    HALVING_DOUBLING = "halving-doubling"
    TREE = "tree"
    SERVER = "server"
    SERVERS = "servers"
