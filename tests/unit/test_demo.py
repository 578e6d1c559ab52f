"""What ``make demo`` asks for: of a host with GPUs and of one without, and what a person adds."""

import pytest
import yaml

from deploy import demo

BOTH = ["pytorch", "tensorflow"]


@pytest.mark.parametrize(
    ("frameworks", "own", "gpus", "suite", "options"),
    [
        (BOTH, [], False, "quick", ["--framework", "pytorch", "--framework", "tensorflow", "--batch", "1"]),
        (["tensorflow"], ["--batch", "2"], True, "quick", ["--framework", "tensorflow", "--batch", "2"]),
        (BOTH, ["--seed", "2"], True, "gpus", ["--batch", "256", "--repeats", "4", "--seed", "2"]),
    ],
)
def test_the_demo_measures_what_the_host_has(frameworks, own, gpus, suite, options):
    assert demo.asked(frameworks, own, gpus) == (f"suites/{suite}.yaml", options)


def test_of_the_suite_for_gpus_that_batch_is_of_one_network():
    spec = yaml.safe_load((demo.ROOT / demo.OF_GPUS).read_text())
    batch = {"per_device_batch_size": int(demo.SHORTENED[1])}
    assert [one for one in spec["model"] if {"model": one, **batch} not in spec["exclude"]] == ["resnet-50"]
