"""A host on which another version of tbd is installed is refused, and both versions are told."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.bench import ROOT, Bench
from tests.support.service import until
from workers.node.code_version import code_version, described

pytestmark = pytest.mark.after_change

ASKED = ROOT / "workers" / "node" / "code_version.py"
OTHER = "0.0.9"


@pytest.fixture
def another_version_on_two(bench: Bench) -> Iterator[None]:
    """Host ``two`` as if somebody had forgotten it in an upgrade."""
    altered = bench.folder / "another_version.py"
    altered.write_text(ASKED.read_text() + f"\n\ndef _installed_version():\n    return {OTHER!r}\n")
    host = bench.hosts["two"]
    try:
        host.cut_power()
        bench.network.boot("two")
        host.run("mount", "--bind", str(altered), str(ASKED))  # for this host alone: its mounts are its own
        bench.start_ray("two")
        yield
    finally:
        host.cut_power()
        bench.network.boot("two")
        bench.start_ray("two")
        until(lambda: "two" in bench.available(), 150, 0.5)


def test_a_host_of_another_version_is_refused_with_both_versions(bench: Bench, another_version_on_two: None) -> None:
    def refused() -> dict[str, Any] | None:
        found = [node for node in bench.nodes() if node["name"] == "two" and OTHER in (node["reason"] or "")]
        return found[0] if found else None

    node = until(refused, 150, 0.5)  # a busy machine takes its time to boot it
    assert node["state"] == "unreachable"
    assert described(code_version()) in node["reason"]
    assert "install the service's version on that host" in node["reason"]
    assert sorted(set(bench.available()) - {"head"}) == ["one", "three"]
