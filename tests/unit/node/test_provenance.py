"""Where a measurement comes from."""

import json
import subprocess

from workers.node import provenance


def git(folder, *arguments):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def test_a_checkout_is_known_by_its_commit_and_whether_it_was_changed(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "one")
    clean = provenance.code_version(tmp_path)
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (tmp_path / "file").write_text("2")
    assert provenance.code_version(tmp_path)["dirty"] is True


def test_outside_a_checkout_there_is_no_commit(tmp_path):
    assert provenance.code_version(tmp_path)["commit"] is None
    assert provenance.code_version(tmp_path)["dirty"] is None


def test_provenance_is_json_with_a_pair_of_clocks():
    found = provenance.Provenance().read()
    json.dumps(found)
    assert set(found["clocks"]) == {"monotonic_s", "wall_s"}
    assert set(found["cgroup"]) == {"cpu_cores", "memory_bytes"}


def test_the_word_in_brackets_is_the_one_chosen(tmp_path):
    (tmp_path / "enabled").write_text("always [madvise] never\n")
    assert provenance._chosen(tmp_path / "enabled") == "madvise"
    assert provenance._chosen(tmp_path / "missing") is None
