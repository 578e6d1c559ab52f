"""What an agent remembers of its attempts where the disk has no room for a memory."""

import errno
import os

import pytest

from workers.node import attempts
from workers.node.attempts import Attempts


@pytest.fixture
def folder(tmp_path):
    kept = Attempts(tmp_path / "agent")
    yield kept
    kept.release()


def full_while(monkeypatch, condition, number=errno.ENOSPC):
    def write(path, value):
        if condition():
            raise OSError(number, os.strerror(number), str(path))
        real(path, value)

    real = attempts._write
    monkeypatch.setattr(attempts, "_write", write)


def test_an_attempt_that_never_came_is_remembered_on_a_full_disk_too(folder, monkeypatch):
    full_while(monkeypatch, lambda: True)
    folder.forget("a1", None, reason="cancelled")
    assert folder.ended("a1") == {"attempt_id": "a1", "token_sha256": None, "reason": "cancelled"}
    assert folder.ended("a2") is None


def test_the_files_of_an_attempt_make_room_for_the_memory_of_it(folder, monkeypatch):
    log = folder.begin({"attempt_id": "a1"}) / "log.jsonl"
    log.write_text("x")
    full_while(monkeypatch, log.exists)
    folder.forget("a1", "abc", last_seq=7)
    assert [path.name for path in folder.folder("a1").iterdir()] == ["ended.json"]
    assert folder.ended("a1") == {"attempt_id": "a1", "token_sha256": "abc", "last_seq": 7}


def test_any_other_trouble_with_the_disk_is_raised(folder, monkeypatch):
    full_while(monkeypatch, lambda: True, errno.EROFS)
    with pytest.raises(OSError, match="Read-only"):
        folder.forget("a1", None)
