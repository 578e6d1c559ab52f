"""Which tbd this is: in a checkout, from a wheel, and where nobody knows."""

import subprocess

import pytest

from workers.node.code_version import RECORD, Code, described, of_folder, write_record


def git(folder, *arguments):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init")
    (folder / "file").write_text("1")
    git(folder, "add", "file")
    git(folder, "commit", "-m", "one")
    return folder


def test_a_checkout_is_known_by_its_commit_and_whether_it_was_changed(checkout):
    clean = of_folder(checkout)
    assert len(clean.commit) == 40
    assert (clean.dirty, clean.reason) == (False, None)
    (checkout / "file").write_text("2")
    assert of_folder(checkout) == clean._replace(dirty=True)


def test_what_a_checkout_says_is_recorded_for_the_wheel_that_is_built_from_it(checkout, tmp_path):
    write_record(checkout, tmp_path / "built")
    assert of_folder(tmp_path / "built") == of_folder(checkout)


def test_a_build_from_an_unpacked_source_archive_keeps_the_archives_commit(checkout, tmp_path):
    write_record(checkout, tmp_path / "archive")
    write_record(tmp_path / "archive", tmp_path / "built")
    assert of_folder(tmp_path / "built") == of_folder(checkout)


def test_a_checkout_is_asked_though_a_record_lies_in_it(checkout):
    (checkout / RECORD).parent.mkdir()
    (checkout / RECORD).write_text('{"commit": "old", "dirty": false, "reason": null}')
    assert len(of_folder(checkout).commit) == 40


def test_elsewhere_there_is_no_commit_and_the_reason_is_named(tmp_path):
    found = of_folder(tmp_path)
    assert (found.commit, found.dirty) == (None, None)
    assert "no git checkout" in found.reason


@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff", "null"])
def test_a_damaged_record_is_a_reason_and_no_error(tmp_path, text):
    (tmp_path / RECORD).parent.mkdir()
    (tmp_path / RECORD).write_text(text, encoding="latin-1")
    found = of_folder(tmp_path)
    assert found.commit is None
    assert str(RECORD) in found.reason


def test_a_checkout_without_git_is_a_reason_and_no_error(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert of_folder(checkout) == Code(None, None, "git is not installed")


def test_a_checkout_without_a_commit_says_what_git_says(tmp_path):
    git(tmp_path, "init")
    assert "rev-parse" in of_folder(tmp_path).reason


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (Code("0123456789abcdef", False), "1.2 (commit 0123456789ab)"),
        (Code("0123456789abcdef", True), "1.2 (commit 0123456789ab, with changes)"),
        (Code(None, None, "git is not installed"), "1.2 (commit unknown: git is not installed)"),
    ],
)
def test_a_person_reads_one_line(code, line):
    assert described({"version": "1.2", **code._asdict()}) == line
