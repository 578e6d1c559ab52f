"""A quick version of `bench published`: the suite's networks and the published ones are the same, and both train.

The image classifiers are made for one size only, so that ResNet-50 stands for them; the others are tried at size tiny.
"""

import pytest

from orchestrator.services.facts.catalog import load_catalog
from bench import published

CASES = {name: "tiny" for name, network in published.NETWORKS.items() if network.kit == "transformers"}
CASES["resnet-50"] = "small"


def case(name):
    folder = load_catalog().models[published.NETWORKS[name].model].module.replace(".", "/")
    benchmarks = ["bench/published" + end for end in (".py", ".txt", "_loop.py")]
    benchmarks.append(f"bench/published_{published.NETWORKS[name].kit}.py")
    own = ["suites/assemble/pytorch", "workers/interpreters/pytorch", folder]
    return pytest.param(name, marks=pytest.mark.depends_on(*benchmarks, *own))


@pytest.fixture(scope="module")
def folder():
    with published.rig() as found:
        yield found


@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("name", [case(name) for name in CASES])
def test_the_published_network_is_the_same_and_trains(folder, name):
    ours, theirs = (
        published.read(folder, published.NETWORKS[name], side, CASES[name]) for side in ("ours", "published")
    )
    published.check(name, ours, theirs)
    assert min(ours["samples_per_s"], theirs["samples_per_s"]) > 0
    assert ours["loss"] != ours["dropped_loss"] or name == "resnet-50"  # which drops nothing
