"""The children's PYTHONPATH, which all attempts of a node share and several may make at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workers.node.code_version import ROOT
from workers.node.prepare import module_folder

AT_ONCE = 4


def test_attempts_that_begin_at_once_make_it_together(tmp_path: Path) -> None:
    together = threading.Barrier(AT_ONCE)

    def make(folder: Path) -> Path:
        together.wait()
        path = module_folder(folder)
        # From here on a process of this attempt reads it, whatever the other attempts do to it.
        for _ in range(20):
            assert (path / "workers").is_dir()
        return path

    with ThreadPoolExecutor(AT_ONCE) as attempts:
        for number in range(200):
            paths = list(attempts.map(make, [tmp_path / str(number)] * AT_ONCE))
            assert sorted(entry.name for entry in paths[0].iterdir()) == ["suites", "workers"]


def test_what_points_elsewhere_is_replaced_and_what_is_right_is_left(tmp_path: Path) -> None:
    path = module_folder(tmp_path)
    suites = (path / "suites").lstat().st_ino
    (path / "workers").unlink()
    (path / "workers").symlink_to(tmp_path / "an-older-tbd")
    assert module_folder(tmp_path) == path
    assert (path / "workers").resolve() == (ROOT / "workers").resolve()
    assert (path / "suites").lstat().st_ino == suites
