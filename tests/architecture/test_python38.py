"""Node agents and the checks that need a GPU run on hosts whose Python may be as old as 3.8."""

import subprocess
from pathlib import Path

import pytest

from workers.node import pythons

ROOT = Path(__file__).resolve().parent.parent.parent
OLDEST = pythons.find("3.8")
# They need what only an environment of their own has.
ELSEWHERE = (
    "__main__",
    "one_product",
    "stand_in",
    "nvml_dump",
    "public",
    "bare_loop",
    "raw_trace",
    "parsed",
    "parsed_xplane",
)


@pytest.mark.skipif(OLDEST is None, reason="no Python 3.8 on this machine")
def test_every_module_of_the_agent_and_of_the_gpu_checks_can_be_imported_by_python_3_8():
    checks = sorted((ROOT / "tests" / "gpu").glob("*.py"))  # the laboratory in there is for the tests of this project
    files = [*sorted((ROOT / "workers" / "node").rglob("*.py")), *checks]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if file.stem not in ELSEWHERE]
    assert "workers.node.telemetry.nvml" in names
    script = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
    result = subprocess.run([OLDEST, "-c", script, *names], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
