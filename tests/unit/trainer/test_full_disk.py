"""A process of an attempt whose disk is full: /dev/full is one."""

import errno
import json
import os

import pytest

from workers.trainer import protocol
from workers.trainer.__main__ import emit_error, failure_of, run
from workers.trainer.base.failure import TrainerError, lacks_space

FULL = OSError(errno.ENOSPC, "No space left on device")


def raised(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_and_a_used_up_quota_are_no_space(number):
    assert failure_of(OSError(number, "full"), None) == "no_space"


def test_what_was_raised_from_a_full_disk_is_no_space_whatever_it_calls_itself():
    assert failure_of(raised(TrainerError("setup_failed", "no data"), raised(ValueError(), FULL)), None) == "no_space"


def test_other_trouble_with_files_is_not():
    assert failure_of(OSError(errno.EACCES, "denied"), None) == "crashed"
    assert not lacks_space(None)


def test_an_error_that_is_its_own_cause_ends_the_search():
    error = ValueError()
    assert not lacks_space(raised(error, error))


def test_a_process_that_cannot_write_its_events_ends_with_the_status_of_a_full_disk(capsys):
    writer = protocol.EventWriter("/dev/full", 0)
    status = run({"plan": {}}, {"role": "worker", "ranks": [0], "devices": []}, writer.emit)
    writer.close()
    assert status == protocol.EXIT_STATUS["no_space"]
    assert "the error could not be reported: [Errno 28]" in capsys.readouterr().err


def test_an_error_that_cannot_be_reported_still_ends_with_its_own_status(capsys):
    def emit(kind, **data):
        raise FULL

    emit_error(emit, "diverged", TrainerError("diverged", "the loss is nan"))
    assert "the loss is nan" in capsys.readouterr().err


def test_the_rest_of_a_line_that_a_full_disk_cut_comes_before_the_next_one(tmp_path, monkeypatch):
    def write(descriptor, data):
        if cut:
            return real(descriptor, data[: cut.pop()])
        raise FULL

    real, cut = os.write, [10]
    path = tmp_path / "events.jsonl"
    writer = protocol.EventWriter(str(path), 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space"):
            writer.emit("loss", step=1, value=0.5)
    assert path.stat().st_size == 10
    writer.emit("loss", step=2, value=0.25)
    writer.close()
    assert [json.loads(line)["data"]["step"] for line in path.read_text().splitlines()] == [1, 2]
