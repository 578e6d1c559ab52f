"""The units of systemd and their settings: read by systemd itself, and by all that read the same file."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.unit_keeper import environment_of

RAY = Path(__file__).resolve().parents[3] / "deploy" / "ray"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not there")
def test_systemd_takes_every_line_of_the_units(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python", "tbd"):
        (programs / name).symlink_to(sys.executable)
    for unit in RAY.glob("*.service"):
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/tbd/bin", str(programs)))
    units = sorted(map(str, tmp_path.glob("*.service")))
    assert len(units) == 3
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")  # what it does not know it only mentions


def test_a_shell_reads_the_settings_as_systemd_does() -> None:
    file = RAY / "tbd.env"
    script = f'set -e -a; . "{file}"; exec "$0" -c "import json, os; print(json.dumps(dict(os.environ)))"'
    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, text=True, check=True, env={})
    expected = environment_of(file.read_text())
    assert len(expected) > 20
    assert {name: json.loads(done.stdout)[name] for name in expected} == expected
    assert " --" in expected["RAY_START_OPTIONS"]
