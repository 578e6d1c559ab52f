"""Datasets that somebody registered on a host: what is recorded, what is offered, and what is refused."""

import json

import pytest

from workers.node import datasets, prepare
from workers.node.datasets import DatasetError
from workers.trainer.base import manifest


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("TBD_REGISTERED_DATASETS_DIR", str(tmp_path / "registered"))
    monkeypatch.setenv("TBD_DATASETS_DIR", str(tmp_path / "prepared"))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "files" / "train").mkdir(parents=True)
    (tmp_path / "files" / "train" / "a").write_text("abc")
    (tmp_path / "files" / ".hidden").write_text("x")
    return tmp_path / "files"


def test_what_is_registered_is_there_for_the_next_agent_and_its_path_is_told_to_nobody(files):
    facts = datasets.register("my-images", str(files), "image-folder", licence="mine")
    assert (facts["files"], facts["bytes"]) == (1, 3)
    assert datasets.registered() == {"my-images": facts}
    offered = datasets.offered()["my-images"]
    assert offered == {key: facts[key] for key in facts if key != "path"}
    assert str(files) not in json.dumps(offered)
    assert datasets.path_of({**offered, "root": None}) == str(files)


def test_what_was_counted_is_offered_and_changes_nothing_that_is_prepared(files):
    splits = {"train": {"pairs": 3}, "tst2013": {"pairs": 1}}
    facts = datasets.register("good", str(files), "parallel-text", splits=splits)
    assert datasets.offered()["good"]["splits"] == splits
    again = datasets.register("good", str(files), "parallel-text")
    assert "splits" not in again
    assert prepare.dataset_root(again) == prepare.dataset_root(facts)


def test_what_is_prepared_in_another_way_now_is_prepared_anew(files):
    texts, images = (datasets.register(layout, str(files), layout) for layout in ("text", "image-folder"))
    assert prepare.dataset_root(texts) != prepare.dataset_root({**texts, "version": 1})
    # Where nothing has changed, nothing is done again.
    assert "version" not in images


def test_the_identity_is_that_of_names_and_sizes(files, tmp_path):
    first = manifest.listing(str(files))
    files.rename(tmp_path / "moved")
    assert manifest.listing(str(tmp_path / "moved")) == first
    (tmp_path / "moved" / "train" / "a").write_text("abcd")
    assert manifest.listing(str(tmp_path / "moved"))["sha256"] != first["sha256"]


def test_a_name_stands_for_the_same_files_until_it_is_replaced(files):
    datasets.register("my-images", str(files), "image-folder")
    datasets.register("my-images", str(files), "image-folder", licence="said later")
    (files / "train" / "b").write_text("more")
    with pytest.raises(DatasetError, match=r"stands for other files here already .*--replace"):
        datasets.register("my-images", str(files), "image-folder")
    assert datasets.register("my-images", str(files), "image-folder", replace=True)["files"] == 2


@pytest.mark.parametrize(
    ("name", "layout", "told"),
    [
        ("My Images", "text", "is no name for a dataset"),
        ("../etc", "text", "is no name for a dataset"),
        ("ok", "zip", "there is no layout zip: image-folder, tfrecord"),
    ],
)
def test_what_cannot_be_registered_says_why(files, name, layout, told):
    with pytest.raises(DatasetError, match=told):
        datasets.register(name, str(files), layout)


def test_a_path_that_is_no_folder_is_refused(files):
    with pytest.raises(DatasetError, match="nowhere is no folder on this host"):
        datasets.register("ok", str(files / "nowhere"), "text")


def test_a_registration_that_cannot_be_read_is_named_and_not_offered(files):
    datasets.register("good", str(files), "text")
    (datasets.folder() / "bad.toml").write_text("name = ")
    (datasets.folder() / "short.toml").write_text('name = "short"\n')
    found = datasets.registered()
    assert str(datasets.folder() / "bad.toml") in found["bad"]["problem"]
    assert "lacks layout, path" in found["short"]["problem"]
    assert set(datasets.offered()) == {"good"}


def test_a_folder_that_vanished_is_not_offered_and_a_run_is_told(files, tmp_path):
    facts = datasets.register("good", str(files), "text")
    files.rename(tmp_path / "elsewhere")
    assert datasets.offered() == {}
    with pytest.raises(DatasetError, match=r"was registered at .*files, and there is no such folder now"):
        datasets.path_of(facts)


def test_a_run_that_was_planned_for_other_files_is_refused(files):
    facts = datasets.register("good", str(files), "text")
    with pytest.raises(DatasetError, match="two datasets have two names"):
        datasets.path_of({**facts, "sha256": "0" * 64})
    datasets.forget("good")
    with pytest.raises(DatasetError, match="run `tbd datasets register good PATH --layout text` on it"):
        datasets.path_of(facts)
    with pytest.raises(DatasetError, match="no dataset good is registered"):
        datasets.forget("good")


def test_other_files_are_prepared_in_another_folder(files):
    facts = datasets.register("good", str(files), "text")
    other = {**facts, "sha256": "0" * 64}
    assert prepare.dataset_root(facts) != prepare.dataset_root(other)
    assert prepare.dataset_root(facts) == prepare.dataset_root({**facts, "root": "/x", "path": "/y"})
    assert datasets.prepared() == []
    prepare.dataset_root(facts).mkdir(parents=True)
    assert datasets.prepared() == [manifest.folder_name(facts)]
