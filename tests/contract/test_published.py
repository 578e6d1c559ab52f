"""A quick version of `bench published`: the suite's networks and the published ones are the same, and both train.

The image classifiers are made for one size only, so that ResNet-50 stands for them; so are the detectors. The others
are tried at size tiny.
"""

import pytest

from bench import published

CASES = {name: "tiny" for name, network in published.NETWORKS.items() if network.kit != "pytorchcv"}
CASES |= dict.fromkeys(("resnet-50", "mask-rcnn", "faster-rcnn"), "small")


@pytest.fixture(scope="module")
def folder():
    with published.rig() as found:
        yield found


@pytest.mark.after_change
@pytest.mark.timeout(600)  # torchvision's takes half a minute of a core to be compiled
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.framework(published.NETWORKS[name].framework)) for name in CASES]
)
def test_the_published_network_is_the_same_and_trains(folder, name):
    network = published.NETWORKS[name]._replace(warm_up_steps=1, steps=1)
    ours, theirs = (published.read(folder, network, side, CASES[name]) for side in ("ours", "published"))
    published.check(name, ours, theirs)
    assert min(ours["samples_per_s"], theirs["samples_per_s"]) > 0
    assert ours["loss"] != ours["dropped_loss"] or name in (
        "resnet-50",
        "deep-speech-2",
        "wgan-gp",
        "seq2seq",
        "a3c",
        "faster-rcnn",
    )  # which drop nothing
