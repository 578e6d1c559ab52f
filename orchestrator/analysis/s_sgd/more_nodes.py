"""From the times of an exchange among some nodes to those among others, by what an algorithm sends over the links.

Latencies and bandwidths of the link are fitted; the formulas are those of Thakur, Rabenseifner & Gropp, "Optimization
of Collective Communication Operations in MPICH" (2005), without the time of adding up.
"""

import math
from dataclasses import replace

from orchestrator.analysis.s_sgd.communication import Communication, Segment
from orchestrator.analysis.s_sgd.labels import Algorithm

MOST_NODES = 100_000  # a judgement: more than any training had
MOST_BYTES = 2**40  # a judgement: more than any gradient has


def counts(algorithm: Algorithm, nodes: int) -> tuple[float, float]:
    """Return (messages one after the other, bytes of each gradient byte that pass the busiest link).

    ``TREE``: a reduction and a broadcast along binomial trees, in whole messages. ``SERVER``: a number of servers that
    stays as it is; all nodes push to them and pull from them. ``SERVERS``: one on each node, with its share of the
    gradients; what it sends to itself passes no link.

    Raises:
        ValueError: fewer than 2 nodes, or more than ``MOST_NODES``.
    """
    if not 2 <= nodes <= MOST_NODES:
        raise ValueError(f"{nodes} nodes: they are 2 to {MOST_NODES}")
    steps = math.ceil(math.log2(nodes))
    match algorithm:
        case Algorithm.RING:
            return 2 * (nodes - 1), 2 * (nodes - 1) / nodes
        case Algorithm.HALVING_DOUBLING:
            return 2 * steps, 2 * (nodes - 1) / nodes
        case Algorithm.TREE:
            return 2 * steps, 2 * steps
        case Algorithm.SERVER:
            return 2, 2 * nodes
        case Algorithm.SERVERS:
            return 2, 2 * (nodes - 1) / nodes


def on_other_nodes(function: Communication, algorithm: Algorithm, nodes: int, to: int) -> Communication:
    """Return ``function``, which was measured on ``nodes``, as it would be on ``to`` of them with the same links.

    A segment's latency grows with the messages, its time per byte with the bytes. Where the library changes its
    algorithm is left where it was.
    """
    (messages, load), (messages_to, load_to) = counts(algorithm, nodes), counts(algorithm, to)
    segments = tuple(
        Segment(
            one.from_bytes,
            one.to_bytes,
            one.latency_s * messages_to / messages,
            one.bytes_per_s / (load_to / load) if one.bytes_per_s else None,
        )
        for one in function.segments
    )
    return Communication(segments, function.beside)


def over_link(latency_s: float, bytes_per_s: float, algorithm: Algorithm, nodes: int, parts: int = 1) -> Communication:
    """Return how long ``algorithm`` takes on ``nodes`` of which each sends ``bytes_per_s`` and each message takes
    ``latency_s`` besides: a fabric that nobody has measured. Or one of its equal ``parts``: a push, or a pull.

    Raises:
        ValueError: as of ``counts``.
    """
    messages, load = counts(algorithm, nodes)
    whole = Segment(1, MOST_BYTES, messages / parts * latency_s, bytes_per_s / (load / parts))
    return Communication((whole,))


def quicker(function: Communication, times: float) -> Communication:
    """Return ``function`` over links of ``times`` the bandwidth and the same latency."""
    segments = tuple(
        replace(one, bytes_per_s=one.bytes_per_s * times if one.bytes_per_s else None) for one in function.segments
    )
    return replace(function, segments=segments)
