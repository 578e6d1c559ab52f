"""The distances and the verdict of ``tbd parity``, on small results made by hand."""

import numpy as np
import pytest

from orchestrator.analysis.probe import parity

GENERATOR = np.random.default_rng(5)
CASE = {name: GENERATOR.standard_normal((4, 3)).astype(np.float32) for name in ("a.weight", "b.weight")}


def exact() -> dict[str, np.ndarray]:
    found = {"loss": np.array(2.0), "losses": np.array([2.0, 2.1]), "margin.from_zero": np.array(0.01)}
    for name, value in CASE.items():
        found[f"gradient.{name}"] = 3 * value.astype(float)
        found[f"weight.{name}"] = value * (1 - 1e-3)
        found[f"initial.{name}"] = value
    found["statistic.norm.running_mean"] = np.ones(3)
    found["evaluated.output_0"] = np.array([[1.0, -2.0]])
    found["evaluated.loss"] = np.array(1.5)
    return found


def changed(name: str, factor: float) -> dict[str, np.ndarray]:
    found = exact()
    return found | {name: found[name] * factor}


def test_the_same_result_is_the_same_network() -> None:
    judged = parity.judge(exact(), exact(), CASE)
    assert judged.problems == ()
    assert (judged.loss, judged.gradient.distance, judged.weight.distance, judged.begin) == (0, 0, 0, 0)
    assert judged.to_json()["same"]


@pytest.mark.parametrize(
    ("name", "rounding", "wrong", "told"),
    [
        ("loss", 1e-6, 1e-4, "loss"),
        ("gradient.b.weight", 1e-5, 1e-3, "gradient of b.weight"),
        ("evaluated.output_0", 1e-6, 1e-3, "evaluation of output_0"),
        ("evaluated.loss", 1e-6, 1e-3, "evaluation of loss"),
        ("statistic.norm.running_mean", 1e-5, 1e-3, "statistic of norm.running_mean"),
        ("weight.a.weight", 1e-6, 1e-3, "weight after the updates of a.weight"),
        ("losses", 1e-6, 1e-4, "beginning"),
    ],
)
def test_rounding_is_borne_and_a_difference_is_named(name: str, rounding: float, wrong: float, told: str) -> None:
    assert parity.judge(exact(), changed(name, 1 + rounding), CASE).problems == ()
    (problem,) = parity.judge(exact(), changed(name, 1 + wrong), CASE).problems
    assert problem.startswith(f"the {told}")


def test_weights_are_held_against_what_the_updates_changed() -> None:
    judged = parity.judge(exact(), exact() | {"weight.a.weight": CASE["a.weight"]}, CASE)
    assert judged.weight == parity.Worst(pytest.approx(1.0, rel=1e-3), "a.weight")


def test_a_gradient_that_is_exactly_nothing_is_held_against_the_others() -> None:
    found = exact() | {"gradient.c.bias": np.zeros(2)}
    near, far = found | {"gradient.c.bias": np.full(2, 1e-6)}, found | {"gradient.c.bias": np.full(2, 1e-2)}
    assert parity.judge(found, near, CASE).problems == ()
    assert "c.bias" in parity.judge(found, far, CASE).problems[0]


def test_initial_weights_are_equal_or_the_beginning_is_another() -> None:
    assert parity.judge(exact(), changed("initial.a.weight", 1 + 1e-6), CASE).begin == np.inf


def test_what_is_missing_has_another_shape_or_is_no_number_is_infinitely_far() -> None:
    missing = exact()
    del missing["gradient.a.weight"]
    transposed = exact() | {"gradient.a.weight": exact()["gradient.a.weight"].T}
    for found in (missing, transposed, changed("gradient.a.weight", np.nan)):
        judged = parity.judge(exact(), found, CASE)
        assert judged.gradient == parity.Worst(np.inf, "a.weight")
        assert judged.problems
    assert parity.judge(exact(), changed("loss", np.nan), CASE).problems


def test_a_parameter_that_the_exact_result_has_not_is_told() -> None:
    found = exact() | {"gradient.z.bias": np.ones(2)}
    assert parity.judge(exact(), found, CASE).problems == ("there is no gradient.z.bias in the exact result",)


@pytest.mark.parametrize(("layers", "lost", "too_much"), [(50, 1e-3, 1e-2), (90, 1e-2, 1e-1)])
def test_a_deep_network_may_lose_more(layers: int, lost: float, too_much: float) -> None:
    deep = exact()
    for number in range(layers - 2):
        deep[f"gradient.l{number}.weight"] = np.ones((2, 2))

    def off(by: float) -> dict[str, np.ndarray]:
        return deep | {"gradient.a.weight": deep["gradient.a.weight"] * (1 + by)}

    assert parity.judge(deep, off(lost), CASE).problems == ()
    assert len(parity.judge(deep, off(too_much), CASE).problems) == 1


def test_margins_are_those_of_the_exact_result() -> None:
    assert parity.margins(exact()) == {"from_zero": 0.01}
