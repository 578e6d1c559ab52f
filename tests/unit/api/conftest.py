"""The rig of the tests of REST."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.api.api_rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()
