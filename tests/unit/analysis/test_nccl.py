"""What NCCL did, from lines as its source prints them, in parts as they come."""

from types import SimpleNamespace
from typing import Any

from orchestrator.analysis.log.nccl import facts_of, note_of

WITHIN = """\
NCCL version 2.27.5+cuda12.8
a:10:26 [0] NCCL INFO Using network Socket
a:10:26 [0] NCCL INFO NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)
a:10:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
a:10:34 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
a:10:34 [0] NCCL INFO 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer
"""
SHARED = "b:7:9 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct\n"
BETWEEN = """\
a:1:2 [0] NCCL INFO Using network IBext_v8
a:1:2 [0] NCCL INFO Channel 00/0 : 7[1] -> 0[0] [receive] via NET/IBext_v8/1/GDRDMA
a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IBext_v8/5(2)
a:1:2 [0] NCCL INFO 2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
"""


def log(*texts: str, process: str = "worker0") -> Any:
    entries = [(None, {"process": process, "stream": "stdout", "text": text}) for text in texts]
    return SimpleNamespace(node="n0", of=lambda kind: entries if kind == "output" else [])


def test_within_a_node_paths_channels_and_version_are_facts() -> None:
    facts = facts_of([log(WITHIN[:150], WITHIN[150:])])  # in the middle of a line
    assert facts == {
        "version": "2.27.5+cuda12.8",
        "networks": ["Socket"],
        "paths": {"P2P": 2},
        "channels": 24,
        "nvls_channels": 16,
    }
    assert note_of(facts) == ("NCCL 2.27.5+cuda12.8, 24 channels, 2 connections by P2P, 16 channels of NVLink SHARP")


def test_shared_memory_that_stood_in_is_noted_with_the_causes() -> None:
    told = note_of(facts_of([log(WITHIN), log(SHARED, process="worker1")]))
    assert told is not None
    assert "2 connections by P2P, 1 connections by SHM" in told
    assert "shared memory of the host stood in" in told


def test_between_nodes_the_network_and_gpudirect_are_told() -> None:
    told = note_of(facts_of([log(BETWEEN)]))
    assert told == (
        "NCCL of an unknown version, 2 channels, 2 connections by NET, network IBext_v8, GPUDirect on 50% of it"
    )


def test_what_is_not_nccls_tells_nothing() -> None:
    assert facts_of([log("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n", "loss 0.3\n")]) == {}
    assert note_of({}) is None
