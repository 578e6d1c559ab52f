"""The token that commands present: where it comes from, what is refused before it is sent, and what is told of it."""

from pathlib import Path

import pytest

from orchestrator.cli.exits import NOT_ALLOWED, CommandError
from orchestrator.cli.main import main
from orchestrator.cli.rest import credentials
from orchestrator.cli.rest.client import Client, ServerProblem
from orchestrator.serve.settings import CLIENT_VARIABLES

TOKEN = "tbd_0123456789abcdefghjk_" + "0123456789abcdef" * 4
HERE = "http://127.0.0.1:8585"


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TBD_TOKEN", "TBD_TOKEN_FILE", "TBD_INSECURE", "TBD_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def token_file(path: Path, text: str = TOKEN + "\n", mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_a_token_none_is_presented() -> None:
    assert credentials.token_for(HERE) is None


def test_the_variable_goes_before_the_file_and_that_before_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    others = [TOKEN[:-1] + digit for digit in "abc"]
    token_file(tmp_path / ".config" / "tbd" / "token", others[0])
    assert credentials.token_for(HERE) == others[0]
    monkeypatch.setenv("TBD_TOKEN_FILE", str(token_file(tmp_path / "mine", others[1])))
    assert credentials.token_for(HERE) == others[1]
    monkeypatch.setenv("TBD_TOKEN", others[2])
    assert credentials.token_for(HERE) == others[2]


def test_the_default_file_is_that_of_the_settings() -> None:
    assert CLIENT_VARIABLES["TBD_TOKEN_FILE"][0] == credentials.DEFAULT_FILE


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_can_read_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    path = token_file(tmp_path / "token", mode=mode)
    monkeypatch.setenv("TBD_TOKEN_FILE", str(path))
    with pytest.raises(CommandError, match=f"chmod 600 {path}"):
        credentials.token_for(HERE)


def test_a_named_file_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TBD_TOKEN_FILE", str(tmp_path / "nothing"))
    with pytest.raises(CommandError, match=r"TBD_TOKEN_FILE: there is no file .*nothing"):
        credentials.token_for(HERE)


@pytest.mark.parametrize("text", ["secret", TOKEN + "0", f"{TOKEN}\r\nX-Evil: 1", "tbd_x", "ä" * 89])
def test_what_is_no_token_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TBD_TOKEN", text)
    with pytest.raises(CommandError, match="TBD_TOKEN holds no token") as caught:
        credentials.token_for(HERE)
    assert text not in str(caught.value)


def test_a_token_does_not_go_over_a_network_in_clear_unless_that_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TBD_TOKEN", TOKEN)
    for url in ("https://tbd.example.org", "http://localhost:1", "http://[::1]:1", HERE):
        assert credentials.token_for(url) == TOKEN
    with pytest.raises(CommandError, match=r"not encrypted.*https://.*TBD_INSECURE=1"):
        credentials.token_for("http://control-plane:8585")
    monkeypatch.setenv("TBD_INSECURE", "1")
    assert credentials.token_for("http://control-plane:8585") == TOKEN


def test_an_authority_s_file_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", token_file(tmp_path / "ca", "no certificate")):
        monkeypatch.setenv("TBD_CA_FILE", str(path))
        with pytest.raises(CommandError, match=f"TBD_CA_FILE={path}"):
            credentials.tls_context()


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(CommandError, match="TBD_TOKEN"):
        Client("http://me:secret@127.0.0.1:8585")


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_is_told_so_by_the_exit_code(status: int) -> None:
    problem = ServerProblem(status, {"detail": "a token is needed here"})
    assert (problem.code, str(problem)) == (NOT_ALLOWED, "a token is needed here")


def test_no_command_has_an_option_for_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("ls", "submit", "audit"):
        with pytest.raises(SystemExit):
            main([command, "--token", TOKEN])
        assert TOKEN not in capsys.readouterr().err.replace("--token", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add"], "which? tbd token add NAME"),
        (["revoke"], "which? tbd token revoke NAME|ID"),
        (["add", "ada", "--expires", "soon"], "write days, such as 90d, or never"),
        (["add", "ada", "--expires", "0d"], "write days, such as 90d, or never"),
        (["add", "a b"], "name"),
        (["revoke", "nobody"], "there is no usable token 'nobody'"),
        (["revoke", "tok_nobody"], "there is no token 'tok_nobody'"),
    ],
)
def test_what_makes_no_sense_is_told(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.delenv("TBD_SERVER", raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    assert main(["token", *words]) == 2
    assert told in capsys.readouterr().err


def test_the_first_token_is_made_before_there_is_a_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TBD_SERVER", raising=False)
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    assert main(["token", "ls"]) == 4
    assert "nothing here yet" in capsys.readouterr().err
    assert main(["token", "add", "ada", "--scope", "admin", "--expires", "never"]) == 0
    made = capsys.readouterr()
    assert credentials._TOKEN.fullmatch(made.out.strip())  # stdout has the token, and nothing else
    assert made.out.strip() not in made.err
    assert "may admin as ada, for good" in made.err
    assert main(["token", "revoke", "ada"]) == 0
    assert main(["token", "ls"]) == 0
    assert "revoked" in capsys.readouterr().out
