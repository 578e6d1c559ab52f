"""Every framework updates weights by the same equations: held against them in double precision, on a linear fit."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import linear_model
from tests.trainer_process import ROOT, environment_for, make_job

SCRIPT = Path(__file__).parent / "scripts" / "optimizers.py"
STEPS = 6
SGD = {
    "learning_rate": 0.1,
    "momentum": 0.9,
    "weight_decay": 0.02,
    "warmup_steps": 3,
    "decay": "cosine",
    "decay_steps": 8,
}
# An epsilon that is large beside gradients: where it is added is seen.
ADAM = {
    "name": "adam",
    "learning_rate": 0.2,
    "betas": [0.8, 0.95],
    "epsilon": 0.01,
    "weight_decay": 0.02,
    "warmup_steps": 2,
    "decay": "inverse-sqrt",
}
ADAMW = {**ADAM, "name": "adamw", "weight_decay": 0.3}
PLAIN_SGD = {**SGD, "momentum": 0.0}
# The norm is more at some of the steps and less at others.
LIMITED = {**SGD, "gradient_norm_limit": 4.0}
# CNTK has no decay of its own for Adam, adds epsilon before the correction, and its momentum holds earlier rates.
RULES = {name: [SGD, ADAM, ADAMW, LIMITED] for name in ("pytorch", "tensorflow", "mxnet")} | {
    "cntk": [PLAIN_SGD, {**ADAM, "epsilon": 1e-8}, {**ADAMW, "epsilon": 1e-8, "weight_decay": 0.0}]
}


@pytest.mark.parametrize("framework", [pytest.param(name, marks=pytest.mark.framework(name)) for name in RULES])
def test_weights_are_updated_as_the_equations_say(python_of, tmp_path, framework):
    python = python_of(framework)
    job = make_job("resnet_50", framework, max_steps=STEPS)
    job["model"].update(module="tests.support.linear_model", input=None)
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "worker-0"}))
    command = [python, str(SCRIPT), framework, str(tmp_path / "job.json"), json.dumps(RULES[framework])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for rule, told in zip(RULES[framework], json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert told == pytest.approx(linear_model.losses(STEPS, rule), rel=1e-4), rule


@pytest.mark.framework("cntk")
@pytest.mark.parametrize(
    ("rule", "told"),
    [(ADAMW, "has no AdamW"), (SGD, "cannot change the rate of SGD"), (LIMITED, "not that of all together")],
)
def test_cntk_refuses_what_it_would_compute_otherwise(python_of, tmp_path, rule, told):
    job = make_job("resnet_50", "cntk")
    job["model"].update(module="tests.support.linear_model", input=None)
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "worker-0"}))
    python = python_of("cntk")
    command = [python, str(SCRIPT), "cntk", str(tmp_path / "job.json"), json.dumps([rule])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment_for(python)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert told in done.stderr
