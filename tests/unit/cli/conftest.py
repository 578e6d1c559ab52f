"""Reports are made of what REST answers, so their tests use its rig."""

from tests.unit.api.conftest import rig

__all__ = ["rig"]
