"""Switches of a framework, really on: they take effect, are recorded, and give the losses that there are without.

What is compiled is compiled before the first step, which no timed interval sees. The bounds are judgements: two orders
of rounding are told apart by 1e-6 in the first loss, and by what one update makes of that in the second.
"""

import json
import subprocess

import pytest

from tests.support.strategy_jobs import strategy_job
from tests.trainer_process import ROOT, environment_for, make_job, run
from workers.trainer.protocol import EXIT_STATUS

# The first loss may be this far from the one without, relative; of the second, (framework, switch) -> model, how far.
# (Seen of the second: 4e-4 with compile, 3e-4 with XLA, 1e-6 or less of the others.)
FIRST = 1e-5
CELLS = {
    ("pytorch", "channels_last"): ("resnet_50", 1e-5),
    ("pytorch", "fused_optimizer"): ("resnet_50", 1e-5),
    ("pytorch", "compile"): ("alexnet", 3e-3),
    ("tensorflow", "xla"): ("resnet_50", 3e-3),
}
COMPILED = ("compile", "xla")
COMPLETE = {"backend": "inductor", "graphs": 1, "breaks": 0}


def marked(framework, *values, slow=False):
    """A parameter for a test with ``framework``."""
    own = [pytest.mark.after_change] if slow else []
    return pytest.param(*values, marks=[pytest.mark.framework(framework), *own])


@pytest.fixture(scope="module")
def trained(python_of, tmp_path_factory):
    """A function: (framework, model, switch or None, precision) -> the trainer of one run, carried out once."""
    trainers = {}

    def train(framework, model, switch=None, precision="fp32"):
        cell = framework, model, switch, precision
        if cell not in trainers:
            options = {switch: True} if switch else {}
            job = make_job(model, framework, options=options, precision=precision, max_steps=3, timeout_s=600.0)
            (trainers[cell],) = run(job, tmp_path_factory.mktemp("run"), python_of(framework))
        return trainers[cell]

    return train


def losses(trainer):
    assert trainer.popen.returncode == 0, trainer.output
    return [loss["value"] for loss in trainer.data("loss")]


@pytest.mark.parametrize(("framework", "switch"), [marked(cell[0], *cell, slow=cell[1] in COMPILED) for cell in CELLS])
@pytest.mark.after_change
def test_a_switch_changes_the_losses_by_no_more_than_rounding(trained, framework, switch):
    model, bound = CELLS[framework, switch]
    without, found = trained(framework, model), trained(framework, model, switch)
    assert losses(found)[0] == pytest.approx(losses(without)[0], rel=FIRST)
    assert losses(found)[1] == pytest.approx(losses(without)[1], rel=bound)
    told, before = (one.data("built")[0]["mathematics"] for one in (found, without))
    assert told != before
    assert {"switches", "compiled"}.isdisjoint(before)
    if switch in COMPILED:
        longest_s = max(interval["duration_s"] for interval in found.data("interval"))
        assert longest_s < 0.5 * found.data("built")[0]["build_s"]


@pytest.mark.parametrize(("framework", "switch"), [marked("tensorflow", "tensorflow", "xla", slow=True)])
def test_what_is_compiled_for_gpus_in_16_bits_changes_the_losses_by_no_more_than_their_rounding(
    trained, framework, switch
):
    model, _ = CELLS[framework, switch]
    without, found = (losses(trained(framework, model, one, "amp-fp16")) for one in (None, switch))
    assert found[:2] == pytest.approx(without[:2], rel=4e-3)  # as 16 bits differ from 32: test_precisions.py


@pytest.mark.parametrize(
    ("framework", "switch", "told"),
    [
        # ResNet of size tiny has 17 convolutions.
        marked("pytorch", "pytorch", "channels_last", {"channels_last_filters": 17}),
        marked("pytorch", "pytorch", "fused_optimizer", {"fused_optimizer": True}),
        marked("pytorch", "pytorch", "compile", {"compiled": COMPLETE}, slow=True),
        marked("tensorflow", "tensorflow", "xla", {"jit_compile": True}, slow=True),
    ],
)
def test_what_is_in_force_is_recorded(trained, framework, switch, told):
    mathematics = trained(framework, CELLS[framework, switch][0], switch).data("built")[0]["mathematics"]
    assert {name: mathematics[name] for name in told} == told


SCRIPT = """
import json, sys
import torch
from suites.assemble.pytorch import build as assembled
from workers.trainer.base import job as jobs
for path in sys.argv[1:]:
    job = jobs.job_of(json.load(open(path)))
    (images, _), _ = next(assembled.build(job, job.process, torch.device("cpu")).batches(0))
    print(tuple(images.shape), images.is_contiguous(memory_format=torch.channels_last))
"""


@pytest.mark.framework("pytorch")
def test_synthetic_images_lie_as_the_network_wants_them(python_of, tmp_path):
    for on in (False, True):
        job = make_job("resnet_50", "pytorch", options={"channels_last": on})
        (tmp_path / f"{on}.json").write_text(json.dumps({**job, "process": "worker-0"}))
    python = python_of("pytorch")
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment_for(python)}
    command = [python, "-c", SCRIPT, str(tmp_path / "False.json"), str(tmp_path / "True.json")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, timeout=240)
    assert done.stdout == "(4, 3, 64, 64) False\n(4, 3, 64, 64) True\n"


@pytest.mark.parametrize(
    ("framework", "model", "switch", "kind", "told"),
    [
        marked("pytorch", "pytorch", "resnet_50", "xla", "unsupported", "this adapter has no switch xla"),
        marked("pytorch", "pytorch", "resnet_50", "cuda_graphs", "unsupported", "a CPU device records nothing"),
        marked("tensorflow", "tensorflow", "lstm_classifier", "xla", "unsupported", "BlockLSTM", slow=True),
        marked("mxnet", "mxnet", "resnet_50", "compile", "unsupported", "this adapter has no switch compile"),
    ],
)
@pytest.mark.after_change
def test_what_cannot_be_is_refused(trained, framework, model, switch, kind, told):
    trainer = trained(framework, model, switch)
    assert trainer.popen.returncode == EXIT_STATUS[kind], trainer.output
    assert told in trainer.data("error")[0]["message"]


@pytest.mark.parametrize(
    ("compiler", "told"),
    [
        marked("pytorch", "no-such-compiler", "compile needs a compiler, no-such-compiler, and none is on the PATH"),
        marked("pytorch", "/bin/false", "torch.compile cannot compile this model here", slow=True),
    ],
)
def test_without_a_compiler_that_works_nothing_is_compiled(python_of, tmp_path, monkeypatch, compiler, told):
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    job = make_job("alexnet", "pytorch", options={"compile": True})
    (trainer,) = run(job, tmp_path, python_of("pytorch"))
    assert trainer.popen.returncode == EXIT_STATUS["setup_failed"], trainer.output
    assert told in trainer.data("error")[0]["message"]


@pytest.mark.parametrize(
    "switches",
    [marked("pytorch", one, slow=True) for one in (("channels_last", "fused_optimizer"), ("compile",))],
)
def test_two_ranks_end_with_equal_weights(python_of, tmp_path, switches):
    options = dict.fromkeys(switches, True)
    job = strategy_job("pytorch", "ddp", nodes=1, devices=2, options=options, max_steps=3, timeout_s=600.0)
    trainers = run(job, tmp_path, python_of("pytorch"))
    replicas = [replica for trainer in trainers for replica in trainer.data("replica")]
    assert len(replicas) == 2, [trainer.output for trainer in trainers]
    assert len({replica["sha256"] for replica in replicas}) == 1
