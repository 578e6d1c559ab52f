"""``tbd run MODEL`` takes every axis that a spec has."""

import argparse

import pytest

from orchestrator.cli.spec import spec_options
from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.spec import parse_spec

# Axis -> the words that name two values of it. ``model`` is the command's own argument.
WORDS = {
    "framework": ["--framework", "pytorch,mxnet"],
    "strategy": ["--strategy", "ddp,horovod"],
    "interpreter": ["--interpreter", "pytorch,horovod-pytorch"],
    "device": ["--device", "cpu,cuda"],
    "precision": ["--precision", "fp32,bf16"],
    "size": ["--size", "full,small"],
    "data": ["--data", "synthetic,photographs"],
    "data_on": ["--data-on", "host,device"],
    "topology": ["--topology", "1x1,2x1"],
    "fabric": ["--fabric", "ethernet,infiniband"],
    "per_device_batch_size": ["--batch", "4,8"],
    "global_batch_size": ["--global-batch", "64,128"],
    "gpu_model": ["--gpu-model", "H100,H200"],
    "seed": ["--seed", "1,2"],
}


def test_there_are_words_for_every_axis() -> None:
    assert set(WORDS) == set(AXES) - {"model"}


@pytest.mark.parametrize("axis", WORDS)
def test_an_axis_can_be_given_on_the_command_line(axis: str) -> None:
    parser = argparse.ArgumentParser()
    spec_options.configure(parser)
    spec = parse_spec(spec_options.spec_from(parser.parse_args(["resnet-50", *WORDS[axis]]), "pytorch"))
    found = spec.nodes.gpu_model if axis == "gpu_model" else getattr(spec, axis)
    assert len(found) == 2
