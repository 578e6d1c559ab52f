"""A quick version of ``python -m bench.told``: a real sender, killed, and a real target that fails at random."""

from pathlib import Path

import pytest

from bench import told


@pytest.mark.after_change
def test_no_alert_is_lost_between_a_sender_that_is_killed_and_a_target_that_fails(tmp_path: Path) -> None:
    found = told.tried(tmp_path, alerts=60, kills=3, seed=1)
    assert (found.lost, found.forged, found.given_up) == (0, 0, 0)
    assert found.tries > 60
