"""``make nightly-demo`` with three nights of jobs that only wait: what it does and prints is real, as on its page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.reports.tables.nightly import LEGEND
from tests.integration.service_rig import ROOT, environment

# 100 MB more than an interpreter has, where one night allows 64 MiB.
SPEC = """\
name: night
model: sleep
framework: sleep
per_device_batch_size: 1
size: tiny
repeats: 1
max_repeats: 1
max_measure_s: 0.3
options: {sample_bytes: 100000000}
"""


@pytest.mark.after_change
def test_three_nights_on_a_fast_clock_end_with_their_board(tmp_path: Path) -> None:
    (tmp_path / "night.yaml").write_text(SPEC)
    command = [sys.executable, str(ROOT / "deploy" / "nightly_demo.py"), "--quick", str(tmp_path / "night.yaml")]
    done = subprocess.run(
        command, env=environment(tmp_path, COLUMNS="300"), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (row,) = [line for line in lines if line.startswith("sleep sleep 1")]
    assert row.split()[3:] == ["G", "-", "F"]
    assert LEGEND in lines
    reasons = "\n".join(lines[lines.index(LEGEND) + 1 :])
    assert re.search(r"^- .* 02:00: missed: no server looked until .*T07:00:\d\dZ, 180\d\d s late", reasons, re.M)
    assert re.search(r"^F .* 02:00  sleep sleep 1: failed: 1 of 1 runs failed: out_of_memory", reasons, re.M)
    assert [line for line in lines if re.match(r"series [0-9a-f]{16}: sleep", line)]  # the history of the only one
    assert len(re.findall(r"^night \d of 3, ", done.stderr, re.M)) == 3


def test_its_page_shows_a_board_of_ten_nights_as_it_is_printed_today() -> None:
    text = (ROOT / "docs" / "read_results" / "nightly.md").read_text(encoding="utf-8")
    (block,) = [part for part in text.split("```") if LEGEND in part]
    marked = [line for line in block.splitlines() if re.fullmatch(r"\S.*(  [G?SF!~-]){10}", line)]
    assert len(marked) == 2
    signs = {sign for line in marked for sign in line.split()[-10:]}
    told = {line[0] for line in block.split(LEGEND)[1].splitlines() if line[1:2] == " "}
    assert signs - {"G"} <= told  # all that is not green has its reason
