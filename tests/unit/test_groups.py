"""How ``make test`` deals the tests to its two processes."""

import pytest


def test_the_tests_of_a_module_go_to_one_process(request: pytest.FixtureRequest) -> None:
    """Else fixtures of modules, which may train for half a minute, are made in every process."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("one process has them all")
    # pytest-xdist writes the group behind the name.
    assert request.node.nodeid.endswith("@tests/unit/test_groups.py")
