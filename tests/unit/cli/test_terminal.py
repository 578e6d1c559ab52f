"""What a person meets at the terminal: help, mistakes, encodings, streams that are closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.exits import CommandError
from orchestrator.cli.main import COMMANDS, GROUPS, main
from orchestrator.cli.printing import output
from orchestrator.cli.rest import locate
from orchestrator.cli.rest.client import ServerProblem
from orchestrator.cli.spec.spec_options import framework_for
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.around.server import Server
from orchestrator.domain.words.errors import SettingsError
from orchestrator.serve.data_directory import DataDirectory
from orchestrator.serve.settings import read_settings
from orchestrator.services import tokens
from orchestrator.services.clock import SystemClock

HEAVY = {"ray", "numpy", "scipy", "torch", "tensorflow", "sqlalchemy"}

TABLE = "12.34 ± 0.05 µs → 3 – 4 … ─── Zoë \ud800"  # noqa: RUF001 - the signs that tbd prints


def tbd(*words: str, code: int, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command without a server, in an environment of nothing else."""
    clean = {"PATH": os.environ["PATH"], "TBD_DATA_DIR": "/nonexistent/tbd"} | environment
    done = subprocess.run([sys.executable, "-m", "orchestrator.cli.main", *words], capture_output=True, env=clean)
    assert done.returncode == code, done
    return done


def test_help_lists_every_command_in_a_group_with_a_gap_after_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    told = capsys.readouterr().out.splitlines()
    for title, commands in GROUPS.items():
        first = told.index(f"{title}:") + 1
        listed = told[first : first + len(commands)]
        assert [line.split()[0] for line in listed] == list(commands)
        assert all(line == f"  {name:<14}{text}" for line, (name, text) in zip(listed, commands.items(), strict=True))
    assert list(GROUPS) == ["measure", "look", "analyse", "operate"]


def test_help_folds_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    main([])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sumbit"], "there is no command 'sumbit': did you mean submit?"),
        (["xyzzy"], "there is no command 'xyzzy'\n"),
        (["--verison"], "there is no option --verison: did you mean --version?"),
        (["ls", "--jsn"], "there is no option --jsn: did you mean --json?"),
        (["serve", "--hots=localhost"], "there is no option --hots: did you mean --host?"),
        (["ls", "--limt=3"], "there is no option --limt: did you mean --limit?"),
        (["nodes", "drian"], "'drian' is none of drain, resume, quarantine, clear: did you mean drain?"),
        (["ls", "--state", "complete"], "did you mean completed?"),
    ],
)
def test_a_mistyped_word_is_answered_with_what_was_meant(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
def test_every_text_can_be_printed_in_every_encoding(encoding: str) -> None:
    code = f"from orchestrator.cli.printing import streams; streams.prepare(); print({TABLE!r})"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    told = done.stdout.decode(encoding)
    assert "12.34" in told
    assert "?" in told  # the lone surrogate, which no encoding has
    if encoding == "ascii":
        assert told == "12.34 +- 0.05 us -> 3 - 4 ... --- Zoe ?\n"
    if encoding == "utf-8":
        assert told.startswith(TABLE[:-1])


def test_an_encoding_handler_that_a_person_chose_stays() -> None:
    code = "from orchestrator.cli.printing import streams; streams.prepare(); print('±')"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:xmlcharrefreplace"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert done.stdout == b"&#177;\n"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_loses_nothing_in_any_encoding(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    data = {"text": TABLE}
    with open(tmp_path / "out", "w", encoding=encoding) as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        output.print_json(data)
    assert json.loads((tmp_path / "out").read_bytes()) == data


def test_a_command_in_the_c_locale_and_in_ascii_ends_without_a_traceback() -> None:
    for environment in ({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        assert b"Traceback" not in tbd("frameworks", "--help", code=0, **environment).stderr
    told = tbd("ls", "Zoë±", code=2, PYTHONIOENCODING="ascii").stderr
    assert b"Zo" in told
    assert b"Traceback" not in told


def test_a_reader_that_has_gone_and_a_stream_that_is_closed_are_no_errors() -> None:
    for redirection in ("| true", ">&-", "2>&-"):
        script = f"{sys.executable} -m orchestrator.cli.main --help {redirection}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_is_told_in_a_line() -> None:
    script = f"{sys.executable} -m orchestrator.cli.main --version > /dev/full"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["tbd --version: [Errno 28] No space left on device"]


@pytest.mark.parametrize(("status", "code"), [(500, 1), (501, 1), (502, 4), (503, 4), (504, 4), (507, 4), (404, 2)])
def test_a_server_that_failed_is_told_apart_from_one_out_of_reach(status: int, code: int) -> None:
    assert ServerProblem(status, {"detail": "x"}).code == code


def test_no_command_stands_in_two_groups() -> None:
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "resnet50"], "model: there is no model 'resnet50': did you mean resnet-50? There are"),
        (["run", "resnet-50", "-f", "torch"], "did you mean pytorch?"),
        (["run", "resnet-50", "--option", "depth"], "write KEY=VALUE"),
        (["plan", "resnet-50", "--size", "smal"], "did you mean small?"),
        (["plan", "resnet-50", "--data", "photograph"], "did you mean photographs?"),
        (["plan", "sleep", "-f", "pytorch"], "model sleep is not there for pytorch, only for sleep\n"),
        (["plan", "nothing.yaml"], "there is no such file"),
        (["netbench", "--topology", "foo"], "'foo' is no topology"),
        (["netbench", "--library", "gloo", "--device", "cuda"], "gloo goes between cpu devices"),
        (["calibrate", "--shapes", "8x8"], "'8x8' is no shape"),
        (["calibrate", "--arithmetic", "fp23"], "'fp23' is none of fp32, tf32, bf16, fp16: did you mean fp32?"),
    ],
)
def test_what_no_server_would_accept_is_told_before_one_is_started(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TBD_SERVER", raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path / "data"))
    assert main(words) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "starting" not in err
    assert not (tmp_path / "data").exists()


def test_the_catalogue_is_there_without_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TBD_SERVER", raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    assert (main(["models"]), main(["datasets"])) == (0, 0)
    told = capsys.readouterr()
    assert "resnet-50" in told.out
    assert "photographs" in told.out
    assert "no server: these are the models of this installation" in told.err


def test_a_model_is_told_with_what_its_options_change_its_quality_and_its_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TBD_SERVER", raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    assert main(["models", "resnet-50"]) == 0
    told = capsys.readouterr().out
    rows = [" ".join(line.split()) for line in told.splitlines()]
    assert any(row.startswith("depth 152 full 60,192,808 152 23.0") for row in rows)
    assert any(row.startswith("full 25,557,032 50 8.18") for row in rows)
    assert "quality: top_1_accuracy_ratio 0.7613 (higher is better)" in told
    assert "depth 152: target 0.78312" in told
    assert "option depth (default 50): 50, 101, 152" in told
    assert main(["models", "resnet50"]) == 2
    assert "did you mean resnet-50?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "framework"), [("sleep", "sleep"), ("both", "pytorch"), ("neither", "mxnet"), ("unheard-of", "pytorch")]
)
def test_where_no_framework_is_named_it_is_one_that_the_model_is_there_for(model: str, framework: str) -> None:
    offered = {"sleep": ["sleep"], "both": ["tensorflow", "pytorch"], "neither": ["mxnet", "cntk"]}
    models = {"items": [{"name": name, "frameworks": names} for name, names in offered.items()]}
    assert framework_for(model, models) == framework


def test_a_server_that_starts_is_waited_for(tmp_path: Path) -> None:
    owner = DataDirectory(tmp_path).open()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            owner.announce(Server("http://127.0.0.1:1", "here", 1, 0.0))

    found = locate._once_it_listens(tmp_path, pause)
    assert found is not None
    assert (found["url"], len(pauses)) == ("http://127.0.0.1:1", 3)
    owner.close()


def test_a_server_that_ends_while_it_starts_is_none(tmp_path: Path) -> None:
    owner = DataDirectory(tmp_path).open()
    assert locate._once_it_listens(tmp_path, lambda _: owner.close()) is None


def test_a_server_that_never_tells_its_address_is_given_up(tmp_path: Path) -> None:
    owner = DataDirectory(tmp_path).open()
    waited: list[float] = []
    with pytest.raises(CommandError, match="has told no address for 60 s") as caught:
        locate._once_it_listens(tmp_path, waited.append)
    assert caught.value.code == 4
    assert sum(waited) == pytest.approx(locate.START_S)
    owner.close()


def test_a_server_listens_on_loopback_only_until_an_admin_can_enter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from orchestrator.app import check_that_it_may_listen

    store = SqlStore(f"sqlite:///{tmp_path / 'tbd.sqlite3'}")
    beyond, proxied = read_settings({"TBD_HOST": "0.0.0.0"}), read_settings({"TBD_ALLOWED_HOSTS": "tbd.example.org"})
    by = Actor("root", Scope.ADMIN)
    try:
        check_that_it_may_listen(proxied, store)
        assert "whoever reaches the proxy may do everything" in caplog.text
        for scope in (None, "submit"):
            if scope:
                tokens.add(store, SystemClock(), {"name": "ada", "scope": scope}, by)
            with pytest.raises(SettingsError, match=r"0\.0\.0\.0 \(TBD_HOST, --host\) is beyond loopback"):
                check_that_it_may_listen(beyond, store)
        tokens.add(store, SystemClock(), {"name": "root", "scope": "admin"}, by)
        check_that_it_may_listen(beyond, store)
        tokens.revoke(store, SystemClock(), "root", by)
        with pytest.raises(SettingsError, match="no usable token of scope admin"):
            check_that_it_may_listen(beyond, store)
    finally:
        store.close()
