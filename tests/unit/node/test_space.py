"""How much may be written: by the disk and by quotas, which a library of ours answers with the kernel's own structures;
and what is said before an environment is downloaded."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.trainer_process import ROOT
from workers.node import space
from workers.node.interpreters import InterpreterError, room
from workers.node.space import QuotaLeft

# Answers as the kernel would: of each kind (user 0, group 1) the hard limit in KiB and the bytes in use, or an error.
LIBRARY = """
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/quota.h>
int quotactl(int command, const char *device, int id, char *answer) {
  struct dqblk found;
  const char *told = getenv((command & 0xff) == USRQUOTA ? "QUOTA_OF_USER" : "QUOTA_OF_GROUP");
  if ((unsigned)command >> 8 != Q_GETQUOTA) { errno = EINVAL; return -1; }
  if (!told) { errno = ESRCH; return -1; }
  memset(&found, 0, sizeof found);
  found.dqb_bhardlimit = strtoull(told, (char **)&told, 10);
  found.dqb_curspace = strtoull(told, (char **)&told, 10);
  errno = atoi(told);
  if (errno) return -1;
  memcpy(answer, &found, sizeof found);
  return 0;
}
"""
ASK = """
import os, pathlib
from workers.node import space
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(repr(space.quota_left(pathlib.Path("/var"))))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("quota")
    (folder / "quota.c").write_text(LIBRARY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "quota.so", folder / "quota.c"], check=True)
    return folder / "quota.so"


def left(library: Path, **told: str) -> QuotaLeft:
    """What an ordinary user's process finds on the disk of ``/var``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LD_PRELOAD": str(library), **told}
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout, {"QuotaLeft": QuotaLeft})


def test_the_least_of_what_the_quotas_of_user_and_groups_leave_is_known(library: Path) -> None:
    kind, device = space._mounted(os.stat("/var").st_dev)
    if not device.startswith("/dev/"):
        pytest.skip(f"/var lies on {kind}, of which quotas are not asked")
    assert left(library) == QuotaLeft(None)
    assert left(library, QUOTA_OF_USER="1000 24000 0") == QuotaLeft(1_000_000)
    assert left(library, QUOTA_OF_USER="1000 24000 0", QUOTA_OF_GROUP="100 2400 0") == QuotaLeft(100_000)
    assert left(library, QUOTA_OF_USER="1000 9999999 0") == QuotaLeft(0)
    assert left(library, QUOTA_OF_USER="0 24000 0") == QuotaLeft(None)
    unknown = left(library, QUOTA_OF_USER="0 0 1")
    assert unknown == QuotaLeft(None, f"whether there is a quota on {device} is not known: {os.strerror(1)}")


def test_what_cannot_be_known_is_said(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(space, "_mounted", lambda device: ("nfs4", "server:/home"))
    assert space.quota_left(tmp_path).reason == "whether there is a quota is not known on nfs4"
    monkeypatch.setattr(space, "_mounted", lambda device: ("tmpfs", "tmpfs"))
    assert space.quota_left(tmp_path) == QuotaLeft(None)


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Environments, temporary files and pip's cache on the disk of the tests."""
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PIP_NO_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_is_downloaded_is_counted_where_it_lies_and_in_pips_cache(disks: Path, monkeypatch) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda folder: 3 * 2**30)
    room.check("thing", 2**30, 2**30, print)
    with pytest.raises(InterpreterError) as refused:
        room.check("thing", 2**30, 2**30 + 2**20, print)
    assert "needs about 3.0 GiB of disk while it is built" in str(refused.value)
    for way_out in ("TBD_INTERPRETERS_DIR", "TMPDIR", "PIP_CACHE_DIR"):
        assert way_out in str(refused.value)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    room.check("thing", 2**30, 2**30 + 2**20, print)


def test_a_quota_is_less_than_the_disk_and_one_that_is_not_known_is_said(disks: Path, monkeypatch) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda folder: 2**40)
    monkeypatch.setattr(space, "quota_left", lambda folder: QuotaLeft(2**30))
    with pytest.raises(InterpreterError, match=r"has 1024\.0 GiB free, 1\.0 GiB of it by your quota"):
        room.check("thing", 2**30, 2**30, print)
    said: list[str] = []
    monkeypatch.setattr(space, "quota_left", lambda folder: QuotaLeft(None, "nobody knows"))
    room.check("thing", 2**30, 2**30, said.append)
    assert said == [f"thing: nobody knows; the disk of {disks} has 1024.0 GiB free"]
