"""One engine and one stack for all tests of this folder, and that nothing of them is left behind."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import engine as engines
from tests.deploy.engine import Engine, NoEngine
from tests.deploy.stack import Stack
from tests.support.service import until

KEPT = "4GB"  # of layers that may be of use again


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what lies in this folder where nobody could have an engine, with one line for all."""
    here = Path(__file__).parent
    for item in items if os.geteuid() else []:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="a container engine of one's own takes root"))


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    """A container engine. Where there can be none the tests are skipped; but not in continuous integration as root,
    which would otherwise prove nothing and say that all is well."""
    made = engines.engine()
    try:
        running = made.__enter__()
    except NoEngine as error:
        if os.environ.get("CI") and os.geteuid() == 0:
            pytest.fail(f"there has to be a container engine here: {error}")
        pytest.skip(f"no container engine: {error}")
    before = running.before
    try:
        yield running
    finally:
        made.__exit__(None, None, None)
    assert engines.traces(running.environment) == before


@pytest.fixture(scope="package")
def stack(engine: Engine) -> Iterator[Stack]:
    """The stack, up, with its first token; the images are built of the tree as it is."""
    folder = Path(tempfile.mkdtemp(prefix="tbd-stack-", dir="/tmp"))
    try:
        made = Stack(engine, folder)
        made.build()
        try:
            made.up()
            yield made
        finally:
            made.down("--volumes", "--remove-orphans")
        for kind, words in {"container": ("-a",), "volume": (), "network": ("--filter", "type=custom")}.items():
            assert engine.docker(kind, "ls", "-q", *words) == "", f"a {kind} is left"
        until(lambda: not [link for link in engines.links() if link.startswith("br-")], 10)
        engine.tried("image", "prune", "--force")  # of earlier trees; the layers that are used again stay
        engine.tried("builder", "prune", "--force", "--keep-storage", KEPT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
