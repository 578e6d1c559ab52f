"""What TensorFlow computes in 16 bits on GPUs, carried out on a CPU device: casts, scaled losses, updates."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.expansion.sweep import check
from orchestrator.domain.words.errors import InvalidRequest
from orchestrator.services.facts.catalog import load_catalog
from tests.contract.test_optimizers import ADAM, ADAMW, SGD
from tests.trainer_process import ROOT, environment_for, make_job, run
from tests.unit.builders import spec
from workers.trainer.protocol import EXIT_STATUS

SCRIPTS = Path(__file__).parent / "scripts"
# As it is, one that overflows once it is scaled, and then enough for the factor to grow.
GRADIENTS = [1.0, 1e35, 0.5, -1.0, 2.0, 1e-9, float("inf"), 0.25]
FACTORS = [2.0**power for power in (16, 15, 15, 15, 16, 16, 15, 15)]


def said(python, script, folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)}
    command = [python, str(SCRIPTS / script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.after_change
@pytest.mark.framework("tensorflow")
@pytest.mark.framework("pytorch")
@pytest.mark.parametrize("rule", [{"learning_rate": 0.1, "momentum": 0.9}, {"name": "adam", "learning_rate": 0.1}])
def test_losses_are_scaled_and_updates_left_out_as_pytorch_does(python_of, tmp_path, rule):
    arguments = (json.dumps(rule), json.dumps(GRADIENTS))
    exact, found = (
        said(python_of(one), "loss_scaling.py", tmp_path, one, *arguments) for one in ("pytorch", "tensorflow")
    )
    assert found[0] == exact[0] == [65536.0, 2.0, 0.5, 2000]
    assert [factor for _, factor in found[1]] == [factor for _, factor in exact[1]] == FACTORS
    assert [weight for weight, _ in found[1]] == pytest.approx([weight for weight, _ in exact[1]], rel=1e-5)
    assert found[1][1][0] == found[1][0][0]


@pytest.mark.after_change
@pytest.mark.framework("tensorflow")
@pytest.mark.parametrize(
    ("model", "single"), [("resnet_50", "FusedBatchNormV3"), ("gpt_2", "Softmax")], ids=["resnet_50", "gpt_2"]
)
def test_what_gpus_are_given_in_amp_bf16_multiplies_in_bfloat16_alone(python_of, tmp_path, model, single):
    python = python_of("tensorflow")
    told = {}
    for precision in ("fp32", "amp-bf16"):
        job = make_job(model, "tensorflow", precision=precision)
        size = job["model"]["sizes"]["tiny"]
        size.update({key: 0.0 for key in size if key.endswith("dropout")})
        path = tmp_path / "job.json"
        path.write_text(json.dumps({**job, "process": "worker-0"}))
        told[precision] = said(python, "casts_tensorflow.py", tmp_path, str(path), json.dumps([SGD, ADAM, ADAMW]))
    exact, found = told["fp32"], told["amp-bf16"]
    assert found["losses"] != exact["losses"]
    assert found["losses"] == pytest.approx(exact["losses"], rel=0.03)
    kept = ("FusedBatchNorm", "Softmax", "SparseSoftmax", "ResourceApply")
    for operator, types in found["types"].items():
        assert types == (["float32"] if operator.startswith(kept) else ["bfloat16"]), operator
    assert single in found["types"]
    assert {one for types in exact["types"].values() for one in types} == {"float32"}
    for exactly, rounded in found["updated"]:
        assert rounded == pytest.approx(exactly, abs=0.02)
        assert rounded != exactly


@pytest.mark.after_change
@pytest.mark.framework("tensorflow")
def test_the_graph_of_an_update_is_the_one_that_autograph_would_make(python_of, tmp_path):
    """It is traced without AutoGraph, which takes seconds of each run: so no model may choose by a tensor in Python."""
    asked = [{}, {"precision": "bf16"}]
    traced = [make_job("resnet_50", "tensorflow", **one) for one in asked] + [make_job("gpt_2", "tensorflow")]
    (tmp_path / "jobs.json").write_text(json.dumps([{**job, "process": "worker-0"} for job in traced]))
    found = said(python_of("tensorflow"), "traced_graphs.py", tmp_path, str(tmp_path / "jobs.json"))
    assert [same for _, same in found] == [True] * 3
    assert min(operators for operators, _ in found) > 500


@pytest.mark.after_change
@pytest.mark.framework("tensorflow")
def test_a_model_that_makes_no_casts_is_refused(python_of, tmp_path):
    job = make_job("resnet_50", "tensorflow", precision="bf16")
    job["model"].update(module="tests.support.linear_model", input=None)
    (trainer,) = run(job, tmp_path, python_of("tensorflow"))
    assert trainer.popen.returncode == EXIT_STATUS["unsupported"], trainer.output
    assert "makes no casts of its own" in trainer.data("error")[0]["message"]


@pytest.mark.after_change
@pytest.mark.framework("tensorflow")
def test_an_lstm_in_bfloat16_is_refused_by_the_adapter_too(python_of, tmp_path):
    (trainer,) = run(make_job("lstm_classifier", "tensorflow", precision="bf16"), tmp_path, python_of("tensorflow"))
    assert trainer.popen.returncode == EXIT_STATUS["unsupported"], trainer.output
    assert "BlockLSTM" in trainer.data("error")[0]["message"]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ({"model": "lstm-classifier"}, "bf16 of tensorflow does not go with lstm-classifier: TensorFlow's LSTM"),
        ({"model": "resnet-50", "device": "cuda", "topology": "1x2"}, "does not go with mirrored: TensorFlow"),
        ({"model": "resnet-50", "topology": "1x2", "strategy": "horovod"}, "does not go with horovod: Horovod"),
        ({"model": "resnet-50", "precision": "amp-fp16"}, "precision amp-fp16 is not offered"),
    ],
)
def test_what_tensorflow_lacks_in_16_bits_is_refused_when_it_is_submitted(cell, told):
    asked = {"framework": "tensorflow", "precision": "bf16", "strategy": "auto", "size": "tiny", **cell}
    with pytest.raises(InvalidRequest) as refused:
        check(spec(**asked), Facts(load_catalog(), "cpu", (2, 2)))
    assert told in refused.value.problems[0].message
