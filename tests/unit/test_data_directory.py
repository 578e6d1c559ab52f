"""One owner to a data directory, found by the others."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.domain.around.server import Server
from orchestrator.domain.words.errors import DataDirectoryInUse, SettingsError
from orchestrator.serve.data_directory import DataDirectory, server_of

FIRST = Server("http://127.0.0.1:1", "one", 7, 60.0)
NAMED = r"at http://127\.0\.0\.1:1 on one \(process 7\), since 1970-01-01T00:01:00Z: .*on one: TBD_SERVER="


def test_a_second_owner_is_told_where_the_first_listens(tmp_path: Path) -> None:
    owner = DataDirectory(tmp_path / "data").open()
    owner.announce(FIRST)
    with pytest.raises(
        DataDirectoryInUse,
        match=r"http://127\.0\.0\.1:1 on one \(process 7\), since 1970-01-01T00:01:00Z: .*end that process$",
    ):
        DataDirectory(tmp_path / "data").open()
    assert server_of(tmp_path / "data")["url"] == "http://127.0.0.1:1"
    owner.close()
    assert server_of(tmp_path / "data") is None
    DataDirectory(tmp_path / "data").open().close()


def test_an_owner_that_was_killed_owns_nothing(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from orchestrator.serve.data_directory import DataDirectory\n"
        "from orchestrator.domain.around.server import Server\n"
        f"owner = DataDirectory(Path({str(tmp_path)!r})).open(); owner.announce({FIRST!r})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).resolve().parents[2])
    assert (tmp_path / "server.json").exists()
    assert server_of(tmp_path) is None
    DataDirectory(tmp_path).open().close()


def test_a_program_that_takes_the_place_of_another_keeps_what_that_one_owned(tmp_path: Path) -> None:
    begin = (
        "import os, sys; from pathlib import Path\n"
        "from orchestrator.serve.data_directory import DataDirectory, is_owned\n"
        f"path = Path({str(tmp_path)!r}); directory = DataDirectory(path)\n"
    )
    after = begin + "print(is_owned(path)); directory.open(int(sys.argv[1])).close(); print(is_owned(path))"
    before = begin + f"os.execv(sys.executable, [sys.executable, '-c', {after!r}, str(directory.open().hand_over())])"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", before], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout == "True\nFalse\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="TBD_DATA_DIR"):
        DataDirectory(tmp_path / "file" / "data").open()
