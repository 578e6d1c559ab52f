"""Where the processes of a cluster find this very installation."""

import sysconfig
from pathlib import Path

import pytest

from orchestrator.cluster import records


def test_a_checkout_goes_before_what_was_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROOT", Path("/checkout"))
    assert records.package_path() == "/checkout"
    assert records.package_path("/models:/more") == "/checkout:/models:/more"


def test_site_packages_are_not_put_before_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROOT", Path(sysconfig.get_path("purelib")).resolve())
    assert records.package_path() == ""
    assert records.package_path("/models") == "/models"
