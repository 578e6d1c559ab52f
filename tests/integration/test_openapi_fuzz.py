"""What the server answers is what OpenAPI says, whatever is asked: schemathesis, the same cases each time."""

import re
from pathlib import Path

import pytest

from orchestrator.api.door.access import NEEDED
from orchestrator.domain.around.access import Scope
from tests.support.openapi_fuzz import filled_server, fuzz

TOKENS = [one for one in NEEDED if one[1] == "/tokens"]  # left out without tokens: see ``fuzz``


# A minute and more of a core: only the control plane, and what it reads and imports, can break it.
@pytest.mark.after_change
@pytest.mark.timeout(1800)
def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with filled_server(tmp_path) as served:
        found = fuzz(served, tmp_path, ["--generation-deterministic", "--max-examples", "3", "--no-shrink"])
    assert found.returncode == 0, found.stdout + found.stderr
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert re.search(f"✅ +{phase} ", found.stdout), found.stdout
    selected, of = re.search(r"Selected: (\d+)/(\d+)", found.stdout).groups()  # type: ignore[union-attr]
    assert int(of) - int(selected) == len(TOKENS)
    assert re.search(rf"Tested: {selected}\n", found.stdout)


@pytest.mark.after_change
@pytest.mark.timeout(600)
def test_no_scope_reaches_beyond_itself(tmp_path: Path) -> None:
    """Few cases of each operation; ``make fuzz`` has many."""
    few = ["--generation-deterministic", "--max-examples", "1", "--no-shrink", "--phases", "fuzzing"]
    with filled_server(tmp_path) as served:
        for scope in Scope:  # the one that may do most comes last
            found = fuzz(served, tmp_path, few, scope.value)
            assert found.returncode == 0, found.stdout + found.stderr
