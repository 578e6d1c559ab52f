"""A source that is known to be wrong in one place is corrected before it is built, or not built at all."""

import tarfile
from pathlib import Path

import pytest

from workers.node.interpreters.sources import corrected


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    package = tmp_path / "thing-1.0"
    package.mkdir()
    (package / "part.cc").write_text("a = forgotten;\nb = 2;\nb = 2;\n")
    path = tmp_path / "thing-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        packed.add(package, "thing-1.0")
    return path


def test_what_is_named_is_replaced_and_the_rest_stays(archive: Path, tmp_path: Path) -> None:
    change = {"file": "part.cc", "old": "a = forgotten;\n", "new": "a = told;\n"}
    package = corrected(archive, tmp_path / "out", [change])
    assert package == tmp_path / "out" / "thing-1.0"
    assert (package / "part.cc").read_text() == "a = told;\nb = 2;\nb = 2;\n"


@pytest.mark.parametrize("old", ["not there", "b = 2;\n"])
def test_a_source_that_is_not_as_expected_is_refused(archive: Path, tmp_path: Path, old: str) -> None:
    with pytest.raises(ValueError, match=r"part\.cc of thing-1\.0"):
        corrected(archive, tmp_path / "out", [{"file": "part.cc", "old": old, "new": ""}])
