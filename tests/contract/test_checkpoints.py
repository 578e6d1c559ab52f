"""An attempt that was killed is followed by one that goes on from its checkpoint, and ends as if nothing had been."""

import signal
import time

import numpy
import pytest

from orchestrator.services.facts.catalog import load_catalog
from suites.datasets import judged, text_layouts, word_numbers
from suites.datasets.utterances import arrays
from tests.contract.test_convergence import CLASSES, OPTIMIZER, apart
from tests.support.strategy_jobs import carried_out, strategy_job
from tests.trainer_process import Trainer, dataset_facts, make_job
from workers.trainer.base.processor import lacks_bfloat16

EVERY, MOST = 3, 24
DETECTORS = {"faster_rcnn": "drawn_shapes", "mask_rcnn": "outlined_shapes"}
MODELS = load_catalog().models

__all__ = ["apart"]  # a fixture

pytestmark = [pytest.mark.framework("pytorch"), pytest.mark.after_change]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """A few pairs of sentences as numbers of words: the words of the one in reverse are the other."""
    root = tmp_path_factory.mktemp("sentences")
    words = [f"w{number}" for number in range(12)]
    pairs = {
        split: [text_layouts.Pair(" ".join(words[at : at + 4]), " ".join(words[at + 3 : at - 1 : -1])) for at in places]
        for split, places in (("train", range(1, 8)), ("tst2013", (3, 5)))
    }
    for name in ("train.en", "train.vi", "vocab.en", "vocab.vi"):
        (root / name).write_text("\n".join(word_numbers.listed(words, 1)))
    word_numbers.write(str(root), pairs, str(root))
    judged.write(str(root), "tst2013", [pair.target for pair in pairs["tst2013"]])
    return root


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A few utterances of noise, each of some letters."""
    root, generator = str(tmp_path_factory.mktemp("spoken")), numpy.random.RandomState(1)
    for split, count in (("train", 8), ("test", 2)):
        ends = numpy.cumsum(generator.randint(8000, 16000, count))
        arrays.begun(root, split, ends[-1])[:] = generator.randint(-9999, 9999, ends[-1])
        arrays.finished(root, split, ends, ["A NOISE"[: 3 + number % 5] for number in range(count)])
    return root


def job_of(root, folder=None, attempt="a1", model="resnet_50", optimizer=OPTIMIZER, framework="pytorch", **plan):
    told = {"mode": "convergence", "evaluate_every": EVERY, "max_steps": MOST, "per_device_batch_size": CLASSES, **plan}
    own_data = {
        "seq2seq": "message_catalogues",
        "deep_speech_2": "spoken_documentation",
        "wgan_gp": "photographs_small",
        **DETECTORS,
        "a3c": "catch",
    }
    data = own_data.get(model, "photographs")
    job = make_job(model, framework, dataset=dataset_facts(data, root), **told)
    facts = MODELS[model.replace("_", "-")].facts_with({})
    sizes = {name: {**size, "dropout": 0.5} if "dropout" in size else size for name, size in facts["sizes"].items()}
    job["model"] = facts | {"optimizer": optimizer, "sizes": sizes}
    checkpoints = {"folder": str(folder), "shared": False} if folder else None
    return {**job, "attempt_id": attempt, "checkpoints": checkpoints}


def begun(job, folder, python, planted=()):
    place = folder / job["attempt_id"]
    place.mkdir()
    return Trainer(job, place, python, planted=planted)


def ended(trainer):
    assert trainer.finish() == 0, trainer.output
    return trainer


def killed_after(checkpoints, job, folder, python):
    """Begin a training that is killed by SIGKILL as soon as it has written so many; return it."""
    trainer = begun(job, folder, python, [_KILLED % checkpoints])
    assert trainer.finish() == -signal.SIGKILL, trainer.output
    assert not trainer.data("stopped")
    return trainer


# Planted, and no signal from here: on a busy machine the training would be over before the signal came.
_KILLED = """
import os, signal
from workers.trainer import checkpoint
write, left = checkpoint.write, [%d]
def write_and_end(*given):
    told = write(*given)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return told
checkpoint.write = write_and_end
"""


def weights(trainer):
    (finished,) = trainer.data("finished")
    return finished["weights_sha256"], finished["loss"]


def steps(trainer):
    return [one["step"] for one in trainer.data("evaluation")]


def of(framework, *values, id):
    return pytest.param(framework, *values, id=f"{framework}, {id}", marks=pytest.mark.framework(framework))


ADAM = {"name": "adam", "learning_rate": 1e-3, "betas": [0.9, 0.999]}
CHANGING = {"warmup_steps": 10, "decay": "cosine", "decay_steps": 40}
LIMITED = {**ADAM, "gradient_norm_limit": 0.5}
BOTH = {"critic": ADAM, "generator": {**ADAM, "betas": [0.0, 0.9]}}
CASES = [
    of("pytorch", "wgan_gp", BOTH, "fp32", id="two networks with an optimiser each"),
    of("tensorflow", "wgan_gp", BOTH, "fp32", id="two networks with an optimiser each"),
    of("pytorch", "seq2seq", LIMITED, "fp32", id="recurrent layers and a limit of the norm"),
    of("tensorflow", "seq2seq", LIMITED, "fp32", id="recurrent layers and a limit of the norm"),
    of("mxnet", "seq2seq", LIMITED, "fp32", id="recurrent layers and a limit of the norm"),
    of("pytorch", "deep_speech_2", LIMITED, "fp32", id="statistics of sequences"),
    of("tensorflow", "deep_speech_2", LIMITED, "fp32", id="statistics of sequences"),
    of("mxnet", "deep_speech_2", LIMITED, "fp32", id="statistics of sequences"),
    of("pytorch", "faster_rcnn", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="what is drawn, in two shapes"),
    of("pytorch", "mask_rcnn", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="masks, in two shapes"),
    of("tensorflow", "mask_rcnn", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="masks, in two shapes"),
    of("mxnet", "faster_rcnn", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="weights that stay, in two shapes"),
    of("pytorch", "resnet_50", OPTIMIZER, "fp32", id="running statistics and momentum"),
    of("pytorch", "alexnet", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="dropout"),
    of("pytorch", "resnet_50", ADAM, "fp32", id="adam"),
    of("tensorflow", "resnet_50", OPTIMIZER, "fp32", id="running statistics and momentum"),
    of("tensorflow", "alexnet", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="dropout"),
    of("tensorflow", "resnet_50", ADAM, "fp32", id="adam"),
    of("mxnet", "alexnet", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="dropout"),
    of("mxnet", "resnet_50", OPTIMIZER, "amp-bf16", id="running statistics and momentum, mixed precision"),
    of("mxnet", "resnet_50", {**OPTIMIZER, **CHANGING}, "fp32", id="momentum and a rate that changes"),
    of("mxnet", "resnet_50", {**ADAM, **CHANGING}, "fp32", id="adam and a rate that changes"),
    of("cntk", "resnet_50", OPTIMIZER, "fp32", id="running statistics and momentum"),
    of("cntk", "resnet_50", {**ADAM, **CHANGING}, "fp32", id="adam and a rate that changes"),
    of("cntk", "alexnet", {**OPTIMIZER, "learning_rate": 0.002}, "fp32", id="dropout"),
]


@pytest.mark.parametrize(("framework", "model", "optimizer", "precision"), CASES)
def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(
    python_of, apart, sentences, spoken, made_dataset, tmp_path, framework, model, optimizer, precision
):
    if framework == "mxnet" and precision == "amp-bf16" and lacks_bfloat16():
        pytest.skip(lacks_bfloat16())
    root = {"seq2seq": sentences, "deep_speech_2": spoken}.get(model, apart)
    if model == "wgan_gp" or model in DETECTORS:
        root = made_dataset(DETECTORS.get(model, "photographs_small"))
    python, plan = python_of(framework), {"framework": framework, "optimizer": optimizer, "precision": precision}
    whole = ended(begun(job_of(root, None, "whole", model, **plan), tmp_path, python))
    assert whole.data("resumed")[0]["reason"] == "this host gives the run no folder for checkpoints"
    first = killed_after(2, job_of(root, tmp_path / "kept", "first", model, **plan), tmp_path, python)
    assert first.data("resumed")[0]["step"] == 0
    assert len(list((tmp_path / "kept").iterdir())) <= 3
    before = time.monotonic()
    second = ended(begun(job_of(root, tmp_path / "kept", "second", model, **plan), tmp_path, python))
    took_s = time.monotonic() - before
    (resumed,) = second.data("resumed")
    assert resumed["step"] == 2 * EVERY
    assert (resumed["attempt_id"], resumed["damaged"]) == ("first", [])
    assert resumed["lost_s"] > 0
    assert weights(second) == weights(whole)
    assert steps(second) == steps(whole) == list(range(EVERY, MOST + 1, EVERY))
    assert [one["sums"] for one in second.data("evaluation")] == [one["sums"] for one in whole.data("evaluation")]
    own = second.data("interval")
    assert own[0]["first_step"] == resumed["step"] + 1
    found = {one["step"]: one for one in second.data("evaluation")}
    trained_s = found[MOST]["trained_s"] - found[resumed["step"]]["trained_s"]
    assert trained_s == pytest.approx(sum(item["duration_s"] for item in own))
    elapsed = [one["elapsed_s"] for one in second.data("evaluation")]
    assert elapsed == sorted(elapsed)
    # What was lost between the two is not in it.
    assert found[MOST]["elapsed_s"] < sum(found[resumed["step"]][part] for part in ("elapsed_s", "cost_s")) + took_s


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.framework(name)) for name in MODELS["a3c"].frameworks]
)
def test_a_killed_training_that_plays_games_goes_on_with_its_weights_and_with_other_games(
    python_of, made_dataset, tmp_path, framework
):
    python, kept, data = python_of(framework), tmp_path / "kept", made_dataset("catch")
    plan = {"model": "a3c", "optimizer": ADAM, "framework": framework}
    first = killed_after(2, job_of(data, kept, "first", **plan), tmp_path, python)
    second = ended(begun(job_of(data, kept, "second", **plan), tmp_path, python))
    assert second.data("resumed")[0]["step"] == 2 * EVERY
    assert steps(second) == list(range(EVERY, MOST + 1, EVERY))
    assert second.data("evaluation")[0]["sums"] == first.data("evaluation")[0]["sums"]
    assert second.data("interval")[0]["first_step"] == 2 * EVERY + 1


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_taken(python_of, apart, tmp_path):
    python, kept = python_of("pytorch"), tmp_path / "kept"
    killed_after(3, job_of(apart, kept, "first"), tmp_path, python)
    newest, before = sorted(kept.glob("*.npz"), reverse=True)
    with numpy.load(before, allow_pickle=False) as arrays:  # what a person would open it by
        assert "network/fc.weight" in arrays.files
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    second = ended(begun(job_of(apart, kept, "second"), tmp_path, python))
    (resumed,) = second.data("resumed")
    assert resumed["step"] == int(before.name[:12])
    assert str(newest) in resumed["damaged"][0]
    assert steps(second) == list(range(EVERY, MOST + 1, EVERY))


def test_a_checkpoint_of_another_plan_is_not_taken(python_of, apart, tmp_path):
    python, kept = python_of("pytorch"), tmp_path / "kept"
    killed_after(1, job_of(apart, kept, "first"), tmp_path, python)
    second = ended(begun(job_of(apart, kept, "second", seed=2), tmp_path, python))
    (resumed,) = second.data("resumed")
    assert (resumed["step"], resumed["attempt_id"]) == (0, None)
    assert resumed["reason"] == "no whole checkpoint of this run is here"
    assert "another plan" in resumed["damaged"][0]
    assert second.data("interval")[0]["first_step"] == 1


def test_a_checkpoint_that_cannot_be_written_costs_the_training_nothing(python_of, apart, tmp_path):
    (tmp_path / "kept").write_text("a file where a folder should be")
    found = ended(begun(job_of(apart, tmp_path / "kept", max_steps=6), tmp_path, python_of("pytorch")))
    (written,) = found.data("checkpoint")
    assert (written["bytes"], written["sha256"]) == (None, None)
    assert "kept" in written["problem"]


RANKS = [
    of("pytorch", "ddp", "resnet_50", id="ddp"),
    of("pytorch", "horovod", "resnet_50", id="horovod"),
    of("tensorflow", "mirrored", "alexnet", id="mirrored, dropout"),
    of("mxnet", "kvstore-device", "resnet_50", id="kvstore-device"),
    of("mxnet", "kvstore-dist-sync", "alexnet", id="kvstore-dist-sync, dropout"),
    of("mxnet", "horovod", "resnet_50", id="horovod"),
    of("cntk", "mpi", "alexnet", id="mpi, dropout"),
]


def of_two_ranks(framework, strategy, root, folder, model="resnet_50"):
    told = {"max_steps": 8, "evaluate_every": 4, "mode": "convergence", "per_device_batch_size": 2}
    job = strategy_job(framework, strategy, devices=2, data="photographs", **told)
    one = job_of(root, folder, model=model, optimizer={**OPTIMIZER, "learning_rate": 0.002})
    given = {key: one[key] for key in ("model", "dataset", "checkpoints")}
    return {**job, **given, "stopping": dict.fromkeys(job["stopping"])}


@pytest.mark.parametrize(("framework", "strategy", "model"), RANKS)
def test_all_ranks_go_on_from_the_checkpoint_of_the_first(python_of, apart, tmp_path, framework, strategy, model):
    found = []
    for name in ("first", "again"):
        job = of_two_ranks(framework, strategy, apart, tmp_path / "kept", model)
        python_of(job["interpreter"]["name"])
        found.append(carried_out(job, tmp_path / name))
        assert found[-1].failure() is None, found[-1].said
    assert len(found[0].data("checkpoint")) == 1
    assert [one["step"] for one in found[1].data("resumed")] == [4]
    assert {one["sha256"] for done in found for one in done.data("replica")} == {found[0].data("replica")[0]["sha256"]}


WITHOUT = [
    of("mxnet", "kvstore-dist-async", "servers", id="kvstore-dist-async"),
    of("cntk", "mpi-block-momentum", "all ranks", id="mpi-block-momentum"),
]


@pytest.mark.parametrize(("framework", "strategy", "why"), WITHOUT)
def test_a_strategy_without_checkpoints_says_why(apart, tmp_path, framework, strategy, why):
    done = carried_out(of_two_ranks(framework, strategy, apart, tmp_path / "kept"), tmp_path / "whole")
    assert done.failure() is None, done.said
    (resumed,) = done.data("resumed")
    assert (resumed["step"], done.data("checkpoint")) == (0, [])
    assert why in resumed["reason"]
