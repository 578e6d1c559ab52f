"""What the server answers is what OpenAPI says, whatever is asked: schemathesis, the same cases each time."""

import re
from pathlib import Path

import pytest

from tests.support.openapi_fuzz import filled_server, fuzz


@pytest.mark.timeout(1800)
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with filled_server(tmp_path) as url:
        found = fuzz(url, tmp_path, ["--generation-deterministic", "--max-examples", "3", "--no-shrink"])
    assert found.returncode == 0, found.stdout + found.stderr
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert re.search(f"✅ +{phase} ", found.stdout), found.stdout
    selected, of = re.search(r"Selected: (\d+)/(\d+)", found.stdout).groups()  # type: ignore[union-attr]
    assert selected == of
    assert re.search(rf"Tested: {of}\n", found.stdout)
