"""``tbd datasets``: register files of one's own, check them, forget them; by the command itself and its interpreter."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.trainer_process import ROOT


@pytest.fixture
def tbd(python_of, tmp_path):
    """The command on a machine without a server; returns (exit status, stdout, stderr)."""
    python_of("datasets")
    own = {
        "TBD_REGISTERED_DATASETS_DIR": str(tmp_path / "registered"),
        "TBD_DATASETS_DIR": str(tmp_path / "prepared"),
        "TBD_DATA_DIR": str(tmp_path / "data"),
    }
    environment = {**{name: value for name, value in os.environ.items() if name != "TBD_SERVER"}, **own}

    def run(*words):
        command = [sys.executable, "-m", "orchestrator.cli.main", "datasets", *map(str, words)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.after_change
def test_files_are_registered_listed_checked_and_forgotten(tbd, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "train.txt").write_text("a text\n\nanother\n")
    status, out, err = tbd("register", "my-texts", files, "--layout", "text", "--licence", "mine", "--json")
    assert status == 0, err
    assert json.loads(out)["splits"] == {"train": {"documents": 2}}
    (listed,) = [one for one in json.loads(tbd("--json")[1])["items"] if one["name"] == "my-texts"]
    assert (listed["registered"], listed["layout"], listed["licence"]) == (True, "text", "mine")
    assert listed["splits"] == {"train": {"documents": 2}}
    assert "train 2 documents" in tbd()[1]
    assert [place["state"] for place in listed["nodes"]] == ["registered"]
    assert tbd("check", "my-texts")[0] == 0
    (files / "train.txt").write_bytes(b"a text\n\xff\n")
    status, _, err = tbd("check", "my-texts")
    assert status == 1
    assert "these are not the files that were registered" in err
    assert f"{files / 'train.txt'}: line 2 is no UTF-8" in err
    assert tbd("forget", "my-texts")[0] == 0
    assert tbd("check", "my-texts")[0] == 2


def test_a_game_is_registered_and_one_of_too_many_actions_or_none_is_not(tbd, tmp_path, python_of):
    told = "import ale_py.roms as roms; print(roms.get_rom_path('breakout').parent)"
    games = subprocess.run([python_of("datasets"), "-c", told], capture_output=True, text=True, check=True)
    for name in ("breakout", "alien", "nothing"):
        (tmp_path / name).mkdir()
    for name in ("breakout", "alien"):
        shutil.copy(f"{games.stdout.strip()}/{name}.bin", tmp_path / name)
    status, out, err = tbd("register", "breakout", tmp_path / "breakout", "--layout", "atari", "--json")
    assert status == 0, err
    assert json.loads(out)["splits"] == {"train": {"games": 1}}
    status, _, err = tbd("register", "alien", tmp_path / "alien", "--layout", "atari")
    assert status == 1
    assert f"{tmp_path / 'alien' / 'alien.bin'} needs 18 actions, and the network has 6" in err
    status, _, err = tbd("register", "nothing", tmp_path / "nothing", "--layout", "atari")
    assert status == 1
    assert f"{tmp_path / 'nothing'} has no game: it needs one game, <game>.bin" in err


def test_files_that_are_wrong_are_not_registered_and_are_named(tbd, tmp_path):
    status, _, err = tbd("register", "mine", tmp_path / "nowhere", "--layout", "image-folder")
    assert status == 1
    assert "nowhere" in err
    status, _, err = tbd("register", "photographs", tmp_path, "--layout", "image-folder")
    assert status == 2
    assert "comes with tbd" in err
    assert not (tmp_path / "registered").exists()
