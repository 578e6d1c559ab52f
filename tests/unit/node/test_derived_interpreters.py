"""Definitions of an operator's own: one of ours with other versions, whose environments are more of the same name."""

from pathlib import Path

import pytest

from workers.node import interpreters
from workers.node.interpreters import InterpreterError, definitions
from workers.node.interpreters.derived import derive, derived


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path / "environments"))
    monkeypatch.setenv("TBD_INTERPRETER_PATH", str(tmp_path / "own"))
    monkeypatch.setenv("TBD_INTERPRETER_VARIANT", "cpu")
    return tmp_path / "own"


def test_a_derived_definition_differs_in_its_pins_and_is_of_the_same_interpreter(own: Path) -> None:
    folder = derive("pytorch", ["Torch==2.12.1", "jinja2==3.1.5"], "pytorch-2.12")
    assert folder == own / "pytorch-2.12"
    ours, theirs = definitions()["pytorch"], derived()["pytorch-2.12"]
    before, after = (one.requirements.read_text().splitlines() for one in (ours, theirs))
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert [new for _, new in changed] == ["Jinja2==3.1.5", "torch==2.12.1"]
    assert (theirs.name, theirs.python) == ("pytorch", ours.python)
    assert theirs.hash != ours.hash
    assert theirs.folder.name == f"pytorch-{theirs.hash}"
    (told,) = (one for one in interpreters.describe() if one["name"] == "pytorch-2.12")
    assert (told["derived_from"], told["definition"], told["ready"]) == ("pytorch", theirs.hash, False)
    assert "tbd frameworks install pytorch-2.12" in told["reason"]
    assert f"pytorch-{theirs.hash} is not on this host" in str(interpreters.resolve("pytorch", theirs.hash).reason)


@pytest.mark.parametrize(
    ("base", "pins", "name", "said"),
    [
        ("torch", ["torch==2.12.1"], "own", "there is no interpreter torch; there are"),
        ("pytorch", ["torchvision==0.1"], "own", "pytorch has no package torchvision; it has cuda-bindings"),
        ("pytorch", [], "own", "no version is another one"),
        ("pytorch", ["torch>=2"], "own", "'torch>=2' pins nothing"),
        ("pytorch", ["torch==2 --index-url=x"], "own", "pins nothing"),
        ("pytorch", ["torch==2.12.1"], "mxnet", "'mxnet' cannot be its name"),
        ("pytorch", ["torch==2.12.1"], "../own", "cannot be its name"),
    ],
)
def test_what_cannot_be_derived_says_why_and_leaves_nothing(
    own: Path, base: str, pins: list[str], name: str, said: str
) -> None:
    with pytest.raises(InterpreterError) as refused:
        derive(base, pins, name)
    assert said in str(refused.value)
    assert not own.exists()


def test_a_name_is_taken_once_and_a_folder_has_to_be_named(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    derive("pytorch", ["torch==2.12.1"], "own")
    with pytest.raises(InterpreterError, match="'own' cannot be its name"):
        derive("pytorch", ["torch==2.12.1"], "own")
    (own / "own").rename(own / "mxnet")
    with pytest.raises(InterpreterError, match="there is an interpreter mxnet already"):
        derived()
    monkeypatch.delenv("TBD_INTERPRETER_PATH")
    with pytest.raises(InterpreterError, match="TBD_INTERPRETER_PATH names the folder"):
        derive("pytorch", ["torch==2.12.1"], "another")
