"""What is said of a process that failed, apart from any attempt."""

from pathlib import Path

import pytest

from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe import parity
from workers.node import single_phase


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        ("kill -9 $$", "as the kernel does when memory runs out: with a smaller batch or size it takes less"),
        ("echo first >&2; echo no room >&2; exit 3", "it ended with status 3 no room"),
        ("exec sleep 60", "it was not done after 1 s"),
    ],
)
def test_how_a_process_has_ended_is_told(deed: str, told: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{deed}\n")
    python.chmod(0o700)
    facts = load_catalog().models["resnet-50"]
    job = parity.job(facts, "pytorch", parity.size_of(facts, "tiny", {}), 2, 1, [0])
    job["interpreter"] |= {"python": str(python)}
    with pytest.raises(single_phase.PhaseError, match=told):
        single_phase.carry_out(job, "parity", tmp_path, timeout_s=1.0)
