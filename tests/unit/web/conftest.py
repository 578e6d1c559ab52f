"""The rig of the tests of pages: that of REST."""

from tests.unit.api.conftest import rig

__all__ = ["rig"]
