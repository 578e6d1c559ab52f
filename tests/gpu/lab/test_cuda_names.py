"""The names of PyTorch's CUDA side that the source uses: found under whatever alias, and tried without a GPU."""

import subprocess
from types import SimpleNamespace

import pytest

from tests.gpu import names
from tests.trainer_process import ROOT


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch.cuda.empty_cache()", "torch.cuda.empty_cache"),
        ("import torch as t\nt.cuda.Stream(0)", "torch.cuda.Stream"),
        ("from torch import cuda as c\nc.memory.stats()", "torch.cuda.memory.stats"),
        ("from torch.cuda import Event\nEvent()", "torch.cuda.Event"),
        ("from torch.cuda.amp import GradScaler\nGradScaler()", "torch.cuda.amp.GradScaler"),
        ("import torch\ntorch.zeros(1).cuda()", ".cuda"),
        ("import torch\ntensor.record_stream(stream)", ".record_stream"),
        ("import torch\nif trace.cuda: pass", None),
        ("import torch\ntorch.nn.Linear(1, 1)", None),
    ],
)
def test_a_use_is_found_under_whatever_name(source, name):
    assert [use.name for use in names.in_source(source, "here")] == ([name] if name else [])


def synchronize():
    raise RuntimeError("Found no NVIDIA driver on your system.")


# What a newer PyTorch might be: an argument has gone, and a function.
NEWER = SimpleNamespace(
    version=SimpleNamespace(cuda="14.0"), cuda=SimpleNamespace(synchronize=synchronize), device=lambda *_: "cuda:0"
)


def test_a_name_that_has_gone_and_an_argument_that_is_no_longer_taken_are_told():
    found = names.in_source("import torch\ntorch.cuda.synchronize(1)\ntorch.cuda.init()", "here")
    wrong = names.tried(NEWER, found)
    assert [told.split(":")[0] for told in wrong] == ["torch.cuda.init", "torch.cuda.synchronize", "here"]


@pytest.mark.framework("pytorch")
def test_all_names_are_there_in_the_build_without_cuda(python_of):
    command = [python_of("pytorch"), "-m", "tests.gpu.names"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
