"""What a person meets at the terminal: help, mistakes, encodings, streams that are closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli import output
from orchestrator.cli.client import ServerProblem
from orchestrator.cli.main import COMMANDS, GROUPS, main

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
        (["ls", "--limt=3"], "there is no option --limt: did you mean --limit?"),
        (["nodes", "drian"], "'drian' is none of drain, resume, quarantine: did you mean drain?"),
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
    code = f"from orchestrator.cli import streams; streams.prepare(); print({TABLE!r})"
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
    code = "from orchestrator.cli import streams; streams.prepare(); print('±')"
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
