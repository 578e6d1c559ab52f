"""Looking at a data directory without a server: which commands do, what they leave alone, what they say of bad ones."""

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection

from orchestrator.api.door.access import NEEDED
from orchestrator.cli.exits import CommandError
from orchestrator.cli.main import COMMANDS, main
from orchestrator.cli.rest.looking import LookingClient
from orchestrator.db.opening import LookingStore
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.server import Server
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.runs.run import ExperimentState
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.serve.data_directory import DataDirectory, host_elsewhere
from tests.unit.api.api_rig import Rig

# Each command by what it does without a server: it looks; it needs one; or neither, for it works by itself or starts an
# embedded one.
LOOKING = [
    *("ls", "ls --json", "show latest", "show latest --json", "results", "results latest", "report latest"),
    *("logs RUN", "logs RUN -f", "compare latest latest", "scaling latest", "history", "export -o FILE", "nightly"),
    "passport latest -o FILE",
    *("analyse latest", "audit", "token ls", "schedule ls", "import ls", "observations", "calibrate --list"),
    *("models", "datasets", "watch latest", "alerts", "alerts replay milabench", "webhooks ls"),
]
IN_VAIN = {"explain"}  # looks too, but what is here has one device (test_explain_command.py)
CHANGING = [
    *("submit sleep", "pause latest", "resume latest", "extend latest --repeats 9", "cancel latest", "rerun latest"),
    *("nodes", "nodes drain n0", "nodes n0/3", "nodes clear n0/3"),
    *("rm latest", "ingest FILE", "import milabench FILE", "schedule run nightly"),
    *("alerts ack alt_1", "webhooks add http://h/", "webhooks rm whk_1", "webhooks test whk_1"),
    "bisect one other another --of latest",
]
BY_THEMSELVES = {
    "run",
    "exec",
    "plan",
    "netbench",
    "noise",
    "parity",
    "predict",
    "frameworks",
    "serve",
    "doctor",
    "db",
    "verify",
}


@pytest.fixture
def folder(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory that a server has left in order: an experiment that is over, and an older one that is paused."""
    paused = rig.submit(name="paused")["id"]
    assert rig.http.post(f"/api/v1/experiments/{paused}/pause").status_code == 202
    over = rig.submit(name="over")["id"]
    rig.complete_all(over, [100.0, 101.0, 102.0])
    rig.store.end_experiment(over, ExperimentState.COMPLETED, 11.0)
    rig.close()
    monkeypatch.delenv("TBD_SERVER", raising=False)
    monkeypatch.delenv("TBD_DATABASE_URL", raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    return tmp_path


def everything_in(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(one): (one.stat().st_size, one.stat().st_mtime_ns) for one in folder.rglob("*")}


def test_each_command_either_looks_or_needs_a_server_or_works_by_itself() -> None:
    told = {words.split()[0] for words in (*LOOKING, *CHANGING)} | BY_THEMSELVES | IN_VAIN
    assert told == set(COMMANDS)


def test_what_looks_answers_without_a_server_and_leaves_all_as_it_was(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path_factory.mktemp("elsewhere") / "all.csv"
    before = everything_in(folder)
    (run,) = [one["id"] for one in LookingClient().get("/runs", limit=1)["items"]]
    for words in LOOKING:
        given = [{"RUN": run, "FILE": str(file)}.get(word, word) for word in words.split()]
        capsys.readouterr()
        assert main(given) == 0, (words, capsys.readouterr().err)
    assert file.stat().st_size > 100
    assert everything_in(folder) == before


def _answer(client: LookingClient, path: str) -> str:
    try:
        return str(client.get(path))
    except CommandError as error:
        return str(error)


def test_each_path_that_is_only_looked_at_is_one_of_those_without_a_server(folder: Path) -> None:
    client = LookingClient()
    for method, path in NEEDED:
        if method == "GET" and not path.endswith("/events"):
            assert "there is nothing at" not in _answer(client, path.replace("{", "").replace("}", ""))


def test_what_changes_something_says_how_to_start_a_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "FILE.txt").write_text("{}")
    for words in CHANGING:
        assert main(words.replace("FILE", str(folder / "FILE.txt")).split()) == 4, words
        told = capsys.readouterr().err
        assert {"there is no server" in told, "tbd serve" in told} == {True}, words


def test_a_list_tells_what_is_paused_and_a_watch_that_nothing_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ls"]) == 0
    told = capsys.readouterr()
    assert [line.split()[1:3] for line in told.out.splitlines()[2:]] == [["over", "completed"], ["paused", "paused"]]
    assert f"no server: this is what {folder} holds" in told.err
    assert main(["watch", "paused"]) == 4
    assert "goes on when there is a server" in capsys.readouterr().err


def test_a_list_imports_neither_numpy_nor_the_driver_of_the_other_database(folder: Path) -> None:
    code = "import sys; from orchestrator.cli.main import main; main(['ls']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "ray", "psycopg", "alembic", "uvicorn", "pyarrow", "httpx", "yaml"}
    assert not heavy & set(done.stdout.split())


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _damage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def _of_schema(revision: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.close()

    return change


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (Path.unlink, "nothing here yet: {folder} (TBD_DATA_DIR) has never been used. Begin with tbd run"),
        (_empty, "nothing here yet: {folder}/tbd.sqlite3 is empty. Begin with tbd run"),
        (
            _damage,
            "the file of the database is damaged, or is no database (file is not a database): put a copy",
        ),
        (_of_schema("0014"), "has schema 0014. A version of tbd from before the first release wrote it"),
        (_of_schema("9999"), "one of a newer version needs that version"),
    ],
)
def test_what_cannot_be_looked_at_says_why_and_what_helps(
    folder: Path, spoil: Callable[[Path], None], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(folder / "tbd.sqlite3")
    before = everything_in(folder)
    for words in (["ls"], ["show", "latest"], ["token", "ls"]):
        assert main(words) == 4
        assert told.format(folder=folder) in capsys.readouterr().err
    assert main(["models"]) == 0
    assert everything_in(folder) == before


@pytest.mark.parametrize(
    ("is_held", "told"),
    [(True, "runs on another machine, elsewhere"), (False, "is served on another machine, elsewhere")],
)
def test_a_server_of_another_machine_is_named(
    folder: Path, is_held: bool, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where its lock is not seen here: not every shared file system shows it."""
    owner = DataDirectory(folder).open()
    owner.announce(Server("http://127.0.0.1:1", "here", 1, 0.0))
    file = folder / "server.json"
    there = json.loads(file.read_text()) | {"host": "elsewhere", "boot": "another"}
    if not is_held:
        owner.close()
    file.write_text(json.dumps(there))
    assert main(["ls"]) == 4
    assert told in (err := capsys.readouterr().err)
    assert "TBD_SERVER" in err
    owner.close()


def test_a_server_of_a_machine_that_was_booted_anew_or_of_a_container_is_not_elsewhere() -> None:
    mine = {"host": socket.gethostname(), "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}
    for told in ({}, mine, mine | {"host": "a-container"}, mine | {"boot": "an earlier one"}):
        assert host_elsewhere(told) is None


def _look_as_somebody_else(file: Path) -> tuple[int, str]:
    """``tbd ls`` as another user; the exit code and what it printed. (Root may do anything, so it forks and leaves.)"""
    child = os.fork()
    if not child:
        code = 99
        with open(file, "w") as sys.stdout, contextlib.redirect_stderr(sys.stdout):
            with contextlib.suppress(PermissionError):
                os.setgroups([])
                os.setuid(65534)
            code = main(["ls"])
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file.read_text()


def _written_by_one_that_was_killed(folder: Path) -> None:
    """Have a server store something, and end at once: that is in its log alone."""
    code = (
        f"import os; from orchestrator.domain.asked.placement import NodeState\n"
        f"from orchestrator.db.store import SqlStore; store = SqlStore('sqlite:///{folder}/tbd.sqlite3')\n"
        "store.order_node('n1', NodeState.DRAINING); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("was_killed", [False, True])
@pytest.mark.parametrize(
    ("mode", "code", "told"), [(0o644, 0, "completed"), (0o000, 4, "may not be read by")], ids=["readable", "closed"]
)
def test_a_folder_of_somebody_else_is_looked_at_as_far_as_its_files_may_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, was_killed: bool, mode: int, code: int, told: str
) -> None:
    """And so one on a disk that is read-only."""
    if was_killed:
        _written_by_one_that_was_killed(folder)
    assert main(["ls"]) == 0  # the child below imports nothing
    with tempfile.TemporaryDirectory() as place:  # not pytest's, which is closed to others
        theirs = Path(place, "data")
        shutil.copytree(folder, theirs)
        (theirs / "tbd.sqlite3").chmod(mode)
        (output := Path(place, "output")).touch()
        theirs.chmod(0o555)
        Path(place).chmod(0o755)
        monkeypatch.setenv("TBD_DATA_DIR", str(theirs))
        before = everything_in(theirs)
        done, text = _look_as_somebody_else(output)
        assert (done, told in text) == (code, True), text
        assert everything_in(theirs) == before
        theirs.chmod(0o755)


def test_what_a_killed_server_had_stored_is_seen(folder: Path) -> None:
    _written_by_one_that_was_killed(folder)
    assert LookingStore(f"sqlite:///{folder}/tbd.sqlite3").node_orders() == {"n1": "draining"}


def test_a_server_that_starts_while_somebody_looks_is_not_hindered_and_what_it_stored_is_seen(folder: Path) -> None:
    """The file changes under the first look, which is made again; a second look goes on at once."""
    url = f"sqlite:///{folder}/tbd.sqlite3"
    looks = []

    def slow(connection: Connection) -> int:
        looks.append(connection.exec_driver_sql("SELECT count(*) FROM node_order").scalar())
        if len(looks) == 1:
            server = SqlStore(url)
            server.order_node("n1", NodeState.DRAINING)
            assert LookingStore(url).node_orders() == {"n1": "draining"}
            server.close()  # which brings the log into the file
        return int(looks[-1])

    assert LookingStore(url).database.read(slow) == 1
    assert looks == [0, 1]
    with pytest.raises(StoreUnavailable, match="tbd serve"):
        LookingStore(url).order_node("n1", None)
