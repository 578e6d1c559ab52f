"""Settings come from TBD_* variables, once, and a value that cannot be used is named."""

from pathlib import Path

import pytest

from orchestrator.domain.words.errors import SettingsError
from orchestrator.serve.settings import VARIABLES, read_settings


def test_the_defaults_are_an_embedded_service_on_loopback() -> None:
    settings = read_settings({"TBD_DATA_DIR": "/data"})
    assert settings.database_url == "sqlite:////data/tbd.sqlite3"
    assert (settings.host, settings.cluster, settings.ray_address) == ("127.0.0.1", "ray", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TBD_PORT", "http"),
        ("TBD_PORT", "70000"),
        ("TBD_FENCE_S", "0"),
        ("TBD_DEADLINE_S", "0"),
        ("TBD_KEEP_READINGS_DAYS", "-1"),
        ("TBD_CLUSTER", "slurm"),
        ("TBD_RATE_LIMIT", "-1"),
        ("TBD_RATE_LIMIT", "many"),
        ("TBD_PROXIES", "proxy.example.org"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read_settings({name: value})


def test_a_fence_is_not_shorter_than_it_takes_to_succeed_a_server() -> None:
    shared = {"TBD_DATABASE_URL": "postgresql://tbd@db/tbd", "TBD_RAY_ADDRESS": "head:6379"}
    with pytest.raises(SettingsError, match=r"TBD_FENCE_S=15 is too short .* give 20 or more"):
        read_settings({**shared, "TBD_FENCE_S": "15"})
    for fits in ({**shared, "TBD_FENCE_S": "20"}, {"TBD_RAY_ADDRESS": "head:6379", "TBD_FENCE_S": "15"}):
        assert read_settings(fits).fence_s == float(fits["TBD_FENCE_S"])


def test_every_variable_is_read_and_an_empty_one_is_its_default() -> None:
    empty = read_settings(dict.fromkeys(VARIABLES, ""))
    assert empty == read_settings({})


def test_a_suite_path_has_several_folders() -> None:
    assert read_settings({"TBD_SUITE_PATH": "/a:/b"}).suite_path == (Path("/a"), Path("/b"))


@pytest.mark.parametrize(
    ("host", "on_loopback", "names"),
    [
        ("127.0.0.1", True, ("127.0.0.1",)),
        ("::1", True, ("::1",)),
        ("localhost", True, ("localhost",)),
        ("0.0.0.0", False, ()),
        ("::", False, ()),
        ("10.0.0.7", False, ("10.0.0.7",)),
        ("Node.example.org", False, ("node.example.org",)),
    ],
)
def test_what_is_loopback_and_by_which_names_a_server_is_asked(host: str, on_loopback: bool, names: object) -> None:
    settings = read_settings({"TBD_HOST": host})
    assert (settings.on_loopback, settings.own_names) == (on_loopback, names)


def test_limits_of_rate_are_chosen_by_the_service_unless_they_are_given() -> None:
    assert read_settings({}).rate_limit is None
    assert read_settings({"TBD_RATE_LIMIT": "0"}).rate_limit == 0
    assert read_settings({"TBD_RATE_LIMIT": "12.5"}).rate_limit == 12.5
    assert read_settings({"TBD_PROXIES": "10.0.0.0/8, ::1"}).proxies == "10.0.0.0/8, ::1"
    assert read_settings({"TBD_PROXIES": "*"}).proxies == "*"
