"""Which logical cores and which memory are near what, on a host with several NUMA nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Collection, Mapping, Sequence

_NODES = Path("/sys/devices/system/node")


def near_cores(affinities: Mapping[str, Collection[int] | None], ordered: Sequence[int]) -> dict[str, list[int]]:
    """Divide cores among GPUs: each gets as many as the others of its NUMA node, of that node's.

    Args:
        affinities: GPU -> the logical cores near it, as the driver says; None where it does not.
        ordered: the cores to be divided, those of one physical core beside each other.

    Returns:
        GPU -> its cores, sorted. Where the driver does not say of all of them which are near, or its sets overlap, the
        cores are divided evenly. Where there are fewer cores than GPUs some get none.
    """
    usable = set(ordered)
    near = {gpu: frozenset(usable & set(cores or ())) for gpu, cores in affinities.items()}
    groups = set(near.values())
    overlap = sum(len(group) for group in groups) > len(frozenset().union(*groups))
    if overlap or frozenset() in groups:
        near = dict.fromkeys(near, frozenset(usable))
    found = {}
    for group in set(near.values()):
        cores = [core for core in ordered if core in group]
        gpus = [gpu for gpu, own in near.items() if own == group]
        size = len(cores) // len(gpus)
        for index, gpu in enumerate(gpus):
            found[gpu] = sorted(cores[index * size : (index + 1) * size])
    return found


def memory_nodes(cores: Collection[int], root: Path = _NODES) -> list[int]:
    """Return the NUMA nodes whose memory is near ``cores``; none where the host has one node, or does not tell."""
    nodes = {}
    for folder in root.glob("node[0-9]*"):
        try:
            nodes[int(folder.name[4:])] = parsed((folder / "cpulist").read_text())
        except OSError:
            return []
    if len(nodes) < 2:
        return []
    return sorted(number for number, own in nodes.items() if own & set(cores))


def beside(cores: Collection[int], usable: Sequence[int], root: Path = _NODES) -> list[int]:
    """Return those of ``usable`` that are of the NUMA nodes of ``cores``: all of them where there are no ``cores``, or
    the host has one node."""
    near: set[int] = set()
    for number in memory_nodes(cores, root) if cores else ():
        near |= parsed((root / f"node{number}" / "cpulist").read_text())
    return [core for core in usable if core in near] or list(usable)


def parsed(text: str) -> set[int]:
    """Return a set of numbers as the kernel writes it: ``0-3,8``."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return found
