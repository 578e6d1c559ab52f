"""What a person may call an experiment or a run, against REST over a real store."""

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.cli.exits import CommandError
from orchestrator.cli.rest import naming
from tests.unit.api.api_rig import Rig


class RigClient:
    """A client of the rig; ``asked`` are the paths that were asked for."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.asked: list[str] = []

    def get(self, path: str, **parameters: Any) -> Any:
        self.asked.append(path)
        return self._rig.get(path, **parameters)


@pytest.fixture
def client(rig: Rig) -> Any:
    return RigClient(rig)


def runs_of(rig: Rig, experiment: dict[str, Any]) -> list[str]:
    return [run.id for run in rig.store.runs_of(experiment["id"])]


def test_a_whole_id_costs_no_request(rig: Rig, client: RigClient) -> None:
    one = rig.submit()
    for call in (naming.thing, naming.experiment):
        assert call(client, one["id"]) == one["id"]  # type: ignore[arg-type]
    run = runs_of(rig, one)[0]
    assert naming.run(client, run) == run  # type: ignore[arg-type]
    assert client.asked == []


def test_the_beginning_of_an_id_is_enough_where_it_is_of_one_alone(rig: Rig, client: Any) -> None:
    one = rig.submit(repeats=1)
    (run,) = runs_of(rig, one)
    assert naming.thing(client, one["id"][:-1]) == one["id"]
    assert naming.thing(client, run[:-1]) == run
    assert naming.run(client, run[:20]) == run


@pytest.mark.parametrize("call", [naming.thing, naming.experiment])
def test_the_prefix_of_an_id_may_be_left_out(rig: Rig, client: Any, call: Callable[..., str]) -> None:
    one = rig.submit(repeats=1)
    assert call(client, one["id"].removeprefix("exp_")[:19]) == one["id"]


def test_a_beginning_of_several_is_refused_with_the_candidates(rig: Rig, client: Any) -> None:
    ids = [rig.submit(name=f"n{number}")["id"] for number in range(7)]
    with pytest.raises(CommandError) as caught:
        naming.experiment(client, "exp_")
    told = str(caught.value)
    assert "'exp_' is how several ids begin" in told
    assert [one in told for one in reversed(ids)] == [True] * naming.MOST_TOLD + [False] * 2
    assert told.endswith("…")
    assert caught.value.code == 2


def test_a_name_is_the_newest_experiment_of_that_name(
    rig: Rig, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.submit(name="mine")
    newest = rig.submit(name="mine")["id"]
    rig.submit(name="other")
    assert naming.thing(client, "mine") == newest
    assert naming.experiment(client, "mine") == newest
    assert f"mine: {newest}\n" in capsys.readouterr().err


def test_latest_is_the_newest_experiment_whatever_is_called_so(
    rig: Rig, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match="nothing was submitted yet"):
        naming.thing(client, "latest")
    rig.submit(name="latest")
    newest = rig.submit(name="mine")["id"]
    assert naming.thing(client, "latest") == naming.experiment(client, "latest") == newest
    assert f"latest: {newest} (mine)" in capsys.readouterr().err


def test_for_a_run_latest_is_the_one_that_started_last(rig: Rig, client: Any) -> None:
    runs = runs_of(rig, rig.submit(repeats=3))
    rig.start(runs[1])
    assert naming.run(client, "latest") == runs[1]


def test_an_experiment_of_one_run_stands_for_it_and_others_are_asked_about(rig: Rig, client: Any) -> None:
    one, three = rig.submit(name="one", repeats=1), rig.submit(name="three", repeats=3)
    assert [naming.run(client, "one")] == [naming.run(client, one["id"])] == runs_of(rig, one)
    with pytest.raises(CommandError, match="three has 3 runs: which") as caught:
        naming.run(client, "three")
    assert all(run in str(caught.value) for run in runs_of(rig, three))


@pytest.mark.parametrize("text", ["exp_none", "nobody", "", "ö", "a b", "\udcff", "x" * 300, "exp_%", "../nodes"])
def test_what_stands_for_nothing_is_a_usage_error(rig: Rig, client: Any, text: str) -> None:
    rig.submit()
    with pytest.raises(CommandError, match="there is no experiment") as caught:
        naming.experiment(client, text)
    assert caught.value.code == 2


def test_a_run_is_no_experiment(rig: Rig, client: Any) -> None:
    run = runs_of(rig, rig.submit())[0]
    with pytest.raises(CommandError, match="this takes an experiment"):
        naming.experiment(client, run)
    with pytest.raises(CommandError, match="there is no experiment"):
        naming.experiment(client, run[:-1])


def test_a_look_up_over_rest_refuses_what_no_name_can_be(rig: Rig) -> None:
    for text in ("", "a b", "a\n", "x" * 101):
        assert rig.http.get("/api/v1/lookup", params={"text": text}).status_code == 422
    experiment = rig.submit(repeats=1)
    (found,) = rig.get("/lookup", text=experiment["id"])["items"]
    assert {found[name] for name in ("kind", "id", "experiment_id", "name", "state")} == {
        "experiment",
        experiment["id"],
        "first",
        "active",
    }
