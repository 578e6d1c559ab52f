"""What NCCL did, from the lines that it prints as it starts (NCCL_DEBUG=INFO, subsystem INIT).

Sources of the lines: NCCL's src/init.cc ("Using network", "coll channels"), and p2p.cc, shm.cc and net.cc in its
src/transport ("Channel … via …"). What it does not print is absent.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.analysis.log.events import NodeLog

_VERSION = re.compile(r"NCCL version ([0-9][\w.+-]*)")
_NETWORK = re.compile(r"NCCL INFO Using network (\S[^\n]{0,40}?)\s*$", re.M)
_CHANNEL = re.compile(
    r"NCCL INFO Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\](?: \[\w+\])? via (\w+)(/[^\n]{0,60})?"
)
_COUNTS = re.compile(r"NCCL INFO (\d+) coll channels(?:, \d+ collnet channels)?(?:, (\d+) nvls channels)?")
_GPU_DIRECT = "/GDRDMA"


def facts_of(logs: Sequence[NodeLog]) -> dict[str, Any]:
    """Return what NCCL did in an attempt; nothing where none of its lines are there.

    ``version``; ``networks`` (names, sorted); ``paths``: kind (P2P, SHM, NET) -> how many directed connections of all
    channels and ranks; ``gpu_direct``: the share of those over the network whose memory is the GPU's; ``channels`` and
    ``nvls_channels``: the most of a communicator.
    """
    paths: Counter[str] = Counter()
    found: dict[str, Any] = {}
    networks: set[str] = set()
    direct = 0
    for text in _texts(logs):
        if "NCCL" not in text:
            continue
        if version := _VERSION.search(text):
            found["version"] = version.group(1)
        networks |= {match.group(1) for match in _NETWORK.finditer(text)}
        for match in _CHANNEL.finditer(text):
            paths[match.group(1)] += 1
            direct += _GPU_DIRECT in (match.group(2) or "")
        for match in _COUNTS.finditer(text):
            found["channels"] = max(found.get("channels", 0), int(match.group(1)))
            found["nvls_channels"] = max(found.get("nvls_channels", 0), int(match.group(2) or 0))
    if networks:
        found["networks"] = sorted(networks)
    if paths:
        found["paths"] = dict(sorted(paths.items()))
    if paths["NET"]:
        found["gpu_direct_ratio"] = direct / paths["NET"]
    return found


def note_of(facts: Mapping[str, Any]) -> str | None:
    """What a person wants to know of it; None where there is nothing."""
    if not facts:
        return None
    paths = facts.get("paths") or {}
    told = [f"NCCL {facts.get('version', 'of an unknown version')}"]
    if "channels" in facts:
        told.append(f"{facts['channels']} channels")
    told += [f"{count} connections by {kind}" for kind, count in paths.items()]
    if facts.get("nvls_channels"):
        told.append(f"{facts['nvls_channels']} channels of NVLink SHARP")
    if facts.get("networks") and paths.get("NET"):
        told.append(f"network {' and '.join(facts['networks'])}")
        told.append(f"GPUDirect on {facts['gpu_direct_ratio']:.0%} of it")
    text = ", ".join(told)
    if paths.get("SHM"):
        text += (
            ": shared memory of the host stood in for what goes from GPU to GPU directly, some times slower (ACS, a "
            "container without --ipc=host, MIG, or GPUs that cannot: tbd doctor)"
        )
    return text


def _texts(logs: Sequence[NodeLog]) -> Iterator[str]:
    """What each process printed on each stream, put together: a line may come in two parts."""
    parts: dict[tuple[str, str, str], list[str]] = {}
    for log in logs:
        for _, data in log.of("output"):
            parts.setdefault((log.node, str(data["process"]), str(data["stream"])), []).append(str(data["text"]))
    for texts in parts.values():
        yield "".join(texts)
