"""The ready specs of ``suites``: nothing in them is refused on a machine without GPUs."""

from itertools import product
from pathlib import Path

import pytest
import yaml

from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec, parse_spec
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.words.errors import InvalidRequest
from orchestrator.services.facts.catalog import load_catalog

FOLDER = Path(__file__).parents[3] / "suites"
FOUR = ("pytorch", "tensorflow", "mxnet", "cntk")
FACTS = Facts(load_catalog(), "cpu", (1, 2))


def spec_of(name: str) -> ExperimentSpec:
    return parse_spec(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_a_ready_spec_can_be_carried_out(name: str) -> None:
    check(spec_of(name), FACTS)
    assert expand(spec_of(name), FACTS, [])


def test_the_analysis_profiles_four_frameworks_in_every_way() -> None:
    plans = expand(spec_of("analysis.yaml"), FACTS, [])
    assert {plan.framework for plan in plans} == {"pytorch", "tensorflow", "mxnet", "cntk"}
    assert all(set(plan.profile) == {"memory", "kernels", "layers"} for plan in plans)


CLUSTER = Facts(load_catalog(), "cuda", (4, 8), ("ethernet",))
WIDER = ["1x1", "1x2", "1x4", "1x8", "2x8", "4x8"]


def cells_of(name: str, facts: Facts = CLUSTER) -> list[Plan]:
    check(spec_of(name), facts)
    plans = expand(spec_of(name), facts, [])
    assert len(plans) == 6 * len({plan.cell_key for plan in plans})  # six blocks of every cell
    return [plan for plan in plans if plan.repetition == 1]


def test_scaling_goes_from_one_device_to_the_whole_pool_in_three_frameworks() -> None:
    cells = cells_of("scaling.yaml")
    assert len(cells) == (3 + 1) * 3 * len(WIDER)
    assert {plan.framework for plan in cells if plan.model == "inception-v3"} == {"tensorflow"}
    assert {str(plan.topology) for plan in cells} == set(WIDER)
    assert {plan.framework for plan in cells if plan.world_size == 32} == {"pytorch", "tensorflow", "mxnet"}
    assert {plan.fabric for plan in cells if plan.nodes > 1} == {"ethernet"}
    two_hosts = cells_of("scaling.yaml", Facts(load_catalog(), "cpu", (2, 1), ("ethernet",)))
    assert {str(plan.topology) for plan in two_hosts} == {"1x1", "2x1"}


def test_the_batch_sweep_has_the_kernels_of_every_model_of_the_suite_on_one_device() -> None:
    cells = cells_of("batch-sweep.yaml", FACTS)
    batches, models = (4, 8, 16, 32, 64), load_catalog().models
    wanted = {
        (name, framework, batch)
        for name in (
            *("resnet-50", "inception-v3", "transformer", "seq2seq", "deep-speech-2"),
            *("bert-base", "bert-large", "gpt-2", "wgan-gp", "a3c", "faster-rcnn", "mask-rcnn"),
        )
        for framework in models[name].frameworks
        for batch in batches
        if batch < {"gpt-2": 32, "faster-rcnn": 16, "mask-rcnn": 16}.get(name, 65)
    }
    assert {(plan.model, plan.framework, plan.per_device_batch_size) for plan in cells} == wanted
    assert {(str(plan.topology), plan.profile) for plan in cells} == {("1x1", ("kernels",))}


def test_the_classifiers_are_there_in_four_frameworks_and_the_residual_ones_in_three_depths() -> None:
    cells = cells_of("classification.yaml", FACTS)
    models = ("resnet-50", "inception-v3", "googlenet", "alexnet")
    assert {(plan.model, plan.framework) for plan in cells} == set(product(models, FOUR))
    deep = cells_of("residual-depths.yaml", FACTS)
    assert {(plan.option("depth"), plan.framework) for plan in deep} == set(product((50, 101, 152), FOUR))


def test_networks_against_each_other_are_there_where_second_derivatives_are_and_are_refused_elsewhere() -> None:
    cells = cells_of("adversarial.yaml", FACTS)
    assert {(plan.framework, plan.per_device_batch_size) for plan in cells} == set(product(FOUR[:2], (16, 32, 64)))
    asked = spec_of("adversarial.yaml").model_copy(update={"framework": ["mxnet", "cntk"]})
    with pytest.raises(InvalidRequest) as refused:
        check(asked, FACTS)
    told = " ".join(problem.message for problem in refused.value.problems)
    assert "mxnet, only for pytorch, tensorflow: MXNet 1.9.1 has no second derivative of a convolution" in told
    assert "cntk, only for pytorch, tensorflow: CNTK 2.7 has no second derivatives" in told


def test_reinforcement_plays_a_game_and_none_in_three_frameworks_and_is_refused_where_there_is_no_emulator() -> None:
    cells = cells_of("reinforcement.yaml", FACTS)
    wanted = set(product(("pytorch", "tensorflow", "mxnet"), ("synthetic", "pong"), (8, 32, 128)))
    assert {(plan.framework, plan.data, plan.per_device_batch_size) for plan in cells} == wanted
    asked = spec_of("reinforcement.yaml").model_copy(update={"framework": ["cntk"]})
    with pytest.raises(InvalidRequest, match=r"CNTK 2\.7 exists for Python 3\.6 and older"):
        check(asked, FACTS)


def test_the_suite_of_tbd_has_each_network_with_one_batch_in_the_frameworks_of_the_paper() -> None:
    wanted = {
        ("resnet-50", 32): ("tensorflow", "mxnet", "cntk"),
        ("inception-v3", 32): ("tensorflow", "mxnet", "cntk"),
        ("seq2seq", 32): ("tensorflow", "mxnet"),
        ("transformer", 32): ("tensorflow",),
        ("faster-rcnn", 1): ("tensorflow", "mxnet"),
        ("mask-rcnn", 1): ("tensorflow",),
        ("deep-speech-2", 16): ("mxnet",),
        ("wgan-gp", 64): ("tensorflow",),
        ("a3c", 32): ("mxnet",),
    }
    cells = [(plan.model, plan.per_device_batch_size, plan.framework) for plan in cells_of("tbd-suite.yaml", FACTS)]
    assert sorted(cells) == sorted((*network, name) for network, names in wanted.items() for name in names)


def test_detection_has_the_detectors_wherever_they_are() -> None:
    cells = cells_of("detection.yaml", FACTS)
    models = load_catalog().models
    wanted = {
        cell for name in ("faster-rcnn", "mask-rcnn") for cell in product([name], models[name].frameworks, (1, 2, 4))
    }
    assert {(plan.model, plan.framework, plan.per_device_batch_size) for plan in cells} == wanted
    asked = spec_of("detection.yaml").model_copy(update={"framework": ["cntk"]})
    with pytest.raises(InvalidRequest, match=r"CNTK 2\.7 has neither an interpolation of regions"):
        check(asked, FACTS)


def test_hardware_has_each_cell_on_each_model_of_gpu() -> None:
    cells = cells_of("hardware.yaml")
    assert len(cells) == 2 * 3 * 2
    assert {(plan.device, plan.gpu_model) for plan in cells} == {("cuda", "H100"), ("cuda", "H200")}


def test_s_sgd_has_three_networks_each_with_its_batch_in_every_framework_and_topology() -> None:
    cells = cells_of("s-sgd.yaml")
    batches = {"alexnet": 1024, "googlenet": 64, "resnet-50": 32}
    assert {(plan.model, plan.per_device_batch_size) for plan in cells} == set(batches.items())
    assert len({(plan.model, plan.framework, str(plan.topology)) for plan in cells}) == len(cells) == 3 * 4 * len(WIDER)
