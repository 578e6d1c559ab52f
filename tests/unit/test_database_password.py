"""The password of the database comes from a file, and one that others could read is no secret."""

from pathlib import Path

import pytest
from sqlalchemy import make_url

from orchestrator.domain.words.errors import SettingsError
from orchestrator.serve.settings import read_settings

URL = "postgresql://tbd@postgres:5432/tbd?sslmode=disable"


def settings_with(path: Path, url: str = URL) -> str:
    return read_settings({"TBD_DATABASE_URL": url, "TBD_DATABASE_PASSWORD_FILE": str(path)}).database_url


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "database_password"
    path.write_text("p@ss:w/rd%\n")
    path.chmod(0o440)
    return path


def test_the_password_becomes_part_of_the_url_whatever_its_letters(secret: Path) -> None:
    url = make_url(settings_with(secret))
    assert (url.username, url.password, url.host, url.port) == ("tbd", "p@ss:w/rd%", "postgres", 5432)
    assert url.query == {"sslmode": "disable"}


def test_the_password_is_not_shown_with_the_settings(secret: Path) -> None:
    found = read_settings({"TBD_DATABASE_URL": URL, "TBD_DATABASE_PASSWORD_FILE": str(secret)})
    assert "w/rd" not in repr(found)
    assert "w%2Frd" not in repr(found)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"TBD_DATABASE_PASSWORD_FILE: .*{tmp_path}/none"):
        settings_with(tmp_path / "none")


def test_a_file_that_everybody_may_read_is_refused_with_the_way_out(secret: Path) -> None:
    secret.chmod(0o644)
    with pytest.raises(SettingsError, match=r"mode 0644.*chmod"):
        settings_with(secret)


def test_an_empty_file_is_refused(secret: Path) -> None:
    secret.write_text("\n")
    with pytest.raises(SettingsError, match="is empty"):
        settings_with(secret)


@pytest.mark.parametrize("url", ["", "postgresql://postgres/tbd", "postgresql://tbd:other@postgres/tbd"])
def test_a_url_without_a_user_or_with_a_password_of_its_own_contradicts_it(secret: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="TBD_DATABASE_URL has to name the user"):
        settings_with(secret, url)
