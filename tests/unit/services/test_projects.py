"""Projects: scripts of people's own as models. What of their facts is refused, and what a spec may ask of them."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.spec import parse_spec
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.words.errors import InvalidRequest, SettingsError
from orchestrator.services.facts.catalog import load_catalog
from workers.trainer.base import project

WORDS = 'words = ["torchrun", "--nproc-per-node={devices}", "train.py", "--lr={lr}"]\n'
LR = '[options.lr]\ntype = "float"\ndefault = 0.1\n'
COMMIT = f'commit = "{"a1" * 20}"\n'


def catalog_of(folder: Path, command: str = WORDS, rest: str = LR) -> Any:
    (folder / "mine").mkdir()
    (folder / "mine" / "model.toml").write_text(f'name = "mine"\n[command]\n{command}{rest}')
    return load_catalog([folder])


def test_a_project_is_a_model_whose_command_the_service_does_not_keep(tmp_path: Path) -> None:
    model = catalog_of(tmp_path, WORDS + COMMIT + 'folder = "/srv/mine"\nunit = "tokens"\n').models["mine"]
    assert (model.frameworks, model.datasets, model.work_unit) == (("own-script",), ("own",), "tokens")
    assert not any(told in str(model) + str(model.facts) for told in ("torchrun", "/srv", COMMIT))


@pytest.mark.parametrize(
    ("command", "rest", "said"),
    [
        ("", LR, "words is a list of words"),
        ('words = "python train.py {lr}"\n', LR, "no shell reads them"),
        ('words = ["python", ""]\n', LR, "words is a list of words"),
        (WORDS + "shell = true\n", LR, "and has nothing else"),
        (WORDS + 'commit = "main"\n', LR, "commit is 40 digits"),
        (WORDS + "folder = 3\n", LR, "folder is a text"),
        (WORDS + 'work = 0\nunit = "tokens"\n', LR, "above 0"),
        (WORDS + "work = 8\n", LR, "work wants its unit"),
        (WORDS, "", "{lr} is no option of the model"),
        (WORDS, LR + '[options.size]\ntype = "int"\ndefault = 1\n', "no word has the option {size}"),
        (WORDS, LR.replace("lr", "seed"), "{seed} is what the plan says"),
        (WORDS, "options = 3\n", "and has nothing else"),
        (WORDS, "[options]\nlr = 0.1\n", "each [options.NAME]"),
        (WORDS, LR + "[sizes.full]\n", "a project has name, domain, command, options, maintainers, and no sizes"),
    ],
)
def test_facts_that_are_no_projects_are_refused(tmp_path: Path, command: str, rest: str, said: str) -> None:
    with pytest.raises(SettingsError, match=r"model\.toml") as refused:
        catalog_of(tmp_path, command, rest)
    assert said in str(refused.value)


def test_values_stay_within_their_words_and_become_no_options() -> None:
    words = ["train.py", "{lr}", "--name={name}", "{{}}", "{name} {lr}"]
    values = {"lr": 0.1, "name": "a b; {lr}", "on": True}
    assert project.filled(words, values) == ["train.py", "0.1", "--name=a b; {lr}", "{{}}", "a b; {lr} 0.1"]
    assert project.filled(["--amp={on}"], values) == ["--amp=true"]
    with pytest.raises(ValueError, match="would be an option of the command"):
        project.filled(["{name}"], {"name": "--eval=os"})
    with pytest.raises(ValueError, match="that no word can have"):
        project.filled(["--name={name}"], {"name": "a\0b"})


@pytest.mark.parametrize(
    ("changed", "pointer", "said"),
    [
        ({}, None, None),
        ({"topology": "1x2", "options": {"lr": [0.1, 0.2]}, "profile": ["kernels"]}, None, None),
        ({"data": "synthetic"}, "/data", "data synthetic is not offered"),
        ({"framework": "pytorch"}, "/framework", "only for own-script"),
        ({"per_device_batch_size": 2}, "/per_device_batch_size", "has no {per_device_batch_size}"),
        ({"per_device_batch_size": "max", "memory_limit_bytes": 10**9}, "/per_device_batch_size", "no largest batch"),
        ({"precision": "bf16"}, "/precision", "precision bf16 is not offered"),
        ({"topology": "2x1"}, "/topology", "no strategy for topology 2x1"),
        ({"profile": ["layers"]}, "/profile", "makes no profile of layers"),
        ({"options": {"lr": "high"}}, "/options/lr", "is of type float"),
        ({"mode": "convergence", "max_steps": 9}, "/framework", "own-script"),
    ],
)
def test_what_a_spec_may_ask_of_a_project(
    tmp_path: Path, changed: dict[str, Any], pointer: str | None, said: str | None
) -> None:
    facts = Facts(catalog_of(tmp_path), "cpu", (1, 2))
    asked = {"model": "mine", "framework": "own-script", "data": "own", "per_device_batch_size": 1}
    spec = parse_spec({"name": "mine", **asked, "repeats": 1, **changed})
    if pointer is None:
        check(spec, facts)
        assert {plan.framework for plan in expand(spec, facts, [])} == {"own-script"}
        return
    with pytest.raises(InvalidRequest) as refused:
        check(spec, facts)
    (problem,) = refused.value.problems
    assert problem.pointer == pointer
    assert str(said) in problem.message
