"""TLS by files, and files that hold a secret: what is wrong is said before anything starts."""

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.domain.words.errors import SettingsError
from orchestrator.serve.secret_files import NOT_EVERYBODY, OWNER_ONLY, read_secret
from orchestrator.serve.settings import Settings, read_settings
from orchestrator.serve.tls import context_of
from tests.support.certificates import certificate


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two certificates and their keys."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("one", "two"):
        certificate(folder, name)
    return folder


def settings(**given: str | Path) -> Settings:
    return read_settings({"TBD_DATA_DIR": "/data"} | {name: str(value) for name, value in given.items()})


def test_a_certificate_and_its_key_serve_https(made: Path) -> None:
    context = context_of(settings(TBD_TLS_CERT=made / "one.pem", TBD_TLS_KEY=made / "one.key"))
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context_of(settings()) is None


@pytest.mark.parametrize(
    ("cert", "key", "told"),
    [
        ("one.pem", None, "together or not at all"),
        (None, "one.key", "together or not at all"),
        ("none.pem", "one.key", "TBD_TLS_CERT: there is no file .*none.pem"),
        ("one.pem", "none.key", "TBD_TLS_KEY: there is no file .*none.key"),
        ("one.pem", "two.key", "TBD_TLS_KEY is not the key of TBD_TLS_CERT"),
        ("one.key", "one.key", "cannot be used"),
        ("one.pem", "certificate.key", "cannot be used"),
        ("one.pem", "open.key", "TBD_TLS_KEY: .* chmod 640 .*open.key"),
        ("one.pem", "locked.key", "TBD_TLS_KEY is encrypted"),
    ],
)
def test_files_that_cannot_be_used_are_named(made: Path, cert: str | None, key: str | None, told: str) -> None:
    for name, holds, mode in (("open.key", "one.key", 0o644), ("certificate.key", "one.pem", 0o600)):
        (made / name).write_bytes((made / holds).read_bytes())
        (made / name).chmod(mode)
    certificate(made, "locked", password="secret")
    given = settings()
    given = replace(given, tls_cert=made / cert if cert else None, tls_key=made / key if key else None)
    with pytest.raises(SettingsError, match=told):
        context_of(given)


def test_a_secret_is_read_where_nobody_else_can(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("s")
    path.chmod(0o640)
    assert read_secret(path, "TBD_X", NOT_EVERYBODY) == "s"
    with pytest.raises(SettingsError, match=r"mode 0640\): chmod 600"):
        read_secret(path, "TBD_X", OWNER_ONLY)
    path.write_bytes(b"\xff")
    path.chmod(0o600)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_secret(path, "TBD_X")
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        read_secret(tmp_path, "TBD_X", 0)
