"""Every framework trains a network to a target, is evaluated between its intervals, and says what was counted."""

import json
import math

import numpy
import pytest
from PIL import Image

from orchestrator.services.facts.catalog import load_catalog
from suites.datasets import small_images
from suites.datasets.coco import index
from suites.quality import bleu, sliced_wasserstein
from tests.support.networks import way_id
from tests.support.strategy_jobs import carried_out, strategy_job
from tests.trainer_process import dataset_facts, make_job, run

MODELS = load_catalog().models
RESNET = MODELS["resnet-50"]
CLASSES, EVERY, MOST = 4, 10, 80
# Judgement: a rate at which so few photographs are told apart within the steps.
OPTIMIZER = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9}


@pytest.fixture(scope="module")
def apart(photographs, tmp_path_factory):
    """A photograph of each of the first classes to train on, and two other cuts of each to evaluate on."""
    root = tmp_path_factory.mktemp("apart")
    for split, count in (("train", 1), ("val", 2)):
        for kind in sorted((photographs / split).iterdir())[:CLASSES]:
            (root / split / kind.name).mkdir(parents=True)
            for image in sorted(kind.iterdir())[:count]:
                (root / split / kind.name / image.name).symlink_to(image)
    return root


def job_of(framework, root, **plan):
    told = {"mode": "convergence", "evaluate_every": EVERY, "max_steps": MOST, "per_device_batch_size": CLASSES, **plan}
    job = make_job("resnet_50", framework, dataset=dataset_facts("photographs", root), **told)
    job["model"] = RESNET.facts_with({}) | {"optimizer": OPTIMIZER}
    return job


def trained(job, folder, python, planted=()):
    (trainer,) = run(job, folder, python, planted=planted)
    assert trainer.popen.returncode == 0, trainer.output
    return trainer


def of_framework(framework):
    """The marks of a cell."""
    return [pytest.mark.framework(framework), pytest.mark.after_change]


def cell(framework):
    return pytest.param(framework, marks=of_framework(framework))


@pytest.mark.parametrize("framework", [cell(name) for name in RESNET.frameworks])
def test_a_network_is_trained_to_its_target_on_photographs_that_it_has_not_seen(python_of, apart, tmp_path, framework):
    trainer = trained(job_of(framework, apart, target=0.75), tmp_path, python_of(framework))
    found, intervals = trainer.data("evaluation"), trainer.data("interval")
    (stopped,) = trainer.data("stopped")
    assert stopped["reason"] == "target"
    assert [one["step"] for one in found] == list(range(EVERY, stopped["step"] + 1, EVERY))
    assert all(one["sums"]["n"] == one["samples"] == 2 * CLASSES for one in found)
    reached = [one["sums"]["top_1"] / one["sums"]["n"] >= 0.75 for one in found]
    assert reached == [False] * (len(found) - 1) + [True]
    assert all(math.isfinite(one["loss"]) for one in found)
    for one in found:
        own = [item for item in intervals if item["first_step"] <= one["step"]]
        assert sum(item["n"] for item in own) == one["step"]
        assert one["trained_s"] == pytest.approx(sum(item["duration_s"] for item in own))
        assert one["elapsed_s"] >= one["trained_s"]
    # The next interval begins when an evaluation is over.
    assert found[-1]["elapsed_s"] >= found[-1]["trained_s"] + sum(one["cost_s"] for one in found[:-1])


def cells_of(ways):
    """A cell for each framework of each way: model, options, and what is wanted beside."""
    return [
        pytest.param(
            framework,
            name,
            options,
            *beside,
            marks=of_framework(framework),
            id=way_id(MODELS[name], options, framework),
        )
        for name, options, *beside in ways
        for framework in MODELS[name].frameworks
    ]


IMAGES = [("alexnet", {}), ("googlenet", {}), ("inception-v3", {}), ("resnet-50", {"depth": 101})]


@pytest.mark.parametrize(("framework", "name", "options"), cells_of(IMAGES))
def test_every_classifier_is_evaluated_on_photographs(python_of, apart, tmp_path, framework, name, options):
    job = job_of(framework, apart, max_steps=2, evaluate_every=1, options=options)
    job["model"] = MODELS[name].facts_with(options) | {"optimizer": OPTIMIZER}
    found = trained(job, tmp_path, python_of(framework)).data("evaluation")
    assert [one["step"] for one in found] == [1, 2]
    assert all(one["sums"]["n"] == one["samples"] == 2 * CLASSES for one in found)
    assert all(math.isfinite(one["loss"]) for one in found)


def text_job(framework, name, options, dataset, rate=3e-3, **plan):
    """A job of 60 steps or more; a rate at which a network of the size tiny learns something in them."""
    told = {"mode": "convergence", "max_steps": 60, "per_device_batch_size": 32, "options": options, **plan}
    job = make_job(MODELS[name].module.rpartition(".")[2], framework, dataset=dataset, **told)
    optimizer = {"name": "adam", "learning_rate": rate, "betas": [0.9, 0.98]}
    job["model"] = MODELS[name].facts_with(options) | {"optimizer": optimizer}
    return job


FINETUNE = {"task": "finetune"}
QUESTIONS = 40
# At the size tiny the passages of all questions are 85,000 windows.
FEW = f"""
from suites.datasets import questions
judged = questions.judged
def few(*given):
    found = judged(*given)
    found.numbers = found.numbers[:{QUESTIONS}]
    return found
questions.judged = few
"""
# Model, options, dataset, and what is counted.
TEXTS = [
    ("gpt-2", {}, "documentation", "tokens"),
    ("bert-base", {}, "documentation_articles", "tokens"),
    ("bert-base", FINETUNE, "documentation_questions", "n"),
    ("bert-base", {**FINETUNE, "freeze_encoder": True}, "documentation_questions", "n"),
]


@pytest.mark.parametrize(("framework", "name", "options", "folder", "counted"), cells_of(TEXTS))
def test_language_models_are_evaluated_on_texts_that_are_not_trained_on(
    python_of, made_dataset, tmp_path, framework, name, options, folder, counted
):
    dataset = dataset_facts(folder, made_dataset(folder))
    job = text_job(framework, name, options, dataset, evaluate_every=30)
    begun, ended = trained(job, tmp_path, python_of(framework), [FEW]).data("evaluation")
    assert (begun["step"], ended["step"]) == (30, 60)
    assert begun["samples"] == ended["samples"] > 0
    assert begun["sums"][counted] == ended["sums"][counted] > 0
    assert ended["sums"].get("n", QUESTIONS) == QUESTIONS
    assert math.isfinite(ended["loss"])
    # Of questions, those whose answer is not in the first window are to be answered by [CLS], as none is in training.
    assert counted == "n" or ended["loss"] < begun["loss"]


@pytest.mark.parametrize(
    ("framework", "name", "options", "steps", "rate"),
    cells_of([("transformer", {}, 60, 3e-3), ("seq2seq", {}, 120, 1e-2)]),
)
def test_translations_of_sentences_that_are_not_trained_on_are_judged_by_bleu(
    python_of, made_dataset, tmp_path, framework, name, options, steps, rate
):
    dataset = dataset_facts("message_catalogues", made_dataset("message_catalogues"))
    job = text_job(framework, name, options, dataset, rate, evaluate_every=steps, max_steps=steps)
    (found,) = trained(job, tmp_path, python_of(framework)).data("evaluation")
    sentences = (made_dataset("message_catalogues") / "tst2013.vi").read_text().splitlines()
    assert (found["metric"], found["sums"]["n"], found["samples"]) == ("bleu", len(sentences), len(sentences))
    assert found["sums"]["reference_words"] == sum(len(bleu.words(one)) for one in sentences)
    # So little is learned in so few steps: some words.
    assert 0 < found["sums"]["found_1"] < found["sums"]["words"]


@pytest.mark.parametrize(("framework", "name", "options"), cells_of([("deep-speech-2", {})]))
def test_utterances_that_are_not_trained_on_are_judged_by_the_words_that_are_misheard(
    python_of, made_dataset, tmp_path, framework, name, options
):
    root = made_dataset("spoken_documentation")
    few = {"evaluate_every": 8, "max_steps": 16, "per_device_batch_size": 8}
    job = text_job(framework, name, options, dataset_facts("spoken_documentation", root), **few)
    begun, ended = trained(job, tmp_path, python_of(framework)).data("evaluation")
    texts = [line.split()[1:] for path in root.glob("test/*/*/*.trans.txt") for line in path.read_text().splitlines()]
    assert (begun["metric"], begun["samples"]) == ("word_error_ratio", len(texts))
    assert begun["sums"]["n"] == ended["sums"]["n"] == len(texts)
    assert begun["sums"]["words"] == sum(map(len, texts))
    # In so few steps it hears no words: it learns first how often it has to say nothing.
    assert ended["loss"] < begun["loss"]


# Judgements: a rate at which so small a network learns the task; a score that random play, -0.6, is far from, and a
# share of the most that it can have. It is a policy whose actions are drawn that is judged.
PLAYED = {"name": "adam", "learning_rate": 3e-3, "epsilon": 1e-5}
WELL_PLAYED = 0.6


@pytest.mark.parametrize(("framework", "name", "options"), cells_of([("a3c", {})]))
def test_a_policy_learns_a_control_task(python_of, made_dataset, tmp_path, framework, name, options):
    told = {"mode": "convergence", "evaluate_every": 50, "max_steps": 600, "per_device_batch_size": 32}
    job = make_job("a3c", framework, dataset=dataset_facts("catch", made_dataset("catch")), target=WELL_PLAYED, **told)
    job["model"] = MODELS[name].facts_with(options) | {"optimizer": PLAYED}
    trainer = trained(job, tmp_path, python_of(framework))
    found = [one["sums"] for one in trainer.data("evaluation")]
    assert all(one["games"] == 20 and abs(one["score"]) <= 20 for one in found)
    assert trainer.data("stopped")[0]["reason"] == "target", found


def few_of_voc(root, folder):
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    for name in ("Annotations", "JPEGImages"):
        (folder / name).symlink_to(root / name)
    for split in ("trainval", "test"):
        names = "".join(f"{number:06d}\n" for number in range(41, 45))
        (folder / "ImageSets" / "Main" / f"{split}.txt").write_text(names)


def few_of_coco(root, folder):
    told = json.loads((root / "annotations" / "instances_train.json").read_text())
    told["images"] = told["images"][40:44]
    numbers = {one["id"] for one in told["images"]}
    told["annotations"] = [one for one in told["annotations"] if one["image_id"] in numbers]
    (folder / "annotations").mkdir(parents=True)
    for split in ("train", "val"):
        (folder / split).symlink_to(root / "train")
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(told))
    index.write(str(folder), str(folder))


# Model, dataset, what makes one of a few of its images, how many classes are on these, and what is reached.
DETECTORS = [
    ("faster-rcnn", {}, "drawn_shapes", few_of_voc, 4, 0.7),
    # Its precision is that at ten shares of the area, up to 0.95: it takes longer.
    ("mask-rcnn", {}, "outlined_shapes", few_of_coco, 2, 0.5),
]


@pytest.mark.parametrize(("framework", "name", "options", "folder", "few", "classes", "target"), cells_of(DETECTORS))
def test_a_detector_learns_a_few_images_by_heart(
    python_of, made_dataset, tmp_path, framework, name, options, folder, few, classes, target
):
    """They are what it is judged by, too; half of the time it is shown them mirrored."""
    few(made_dataset(folder), tmp_path / "few")
    told = {"mode": "convergence", "evaluate_every": 50, "max_steps": 500, "per_device_batch_size": 2, "target": target}
    job = make_job(name.replace("-", "_"), framework, dataset=dataset_facts(folder, tmp_path / "few"), **told)
    job["model"] = MODELS[name].facts_with(options) | {"optimizer": {"name": "adam", "learning_rate": 3e-3}}
    trainer = trained(job, tmp_path, python_of(framework))
    found = [one["sums"] for one in trainer.data("evaluation")]
    assert all((one["n"], one["classes"]) == (4, classes) for one in found)
    assert trainer.data("stopped")[0]["reason"] == "target", found


COLOURS = ((230, 51, 178), (38, 191, 26))
# Judgement, of the distance that the mean of the images has; and a rate at which so small a generator comes so near.
NEAR = 0.6
RULE = {"name": "adam", "learning_rate": 3e-3, "betas": [0.0, 0.9]}


@pytest.mark.parametrize(("framework", "name", "options"), cells_of([("wgan-gp", {})]))
def test_a_generator_learns_images_of_two_colours_by_heart(python_of, tmp_path, framework, name, options):
    """No loss says so, for the critic learns meanwhile: that images which it makes of any noise come near to those that
    the critic is shown does, at its best, for the two go on round each other. The mean of all images is not near."""
    for number in range(16):
        path = tmp_path / "images" / f"{('train', 'valid')[number // 8]}_32x32" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), COLOURS[number % 2]).save(path)
    told = {"mode": "convergence", "evaluate_every": 20, "max_steps": 100, "per_device_batch_size": 8}
    job = make_job("wgan_gp", framework, dataset=dataset_facts("photographs_small", tmp_path / "images"), **told)
    # Two updates of the critic are enough for so little, in half the time.
    tiny = {**MODELS[name].facts["sizes"]["tiny"], "critic_updates": 2}
    told = {"optimizer": {"critic": RULE, "generator": RULE}, "sizes": {"tiny": tiny}}
    job["model"] = MODELS[name].facts_with(options) | told
    found = trained(job, tmp_path, python_of(framework)).data("evaluation")
    assert all(one["sums"]["n"] == one["samples"] == 8 and math.isfinite(one["loss"]) for one in found)
    real = small_images.judged(str(tmp_path / "images"), 32, 8)
    mean = sliced_wasserstein.distance(numpy.broadcast_to(real.mean(axis=0), real.shape), real)
    assert min(sliced_wasserstein.value(one["sums"]) for one in found) < NEAR * mean, (found, mean)


# What the loaders of images make is in single precision, whatever the network computes in.
@pytest.mark.parametrize(
    ("framework", "precision"),
    [
        pytest.param("pytorch", "fp32", marks=pytest.mark.framework("pytorch")),
        pytest.param("pytorch", "bf16", marks=pytest.mark.framework("pytorch")),
        pytest.param("tensorflow", "bf16", marks=cell("tensorflow").marks),
    ],
)
def test_without_a_target_it_trains_for_its_budget_and_is_evaluated_at_its_end(
    python_of, apart, tmp_path, framework, precision
):
    job = job_of(framework, apart, max_steps=7, evaluate_every=3, precision=precision)
    trainer = trained(job, tmp_path, python_of(framework))
    found = trainer.data("evaluation")
    assert [one["step"] for one in found] == [3, 6, 7]
    assert all(math.isfinite(one["loss"]) for one in found)
    assert trainer.data("stopped") == [{"step": 7, "reason": "budget"}]


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_seconds_of_training_are_a_budget_too(python_of, apart, tmp_path):
    job = job_of("pytorch", apart, max_steps=None, max_measure_s=0.5, evaluate_every=1000)
    trainer = trained(job, tmp_path, python_of("pytorch"))
    (found,) = trainer.data("evaluation")
    durations = [item["duration_s"] for item in trainer.data("interval")]
    assert sum(durations) == pytest.approx(found["trained_s"])
    assert sum(durations[:-1]) < 0.5 <= found["trained_s"]
    assert trainer.data("stopped") == [{"step": found["step"], "reason": "budget"}]


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_epochs_are_a_budget_too(python_of, apart, tmp_path):
    # Four photographs, two of them in a step: two and a half epochs are five steps.
    job = job_of("pytorch", apart, max_steps=None, max_epochs=2.5, per_device_batch_size=2, evaluate_every=1000)
    trainer = trained(job, tmp_path, python_of("pytorch"))
    assert trainer.data("epoch") == [{"samples": CLASSES, "max_steps": 5}]
    assert [one["step"] for one in trainer.data("evaluation")] == [5]
    assert trainer.data("stopped") == [{"step": 5, "reason": "budget"}]


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_an_evaluation_changes_nothing_of_the_training(python_of, apart, tmp_path):
    weights = []
    for every in (2, 1000):
        folder = tmp_path / str(every)
        folder.mkdir()
        trainer = trained(job_of("pytorch", apart, max_steps=8, evaluate_every=every), folder, python_of("pytorch"))
        weights.append(trainer.data("finished")[0]["weights_sha256"])
    assert weights[0] == weights[1]


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_a_dataset_that_keeps_nothing_apart_is_a_failure_that_names_the_folder(python_of, apart, tmp_path):
    root = tmp_path / "half"
    root.mkdir()
    (root / "train").symlink_to(apart / "train")
    (trainer,) = run(job_of("pytorch", root, max_steps=2, evaluate_every=1), tmp_path, python_of("pytorch"))
    assert trainer.popen.returncode != 0
    (error,) = trainer.data("error")
    assert error["failure"] == "setup_failed"
    assert str(root / "val") in error["message"]


RANKS = [("pytorch", "ddp"), ("tensorflow", "mirrored"), ("mxnet", "kvstore-device")]


@pytest.mark.parametrize(
    ("framework", "strategy"),
    [pytest.param(*pair, marks=cell(pair[0]).marks, id="-".join(pair)) for pair in RANKS],
)
def test_two_ranks_train_on_while_the_first_one_evaluates_and_stop_together_at_the_target(
    apart, tmp_path, framework, strategy
):
    told = job_of(framework, apart, target=0.2, max_steps=12, evaluate_every=4, per_device_batch_size=2)
    plan = {name: told["plan"][name] for name in ("mode", "target", "evaluate_every", "per_device_batch_size")}
    job = strategy_job(framework, strategy, devices=2, max_steps=12, data="photographs", **plan)
    stopping = dict.fromkeys(job["stopping"])
    done = carried_out({**job, **{name: told[name] for name in ("model", "dataset")}, "stopping": stopping}, tmp_path)
    assert done.failure() is None, done.said
    found = done.data("evaluation")
    assert found
    assert {one["step"] for one in done.data("stopped")} == {found[-1]["step"]}
    assert {one["reason"] for one in done.data("stopped")} <= {"target", "budget"}
    replicas = {one["sha256"] for one in done.data("replica")}
    assert len(replicas) == 1
