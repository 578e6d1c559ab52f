"""The facts files of the tree: complete, and in agreement with the code beside them."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from orchestrator.domain.asked.spec import Framework, Strategy
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.value.profile import KERNEL_KINDS
from orchestrator.domain.words.errors import SettingsError
from orchestrator.services.facts.catalog import load_catalog
from workers.trainer.protocol import OWN_SCRIPT, PROFILES

CATALOG = load_catalog()
# Those that train by an adapter of ours: all but what projects train with.
ADAPTED = {name: facts for name, facts in CATALOG.frameworks.items() if name != OWN_SCRIPT}


@pytest.mark.parametrize("name", sorted(CATALOG.models))
def test_a_model_has_a_file_for_each_framework_it_names(name: str) -> None:
    model = CATALOG.models[name]
    for framework in model.frameworks:
        assert framework in CATALOG.frameworks
        if framework != "sleep":
            assert importlib.util.find_spec(f"{model.module}.{framework}"), framework
    assert set(model.datasets) <= {"synthetic", *CATALOG.datasets}


@pytest.mark.parametrize("name", sorted(CATALOG.models))
def test_a_model_states_its_facts_with_their_sources(name: str) -> None:
    model = CATALOG.models[name]
    assert model.work_unit
    assert model.work_unit_definition
    assert model.maintainers
    assert model.facts["loss"] in ("falling", "not_rising", "any")
    for option in model.options.values():
        assert option.problem(option.default) is None
    if model.parameters:
        assert model.facts["parameters_source"]
    if model.flops_per_sample:
        assert model.facts["flops_source"]


@pytest.mark.parametrize("name", sorted(ADAPTED))
def test_a_framework_declares_known_strategies_and_has_an_adapter(name: str) -> None:
    framework = CATALOG.frameworks[name]
    assert name in Framework.__args__
    assert set(framework.strategies) <= set(Strategy.__args__)
    assert framework.strategy_for(Topology(1, 1)) is not None
    assert importlib.util.find_spec(f"workers.trainer.frameworks.{name}.adapter")


@pytest.mark.parametrize("name", sorted(ADAPTED))
def test_a_framework_declares_only_abilities_that_exist(name: str) -> None:
    framework = CATALOG.frameworks[name]
    assert set(framework.abilities) <= {"activity", "checkpoint", "evaluate", *PROFILES}
    for strategy in framework.strategies.values():
        assert set(strategy.lacks) < {*framework.abilities, *framework.precisions}, strategy.name
    assert set(framework.lacks) <= set(framework.devices)
    for kind, abilities in framework.lacks.items():
        assert set(abilities) <= {*framework.abilities, *framework.precisions}, kind


def test_the_abilities_that_are_declared_are_those_of_the_adapters() -> None:
    """Read from the source: an adapter can be imported only where its framework is installed."""
    for name, framework in ADAPTED.items():
        source = Path(importlib.util.find_spec(f"workers.trainer.frameworks.{name}.adapter").origin).read_text()
        (line,) = (line for line in source.splitlines() if line.startswith("    abilities = "))
        assert ast.literal_eval(line.split("=")[1].strip()) == framework.abilities, name


@pytest.mark.parametrize("name", sorted(ADAPTED))
def test_the_switches_that_are_declared_are_those_of_the_adapters_and_name_what_there_is(name: str) -> None:
    framework = CATALOG.frameworks[name]
    source = Path(importlib.util.find_spec(f"workers.trainer.frameworks.{name}.adapter").origin).read_text()
    (line,) = (line for line in source.splitlines() if line.startswith("    switches = "))
    assert ast.literal_eval(line.split("=")[1].strip()) == tuple(framework.switches)
    known = {*CATALOG.models, *framework.strategies, *framework.precisions, *PROFILES, *framework.switches}
    for switch in framework.switches.values():
        assert switch.help
        assert set(switch.devices) <= set(framework.devices)
        assert set(switch.inputs) <= {model.facts.get("input") for model in CATALOG.models.values()}
        for what, reason in switch.not_with.items():
            kind, slash, rest = what.partition("/")
            assert rest in known and kind in switch.devices if slash else what in known, what
            assert reason


def test_a_model_may_not_call_an_option_as_a_framework_calls_a_switch(tmp_path: Path) -> None:
    option = '[options.compile]\ntype = "bool"\ndefault = false\n'
    with pytest.raises(SettingsError, match="model acted calls an option as pytorch calls one of its own: compile"):
        load_catalog((model_with(tmp_path, option),))


def test_kinds_of_kernels_are_those_that_there_are_and_their_names_are_expressions() -> None:
    kinds = CATALOG.kernel_kinds
    assert {name for name, own in kinds.frameworks.items() if own} == set(CATALOG.frameworks) - {"sleep"}
    for table in (kinds.gpu, *kinds.frameworks.values()):
        for kind, names in table:
            assert kind in KERNEL_KINDS
            assert re.compile(names)


def test_an_operator_can_add_models_from_outside_the_tree(tmp_path: Path) -> None:
    facts = (Path(importlib.util.find_spec("suites.models.sleep").origin).parent / "model.toml").read_text()
    (tmp_path / "my_net").mkdir()
    (tmp_path / "my_net" / "model.toml").write_text(facts.replace('name = "sleep"', 'name = "my-net"'))
    catalog = load_catalog([tmp_path])
    assert catalog.models["my-net"].module == "my_net"


def test_a_broken_facts_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    path = tmp_path / "broken" / "model.toml"
    path.write_text('name = "broken"')
    with pytest.raises(SettingsError, match=str(path)):
        load_catalog([tmp_path])
    path.write_text("name = ")
    with pytest.raises(SettingsError, match=str(path)):
        load_catalog([tmp_path])


MODEL = """
name = "acted"
domain = "games"
work_unit = "frames"
work_unit_definition = "frames of a game"
frameworks = ["pytorch"]
datasets = ["synthetic"]
[sizes.full]
"""


def model_with(folder: Path, roles: str, actor: bool = True) -> Path:
    """A suite of one model, with ``roles`` at the end of its facts."""
    own = folder / "acted"
    own.mkdir(parents=True)
    (own / "model.toml").write_text(MODEL + roles)
    if actor:
        (own / "actor.py").write_text("")
    return folder


def test_a_model_may_have_actors_beside_each_rank(tmp_path: Path) -> None:
    assert load_catalog((model_with(tmp_path, "[roles.actor]\nper_rank = 3"),)).models["acted"].roles == {"actor": 3}
    assert {name: model.roles for name, model in CATALOG.models.items() if model.roles} == {"a3c": {"actor": 4}}


@pytest.mark.parametrize(
    ("roles", "actor", "told"),
    [
        ("[roles.critic]\nper_rank = 1", True, "[roles.critic]: a model's own roles are: actor"),
        ("[roles.actor]\nper_rank = 0", True, "[roles.actor] has per_rank, a whole number from 1 to 64"),
        ("[roles.actor]\nper_rank = true", True, "a whole number"),
        ("[roles.actor]\nper_rank = 2\nper_node = 1", True, "and nothing else"),
        ("[roles.actor]\nper_rank = 2", False, "there is no actor.py beside"),
        ("[roles]\nactor = 2", True, "[roles.actor] has per_rank"),
    ],
)
def test_roles_that_cannot_be_are_refused_with_their_table(tmp_path: Path, roles: str, actor: bool, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_catalog((model_with(tmp_path, roles, actor),))
    assert told in str(error.value)
    assert "model.toml" in str(error.value)


DEPTH = """
[options.depth]
type = "int"
default = 50
choices = [50, 101]
"""


def test_values_of_options_change_facts(tmp_path: Path) -> None:
    told = DEPTH + "[[variants]]\nwhen = {depth = 101}\nsizes.full = {blocks = 3}\n"
    model = load_catalog((model_with(tmp_path, told),)).models["acted"]
    assert model.facts_with({"depth": 101})["sizes"]["full"]["blocks"] == 3
    assert "blocks" not in model.facts_with({})["sizes"]["full"]
    assert "variants" not in model.facts  # a job has the facts of its options, and no others


@pytest.mark.parametrize(
    ("variant", "told"),
    [
        ("when = {}\n", "``when`` is a table of options and their values"),
        ("when = {width = 2}\n", "the model has no option width"),
        ("when = {depth = 18}\n", "option depth is one of 50, 101, not 18"),
        ("when = {depth = 101}\nparameter = 3\n", "changes parameter, which the model's facts do not have"),
        ("when = {depth = 101}\nsizes.huge = {blocks = 3}\n", "changes sizes.huge, which"),
        ("sizes.full = {blocks = 3}\n", "lacks 'when'"),
    ],
)
def test_variants_that_cannot_be_are_refused(tmp_path: Path, variant: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        load_catalog((model_with(tmp_path, f"{DEPTH}[[variants]]\n{variant}"),))
    assert told in str(error.value)


def test_an_option_names_sizes_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="names the size huge, which the model has not"):
        load_catalog((model_with(tmp_path, f'{DEPTH}sizes = ["huge"]\n'),))


QUALITY = """
[quality]
metric = "top_1_accuracy_ratio"
target = 0.75
better = "higher"
dataset = "photographs"
source = "a paper"
"""


def test_every_image_classifier_says_what_it_is_judged_by() -> None:
    classifiers = [model for model in CATALOG.models.values() if model.domain == "image classification"]
    assert len(classifiers) >= 4
    for model in classifiers:
        assert model.quality is not None
        assert model.quality.metric == "top_1_accuracy_ratio"
        assert 0.5 < model.quality.target < 0.8
    depths = CATALOG.models["resnet-50"]
    targets = [depths.facts_with({"depth": depth})["quality"]["target"] for depth in (50, 101, 152)]
    assert targets == sorted(set(targets))


def test_a_quality_of_which_the_literature_reports_nothing_has_no_target(tmp_path: Path) -> None:
    told = QUALITY.replace("target = 0.75\n", "")
    assert load_catalog((model_with(tmp_path, told),)).models["acted"].quality.target is None


@pytest.mark.parametrize(
    ("line", "instead", "told"),
    [
        ("target = 0.75", "target = 75", "the target of top_1_accuracy_ratio is above 0 and at most 1"),
        ("target = 0.75", 'target = "75 %"', "target is a number"),
        ('better = "higher"', 'better = "more"', "better is one of higher, lower"),
        ('source = "a paper"', "", "has metric, target, better, dataset, source, and nothing else"),
    ],
)
def test_a_quality_that_cannot_be_is_refused(tmp_path: Path, line: str, instead: str, told: str) -> None:
    assert load_catalog((model_with(tmp_path, QUALITY),)).models["acted"].quality is not None
    with pytest.raises(SettingsError) as error:
        load_catalog((model_with(tmp_path / "other", QUALITY.replace(line, instead)),))
    assert told in str(error.value)
