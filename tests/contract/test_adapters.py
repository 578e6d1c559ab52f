"""What every adapter must do, by real processes that really train."""

import json
import math
import os
import shutil
import subprocess
import sys

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.trainer_process import ROOT, dataset_facts, environment_for, make_job, run
from workers.trainer.protocol import EXIT_STATUS

SLEEP = {"step_time_s": 0.002}
TRAINING = [
    pytest.param("pytorch", marks=pytest.mark.framework("pytorch")),
    pytest.param("tensorflow", marks=pytest.mark.framework("tensorflow")),
    pytest.param("mxnet", marks=pytest.mark.framework("mxnet")),
    pytest.param("cntk", marks=pytest.mark.framework("cntk")),
]
# TensorFlow takes longest to begin, and reads files as the others do.
OF_FILES = [
    pytest.param(
        *one.values, marks=[*one.marks, *([pytest.mark.after_change] if one.values[0] == "tensorflow" else [])]
    )
    for one in TRAINING
]


@pytest.fixture(scope="module")
def trained(python_of, tmp_path_factory):
    """A function: framework -> the trainer of one finished run on synthetic data, carried out once."""
    trainers = {}

    def train(name):
        if name not in trainers:
            if name == "sleep":
                job, python = make_job("sleep", "sleep", options=SLEEP), sys.executable
            else:
                job, python = make_job("resnet_50", name), python_of(name)
            (trainers[name],) = run(job, tmp_path_factory.mktemp(name), python)
        assert trainers[name].popen.returncode == 0, trainers[name].output
        return trainers[name]

    return train


@pytest.fixture(params=["sleep", *TRAINING])
def finished(request, trained):
    return trained(request.param)


def test_every_event_is_there_in_the_order_of_the_walk(finished):
    kinds = [event["kind"] for event in finished.events()]
    assert kinds[:4] == ["started", "versions", "joined", "built"]
    assert kinds[4:16] == ["interval", "loss"] * 6
    assert kinds[16:] == ["stopped", "activity", "memory", "finished"]


def test_steps_are_counted_and_their_work_is_stated(finished):
    intervals = finished.data("interval")
    assert [interval["first_step"] for interval in intervals] == [1, 2, 3, 4, 5, 6]
    assert [interval["phase"] for interval in intervals] == ["warmup"] + ["timed"] * 5
    assert all(interval["duration_s"] > 0 for interval in intervals)
    assert all(list(interval["work"].values()) == [4] for interval in intervals)
    assert finished.data("finished")[0]["steps"] == 6


def test_losses_are_finite(finished):
    assert all(math.isfinite(loss["value"]) for loss in finished.data("loss"))


def test_the_mathematics_are_recorded_and_fp32_is_fp32(finished):
    mathematics = finished.data("built")[0]["mathematics"]
    assert mathematics["precision"] == "fp32"
    assert not mathematics.get("tf32")


def test_active_time_lies_within_the_elapsed(finished):
    (activity,) = finished.data("activity")
    assert 0 < activity["active_s"] <= activity["elapsed_s"]
    assert activity["method"] in ("operator-union", "node-sum", "waited")


def test_peak_memory_is_at_least_that_of_weights_gradients_and_momenta(finished):
    (memory,) = finished.data("memory")
    assert memory["peak_bytes"] > 3 * 4 * finished.data("built")[0]["parameters"]
    assert memory["method"]


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_equal_seeds_end_with_equal_weights_and_other_seeds_do_not(trained, python_of, tmp_path):
    """Fresh processes: the digest is that of the weights, and nothing else goes into it."""
    digests = [trained("pytorch").data("finished")[0]["weights_sha256"]]
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (trainer,) = run(make_job("resnet_50", "pytorch", seed=seed), folder, python_of("pytorch"))
        digests.append(trainer.data("finished")[0]["weights_sha256"])
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("framework", OF_FILES)
def test_a_run_on_real_files_decodes_them_ahead_and_learns(python_of, photographs, tmp_path, framework):
    dataset = dataset_facts("photographs", photographs)
    job = make_job("resnet_50", framework, dataset=dataset, max_steps=40, per_device_batch_size=8)
    (trainer,) = run(job, tmp_path, python_of(framework))
    assert trainer.popen.returncode == 0, trainer.output
    losses = [loss["value"] for loss in trainer.data("loss")]
    assert sum(losses[-10:]) < sum(losses[:10])
    assert all(interval["input_s"] <= interval["duration_s"] for interval in trainer.data("interval"))


@pytest.mark.parametrize("framework", OF_FILES)
def test_an_image_that_cannot_be_read_is_named(python_of, photographs, tmp_path, framework):
    root = tmp_path / "photographs"
    shutil.copytree(photographs / "train" / "n90000001", root / "train" / "n90000001")
    broken = root / "train" / "n90000001" / "n90000001_7.JPEG"
    broken.write_bytes(broken.read_bytes()[:700])
    job = make_job("resnet_50", framework, dataset=dataset_facts("photographs", root), max_steps=60)
    (trainer,) = run(job, tmp_path, python_of(framework))
    assert trainer.popen.returncode == EXIT_STATUS["setup_failed"], trainer.output
    assert str(broken) in trainer.data("error")[0]["message"]


def model_with(folder, options):
    """The facts of a model as they travel with these options."""
    found = next(one for one in load_catalog().models.values() if one.module == f"suites.models.{folder}")
    return found.facts_with(options)


# Models whose inputs are sub-words: with these options on the dataset of this folder, in these frameworks.
ON_TEXTS = (
    ("gpt_2", {}, "documentation", ("pytorch", "tensorflow")),
    ("bert_base", {"task": "pretrain"}, "documentation_articles", ("pytorch", "tensorflow")),
    ("bert_base", {"task": "finetune"}, "documentation_questions", ("pytorch", "tensorflow")),
)


@pytest.mark.parametrize(
    ("model", "options", "folder", "framework"),
    [(*case, framework) for *case, frameworks in ON_TEXTS for framework in frameworks],
)
@pytest.mark.after_change
def test_a_run_on_real_texts_counts_its_input_apart(
    python_of, made_dataset, tmp_path, model, options, folder, framework
):
    dataset = dataset_facts(folder, made_dataset(folder))
    job = make_job(model, framework, dataset=dataset, options=options, max_steps=20, per_device_batch_size=8)
    job["model"] = model_with(model, options)
    (trainer,) = run(job, tmp_path, python_of(framework))
    assert trainer.popen.returncode == 0, trainer.output
    assert all(0 < interval["input_s"] <= interval["duration_s"] for interval in trainer.data("interval"))
    assert all(min(interval["work"].values()) > 0 for interval in trainer.data("interval"))


@pytest.mark.framework("pytorch")
def test_a_dataset_that_is_not_there_is_a_failed_set_up(python_of, tmp_path):
    """All frameworks' loaders list the files by the same function, before they do anything else."""
    job = make_job("resnet_50", "pytorch", dataset=dataset_facts("photographs", tmp_path / "nowhere"))
    (trainer,) = run(job, tmp_path, python_of("pytorch"))
    assert trainer.popen.returncode == EXIT_STATUS["setup_failed"], trainer.output
    assert str(tmp_path / "nowhere") in trainer.data("error")[0]["message"]


# Statements that ask each framework for more than any host has.
TOO_MUCH = {
    "pytorch": "import torch; torch.empty(10**13)",
    "tensorflow": "import tensorflow as tf; tf.ones([10**7, 10**6])",
    # An array of MXNet has less than 2^31 elements, which a host may well have room for.
    "mxnet": "import mxnet as mx, resource; resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33));"
    "mx.nd.zeros(2**31 - 2).wait_to_read()",
    "cntk": "import cntk, numpy; cntk.NDArrayView((10**7, 10**6), numpy.float32, device=cntk.cpu())",
}
# Trains by the job and prints the status; then asks for too much and prints what the adapter calls that.
FAILING = """
import sys
from workers.trainer import __main__ as trainer
print("status", trainer.main(sys.argv[3:]))
adapter = trainer.load(sys.argv[1])
try:
    exec(sys.argv[2])
except Exception as error:
    print("kind", adapter.failure_of(error))
print("other", adapter.failure_of(ValueError("no")))
"""


@pytest.mark.parametrize("framework", TRAINING)
def test_a_device_that_is_not_here_and_a_shortage_of_memory_are_called_by_their_names(python_of, tmp_path, framework):
    (tmp_path / "job.json").write_text(json.dumps(absent_device(framework)))
    events, python = tmp_path / "events.jsonl", python_of(framework)
    words = [framework, TOO_MUCH[framework], "--job", str(tmp_path / "job.json"), "--events", str(events)]
    environment = {**os.environ, **environment_for(python), "CUDA_VISIBLE_DEVICES": ""}
    told = subprocess.run(
        [python, "-c", FAILING, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    printed = ["status", str(EXIT_STATUS["unsupported"]), "kind", "out_of_memory", "other", "None"]
    assert told.stdout.split() == printed
    (error,) = [event for event in map(json.loads, events.read_text().splitlines()) if event["kind"] == "error"]
    assert error["data"]["failure"] == "unsupported"
    if framework == "pytorch":  # with CUDA's own reason
        assert "CUDA" in error["data"]["message"].partition("no CUDA device here: ")[2]


def absent_device(framework):
    """Return a job of one process that asks for a GPU."""
    job = make_job("resnet_50", framework, device="cuda")
    return {**job, "process": job["processes"][0]["name"]}
