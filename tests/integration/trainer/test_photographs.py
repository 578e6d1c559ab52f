"""Making the dataset of photographs, for real, in the interpreter that its facts name."""

import json
import shutil
import subprocess

import pytest

from suites.datasets import making
from suites.datasets.photographs import prepare
from tests.trainer_process import ROOT, dataset_facts
from workers.trainer.base import manifest


@pytest.fixture(scope="module")
def make(python_of):
    """A function that makes the dataset in a folder, as the node agent does it."""

    def make(root):
        command = [python_of("datasets"), "-m", "suites.datasets.photographs.prepare", "--root", str(root)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    return make


@pytest.fixture(scope="module")
def made(photographs):
    return photographs


def test_the_dataset_is_what_its_facts_say(made):
    facts = dataset_facts("photographs", made)
    files = manifest.read(made)["files"]
    assert len(files) == facts["files"]
    assert sum(file["bytes"] for file in files.values()) == pytest.approx(facts["bytes"], rel=0.02)
    assert len(list((made / "train").iterdir())) == facts["classes"]


def test_the_manifest_lists_every_file_with_its_digest(made):
    files = manifest.read(made)["files"]
    assert set(files) == {str(path.relative_to(made)) for path in made.rglob("*.JPEG")}
    assert all(manifest.describe(made / path) == facts for path, facts in list(files.items())[::20])


@pytest.mark.after_change
def test_making_it_again_changes_nothing_and_makes_the_same_elsewhere(made, make, tmp_path):
    before = (made / "manifest.json").stat().st_mtime_ns
    make(made)
    assert (made / "manifest.json").stat().st_mtime_ns == before
    make(tmp_path / "other")
    assert manifest.read(tmp_path / "other") == manifest.read(made)


@pytest.mark.after_change
def test_a_damaged_dataset_is_replaced_and_nothing_else_is_left_behind(made, make, tmp_path):
    root = tmp_path / "photographs"
    shutil.copytree(made, root)
    (root / "train" / "n90000001" / "n90000001_0.JPEG").unlink()
    make(root)
    assert making.is_prepared(root, prepare.VERSION)
    assert [path.name for path in tmp_path.iterdir()] == ["photographs"]
    assert not (root / "replaced").exists()


def test_a_failure_leaves_no_half_made_dataset(tmp_path):
    def fail(folder):
        (tmp_path / "seen").touch()
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        making.main(prepare.VERSION, fail, ["--root", str(tmp_path / "photographs")])
    assert [path.name for path in tmp_path.iterdir()] == ["seen"]


def test_a_manifest_of_another_version_is_no_dataset(made, tmp_path):
    root = tmp_path / "photographs"
    root.mkdir()
    (root / "manifest.json").write_text(json.dumps({**manifest.read(made), "version": 0}))
    assert not making.is_prepared(root, prepare.VERSION)
