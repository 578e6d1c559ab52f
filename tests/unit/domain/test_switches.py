"""Switches of a framework among the options of a spec: what is refused and in which words, and what an off one is."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.domain.asked.catalog import SwitchFacts
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fingerprint import workload_of
from orchestrator.domain.expansion.groups import axes_of, label, value_of
from orchestrator.domain.expansion.sweep import check, expand, place_in_sweep, spec_of
from orchestrator.domain.words.errors import InvalidRequest
from tests.unit import builders as make


def facts(device: str = "cpu", pool: tuple[int, int] = (1, 2), **model: Any) -> Facts:
    """PyTorch has three switches here, TensorFlow one."""
    plain = make.catalog()
    switches = {
        "fast": SwitchFacts("fast", "", ("cpu", "cuda"), (), {"ddp": "why ddp", "layers": "why layers", "bf16": "why"}),
        "graphs": SwitchFacts("graphs", "", ("cuda",), (), {"fast": "one is enough"}),
        "packed": SwitchFacts("packed", "", ("cpu", "cuda"), ("images",)),
    }
    frameworks = dict(plain.frameworks)
    frameworks["pytorch"] = replace(frameworks["pytorch"], switches=switches)
    frameworks["tensorflow"] = replace(
        frameworks["tensorflow"], switches={"xla": SwitchFacts("xla", "", ("cpu",), (), {"net": "no such operator"})}
    )
    net = plain.models["net"]
    models = {"net": replace(net, facts={**net.facts, **model})}
    return Facts(replace(plain, frameworks=frameworks, models=models), device, pool)


def refusals(known: Facts, **spec: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        check(make.spec(**spec), known)
    return [(problem.pointer, problem.message) for problem in caught.value.problems]


def test_a_switch_that_is_off_leaves_every_key_as_it_was() -> None:
    (without,) = expand(make.spec(repeats=1), facts(), [])
    (off,) = expand(make.spec(repeats=1, options={"fast": False, "graphs": False}), facts(), [])
    assert off == without
    assert (off.key, off.cell_key, workload_of(off)) == (without.key, without.cell_key, workload_of(without))
    # As it was before there were switches.
    (before,) = expand(make.spec(repeats=1), make.facts(pool=(1, 2)), [])
    assert off.key == before.key


def test_a_switch_is_an_axis_and_of_the_workload() -> None:
    spec = make.spec(repeats=1, options={"fast": [True, False], "depth": [50, 101]})
    check(spec, facts())
    plans = sorted(expand(spec, facts(), []), key=lambda plan: place_in_sweep(spec, plan))
    assert [(plan.option("depth"), plan.option("fast")) for plan in plans] == [
        (50, True),
        (50, False),
        (101, True),
        (101, False),
    ]
    assert len({plan.cell_key for plan in plans}) == 4
    assert workload_of(plans[0])["options"] == {"depth": 50, "fast": True, "rate": 0.1}
    assert axes_of(spec, plans) == ["options.depth", "options.fast"]
    assert [label("options.fast", value_of(plan, "options.fast")) for plan in plans[:2]] == ["fast true", "fast false"]
    assert expand(spec_of(plans[0], "again"), facts(), [])[0].key == plans[0].key


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"fsat": True}, "model net has no option fsat: did you mean fast? It has depth, rate; its frameworks "),
        ({"fast": 1}, "option fast is a switch, true or false, not 1"),
        ({"fast": "on"}, "option fast is a switch, true or false, not 'on'"),
        ({"xla": True}, "pytorch has no switch xla, only tensorflow; it has fast, graphs, packed"),
        ({"graphs": True}, "graphs of pytorch is for cuda devices, not for cpu"),
    ],
)
def test_a_wrong_switch_is_refused_and_named(options: dict[str, Any], told: str) -> None:
    ((pointer, message),) = refusals(facts(), options=options)
    assert pointer == f"/options/{next(iter(options))}"
    assert message.startswith(told)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"topology": "1x2"}, "fast of pytorch does not go with ddp: why ddp"),
        ({"profile": ["layers"]}, "fast of pytorch does not go with layers: why layers"),
        ({"precision": "bf16"}, "fast of pytorch does not go with bf16: why"),
    ],
)
def test_what_a_switch_does_not_go_with_is_refused_with_the_reason(spec: dict[str, Any], told: str) -> None:
    assert refusals(facts(), options={"fast": True}, **spec) == [("/options/fast", told)]


def test_two_switches_that_do_not_go_together_are_refused() -> None:
    told = refusals(facts("cuda"), options={"fast": True, "graphs": True})
    assert told == [("/options/graphs", "graphs of pytorch does not go with fast: one is enough")]


def test_a_switch_for_images_is_refused_for_a_model_of_texts() -> None:
    told = refusals(facts(input="texts"), options={"packed": True})
    assert told == [("/options/packed", "packed of pytorch is for models of images: net is given texts")]
    check(make.spec(options={"packed": True}), facts(input="images"))
    check(make.spec(options={"packed": True}), facts())  # a model of its own making


def test_a_model_that_trains_nothing_has_no_switches() -> None:
    told = refusals(facts(measures="exchange"), options={"fast": True})
    assert told == [("/options/fast", "fast of pytorch is for training: model net trains nothing")]


def test_a_model_can_be_what_a_switch_does_not_go_with() -> None:
    told = refusals(facts(), framework="tensorflow", options={"xla": True})
    assert told == [("/options/xla", "xla of tensorflow does not go with net: no such operator")]


def test_a_sweep_over_frameworks_may_leave_a_switch_off_where_it_is_not() -> None:
    both = {"framework": ["pytorch", "tensorflow"], "options": {"fast": [False, True]}, "repeats": 1}
    ((pointer, message),) = refusals(facts(), **both)
    assert pointer == "/options/fast"
    line = "{model: net, framework: tensorflow, fast: true}"
    assert message.endswith(f"it has xla. To leave this cell out: exclude: [{line}]")
    spec = make.spec(**both, exclude=[{"model": "net", "framework": "tensorflow", "fast": True}])
    check(spec, facts())
    found = {(plan.framework, plan.option("fast")) for plan in expand(spec, facts(), [])}
    assert found == {("pytorch", False), ("pytorch", True), ("tensorflow", False)}


def test_the_line_to_leave_out_names_what_the_reason_is_about() -> None:
    ((_, message),) = refusals(facts(), topology=["1x1", "1x2"], options={"fast": [False, True]})
    line = "{model: net, framework: pytorch, strategy: auto, topology: 1x2, fast: true}"
    assert message == f"fast of pytorch does not go with ddp: why ddp. To leave this cell out: exclude: [{line}]"
