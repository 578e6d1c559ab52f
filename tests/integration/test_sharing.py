"""Runs that share a node by their plan: at once, on devices of their own; what wants a whole node waits for it."""

from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.service_rig import environment
from tests.support.service import Service, until

pytestmark = pytest.mark.skipif(psutil.cpu_count() < 2, reason="two devices need two cores")

SPEC: dict[str, Any] = {
    "name": "shared",
    "model": "alexnet",
    "framework": "pytorch",
    "size": "tiny",
    "per_device_batch_size": 2,
    "seed": [1, 2],
    "exclusive": "device",
    "repeats": 1,
    "max_repeats": 1,
    "min_measure_s": 6,
    "max_measure_s": 10,
}


def _span(run: dict[str, Any]) -> tuple[datetime, datetime]:
    began, ended = (datetime.fromisoformat(run[name]) for name in ("started_at", "ended_at"))
    return began, ended


@pytest.mark.after_change
def test_two_trainings_share_a_node_and_one_that_wants_it_whole_waits_for_both(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", **environment(tmp_path, TBD_CPU_DEVICES="2")).start()
    try:
        shared = service.submit(SPEC)
        until(lambda: all(run["state"] == "running" for run in service.runs(shared)), 60)
        # Only the two that share have to last: until these are there, and beside each other.
        short = {**SPEC, "min_measure_s": 0.5, "max_measure_s": 1}
        whole = service.submit({**short, "name": "whole", "seed": 3, "exclusive": "node"})
        later = service.submit({**short, "name": "later", "seed": 4})
        told = until(lambda: service.runs(whole)[0]["reason"])
        assert told == "waits for 1 of 1 nodes to become free"
        runs = {name: service.wait(one, 120) for name, one in (("shared", shared), ("whole", whole), ("later", later))}
        ends = [(run["state"], run["reason"]) for found in runs.values() for run in found]
        assert [state for state, _ in ends] == ["completed"] * 4, ends

        devices = [run["attempts"][-1]["placement"][0]["devices"] for run in runs["shared"]]
        assert len({device["id"] for held in devices for device in held}) == 2
        (one_begins, one_ends), (other_begins, other_ends) = map(_span, runs["shared"])
        assert max(one_begins, other_begins) < min(one_ends, other_ends)
        (whole_begins, whole_ends), (later_begins, _) = _span(runs["whole"][0]), _span(runs["later"][0])
        assert whole_begins >= max(one_ends, other_ends), "it has its node for itself"
        assert later_begins >= whole_ends, "nobody joined those it waited for"

        for run in runs["shared"]:
            (note,) = [note for note in run["validity"]["notes"] if note.startswith("exclusive: device: ")]
            assert float(note.split("tbd used ")[1].split()[0]) > 0, note
        keys = {name: found[0]["fingerprint"]["workload_key"] for name, found in runs.items()}
        assert len(set(keys.values())) == 3  # of other seeds and other neighbourhoods
        assert runs["whole"][0]["fingerprint"]["workload"].get("exclusive") is None
        assert runs["shared"][0]["fingerprint"]["workload"]["exclusive"] == "device"
    finally:
        assert service.stop() == 0
