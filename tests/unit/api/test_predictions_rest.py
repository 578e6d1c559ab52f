"""Predictions over REST and as text: what they rest on, what lacks, and how near they came."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import main
from orchestrator.domain.asked.catalog import StrategyFacts
from orchestrator.domain.value.measurement import Analysis, Transfer, Validity
from orchestrator.reports.tables import prediction, waterfall
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.probe.netbench import LIBRARIES
from tests.unit import builders
from tests.unit.api import test_waterfall_rest
from tests.unit.api.api_rig import SPEC, Rig
from tests.unit.api.test_waterfall_rest import PROFILED, complete
from tests.unit.builders import LOADED

SOUND, DISTURBED = Validity(), Validity((LOADED,))
LATENCY_S, RATE = 1e-3, 1e9
CATALOG = load_catalog()
ASKED = SPEC | {"topology": ["1x1", "2x1", "4x1"], "strategy": "ddp", "repeats": 1}


def an_exchange(size: int, busy: bool, operation: str = "all_reduce", library: str = "gloo") -> Transfer:
    seconds = (LATENCY_S + size / RATE) * (1.5 if busy else 1)
    return Transfer(operation, library, size, 2, (0, 1), busy, 9, *[seconds] * 5, size / seconds, size / seconds)


def netbench(rig: Rig, *sent: Transfer, topology: str = "2x1", validity: Validity = SOUND) -> str:
    """A run that found ``sent``, between two nodes."""
    (run,) = rig.store.runs_of(rig.submit(name="between", topology=topology, strategy="ddp", repeats=1, seed=9)["id"])
    rig.start(run.id)
    rig.finish(run.id, Analysis(validity, transfers=sent, code_version="1"))
    return run.id


def predict(rig: Rig, spec: Any = ASKED, status: int = 200, **parameters: Any) -> Any:
    answer = rig.http.post("/api/v1/predictions", json=spec, params=parameters)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture
def alone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One device that was measured, of a network with gradients of 80 MB."""
    stem, relu, fc = test_waterfall_rest.TIMES.rows
    rows = (replace(stem, parameters_bytes=30 * 10**6), relu, replace(fc, parameters_bytes=50 * 10**6))
    monkeypatch.setattr(test_waterfall_rest, "TIMES", replace(test_waterfall_rest.TIMES, rows=rows))
    complete(rig, rig.submit(**PROFILED)["id"])


@pytest.fixture
def ready(rig: Rig, alone: None) -> str:
    """Two nodes that were measured besides; the netbench's run."""
    return netbench(rig, *(an_exchange(2**power, busy) for power in range(2, 29) for busy in (False, True)))


def test_a_disturbed_netbench_counts_where_there_is_no_other_and_is_named(rig: Rig, ready: str) -> None:
    sent = [an_exchange(2**power, busy=True) for power in range(2, 29)]
    netbench(rig, *sent, validity=DISTURBED)
    (two,) = predict(rig, ASKED | {"topology": "2x1"})["items"]
    assert (two["rests_on"]["netbench_run"], two["rests_on"]["disturbed"]) == (ready, False)
    only = netbench(rig, *(replace(one, world_size=4, ranks=(0, 1, 2, 3)) for one in sent), validity=DISTURBED)
    found = predict(rig, ASKED | {"topology": "4x1"})
    assert (found["items"][0]["rests_on"]["netbench_run"], found["items"][0]["rests_on"]["disturbed"]) == (only, True)
    assert f"{only} was disturbed" in prediction.text(found)


def test_a_waterfall_says_what_the_link_would_have_to_carry(rig: Rig, ready: str) -> None:
    ranks = {one["id"]: one["plan"]["topology"] for one in rig.get("/runs")["items"]}
    run = next(one for one, topology in ranks.items() if topology == "2x1" and one != ready)
    found = rig.get(f"/runs/{run}/waterfall")
    asked = predict(rig, ASKED | {"topology": "2x1"}, until=0.8)["items"][0]
    assert found["reach"] == asked["until"]
    assert f"{found['reach']['bits_per_s'] / 1e9:.3g} Gbit/s would reach an efficiency of 80 %" in waterfall.text(found)


def test_netbenches_beside_idle_cores_count_where_they_are_asked_for(rig: Rig, ready: str) -> None:
    busy, idle = (predict(rig, **asked)["items"][1] for asked in ({}, {"beside": "idle"}))
    assert idle["rests_on"]["beside"] == "idle"
    assert busy["parts"][1]["seconds"] > 1.5 * idle["parts"][1]["seconds"]  # what is hidden stays
    predict(rig, status=422, beside="training")


def test_without_runs_the_commands_that_would_supply_them_are_told_and_nothing_is_stored(rig: Rig) -> None:
    found = predict(rig)
    assert found["items"] == []
    profile = "tbd run net -f pytorch --strategy ddp --topology 1x1 --batch 4 --profile layers --repeats 6"
    netbenches = [f"tbd netbench --topology {one} --library gloo --fabric ethernet" for one in ("2x1", "4x1")]
    assert [one["command"] for one in found["missing"]] == [profile, *netbenches]
    assert rig.get("/predictions")["items"] == []
    other = predict(rig, ASKED | {"seed": 3, "exclusive": "device"})["missing"][0]["command"]
    assert other == profile.replace("--batch 4", "--batch 4 --seed 3 --exclusive device")
    complete(rig, rig.submit(**PROFILED)["id"])
    lacking = predict(rig)["missing"]
    assert [one["command"] for one in lacking] == netbenches
    assert "missing: there is no netbench of gloo over ethernet" in prediction.text({"items": [], "missing": lacking})


def test_cells_are_predicted_from_one_device_and_the_exchange_beside_busy_cores(rig: Rig, ready: str) -> None:
    found = predict(rig)
    one, two, four = found["items"]
    assert found["missing"] == []
    assert (one["iteration_s"], one["efficiency"]) == (pytest.approx(0.100125, rel=1e-4), 1.0)
    rests = two["rests_on"]
    assert (rests["netbench_run"], rests["netbench_ranks"], rests["beside"]) == (ready, 2, "busy-cores")
    assert (len(rests["run_ids"]), rests["profiled_batch"], rests["judged"]) == (4, 4, 0)
    for item in found["items"]:
        assert sum(part["seconds"] for part in item["parts"]) == pytest.approx(item["iteration_s"])
        rate = item["throughput"]
        world = {"1x1": 1, "2x1": 2, "4x1": 4}[item["axes"]["topology"]]
        assert rate["value"] == pytest.approx(4 * world / item["iteration_s"], rel=1e-3)
        assert rate["ci_low"] * 2 == pytest.approx(rate["value"], rel=1e-3)  # nothing was judged: a factor of two
        assert (rate["confidence"], rate["unit"]) == (0.9, "images/s")
    exposed = [item["parts"][1]["seconds"] for item in (one, two, four)]
    assert exposed[0] == 0 < exposed[1] < exposed[2]
    # A ring of four sends one and a half times the bytes of a ring of two, and three times the messages.
    assert exposed[2] > 1.4 * exposed[1]


EXCHANGING = [
    (framework.name, strategy.name)
    for framework in CATALOG.frameworks.values()
    for strategy in framework.strategies.values()
    if strategy.exchange
]


@pytest.fixture
def exchanges_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StrategyFacts:
    """A strategy of the tree's own facts. The rig's only one of several devices exchanges as it does."""
    framework, name = request.param
    real, made = CATALOG.frameworks[framework].strategies[name], builders.catalog()
    strategies = dict(made.frameworks["pytorch"].strategies)
    strategies["ddp"] = replace(strategies["ddp"], exchange=real.exchange, options=real.options)
    changed = replace(made.frameworks["pytorch"], strategies=strategies)
    monkeypatch.setattr(builders, "catalog", lambda: replace(made, frameworks={**made.frameworks, "pytorch": changed}))
    return real


@pytest.mark.parametrize("exchanges_as", EXCHANGING, indirect=True, ids="-".join)
@pytest.mark.after_change
def test_every_strategy_is_predicted_from_its_own_library(exchanges_as: StrategyFacts, rig: Rig, alone: None) -> None:
    exchange = exchanges_as.exchange
    assert exchange is not None
    library, servers = exchange.libraries["cpu"], exchange.algorithms.get("cpu") == "servers"
    two, four = ("2x1", "4x1") if exchanges_as.max_nodes > 1 else ("1x2", "1x4")
    asked = ASKED | {"topology": [two, four]}
    assert [one["command"].split(" --fabric")[0] for one in predict(rig, asked)["missing"]] == [
        f"tbd netbench --topology {topology} --library {library}" for topology in (two, four)
    ]
    used = LIBRARIES[library]
    assert CATALOG.frameworks[used.framework].strategies[used.strategy] == exchanges_as
    for operation in ("push", "all_reduce") if servers else ():
        netbench(rig, *all_sizes(operation, library), topology=two)
    assert not servers or predict(rig, asked)["missing"]  # a pull that was not timed leaves it unpredicted
    operations = ("push", "pull", "all_reduce") if servers else ("all_reduce",)
    sent = [one for operation in operations for one in all_sizes(operation, library)]
    run = netbench(rig, *sent, topology=two)
    found = predict(rig, asked)
    assert found["missing"] == []
    assert {item["rests_on"]["netbench_run"] for item in found["items"]} == {run}
    exposed = [item["parts"][1]["seconds"] for item in found["items"]]
    assert 0 < exposed[0] < exposed[1]


def all_sizes(operation: str, library: str) -> list[Transfer]:
    return [an_exchange(2**power, True, operation, library) for power in range(2, 29)]


def test_what_was_measured_of_a_cell_judges_its_predictions(rig: Rig, ready: str) -> None:
    spec = {name: value for name, value in PROFILED.items() if name != "repeats"} | {"repeats": 4}
    predict(rig, SPEC | spec)
    (first, *_) = [item for item in rig.get("/predictions")["items"] if item["axes"]["topology"] == "2x1"]
    assert (first["n_measured"], first["measured"]) == (4, pytest.approx(4 / 0.226, rel=0.01))
    assert first["error_ratio"] == pytest.approx(first["throughput"]["value"] / first["measured"] - 1)
    again = next(one for one in predict(rig, SPEC | spec)["items"] if one["axes"]["topology"] == "2x1")
    assert again["rests_on"]["judged"] == 1  # that of one device tells nothing of several
    text = prediction.judged_text(rig.get("/predictions", strategy="ddp")["items"])
    assert "2 of 2" in text or "within interval" in text
    assert f"{first['error_ratio'] * 100:+.1f} %" in text


def test_another_batch_and_another_fabric(rig: Rig, ready: str) -> None:
    twice = predict(rig, ASKED | {"per_device_batch_size": 8, "topology": "1x1"})["items"][0]
    # 90 ms of 100 are computed, 10 of them by the update, which does not grow with the batch
    assert twice["iteration_s"] == pytest.approx(0.1001 + 0.0801, abs=2e-3)
    slow, quick = (
        predict(rig, ASKED | {"topology": "2x1"}, fabric=fabric)["items"][0]
        for fabric in ("1 Gbit/s, 50 us", "100 Gbit/s, 2 us")
    )
    assert quick["efficiency"] > 0.95 > slow["efficiency"]
    assert (quick["rests_on"]["fabric"], quick["rests_on"]["netbench_run"]) == ("100 Gbit/s, 2 us", None)


def test_a_step_grows_with_its_batch_as_those_of_other_batches_do(rig: Rig, ready: str) -> None:
    asked = ASKED | {"per_device_batch_size": 16, "topology": "1x1"}
    assert predict(rig, asked)["items"][0]["rests_on"]["step_batches"] == []
    unprofiled = PROFILED | {"topology": "1x1", "per_device_batch_size": 8, "profile": []}
    complete(rig, rig.submit(**unprofiled)["id"], profiled=False)  # its steps take no longer
    grown = predict(rig, asked)["items"][0]
    assert grown["iteration_s"] == pytest.approx(0.1001, abs=1e-3)
    assert grown["rests_on"]["step_batches"] == [8]
    assert "grown by steps of batch 8" in prediction.text({"items": [grown], "missing": []})
    (two,) = predict(rig, ASKED | {"per_device_batch_size": 8, "topology": "2x1"})["items"]
    assert two["parts"][0]["seconds"] == pytest.approx(0.1001, abs=1e-3)


def test_the_best_of_several_bucket_sizes_is_named(rig: Rig, ready: str) -> None:
    (one,) = predict(rig, ASKED | {"topology": "2x1"})["items"]
    several = [
        one
        | {"axes": one["axes"] | {"options": {"bucket_mib": mib}}, "throughput": one["throughput"] | {"value": rate}}
        for mib, rate in ((1, 30.0), (5, 40.0), (25, 35.0))
    ]
    told = "net, pytorch ddp, 2x1, batch 4: quickest with bucket_mib 5"
    assert told in prediction.text({"items": several, "missing": []})
    assert "quickest" not in prediction.text({"items": several[:1], "missing": []})


def test_errors_are_those_of_predictions_that_were_made_alike(rig: Rig, ready: str) -> None:
    """What nobody has, and what rests on its own cell, judges nothing."""
    complete(rig, rig.submit(**PROFILED | {"topology": "2x1"})["id"])
    asked = ASKED | {"topology": "2x1"}
    predict(rig, asked)
    judged = [predict(rig, asked, **more)["items"][0]["rests_on"]["judged"] for more in ({}, {"beside": "idle"})]
    assert judged == [1, 0]
    (imagined,) = predict(rig, asked, fabric="400 Gbit/s, 1 us")["items"]
    assert (imagined["measured"], imagined["error_ratio"]) == (None, None)
    assert predict(rig, asked)["items"][0]["rests_on"]["judged"] == 1
    alone = ASKED | {"topology": "1x1"}
    assert predict(rig, alone)["items"][0]["error_ratio"] is not None
    assert predict(rig, alone)["items"][0]["rests_on"]["judged"] == 0


def test_a_netbench_of_small_messages_tells_nothing_of_large_ones(rig: Rig, alone: None) -> None:
    run = netbench(rig, *(an_exchange(2**power, True) for power in range(2, 12)))
    found = predict(rig, ASKED | {"topology": "2x1"})
    assert found["items"] == []
    assert found["missing"][0]["what"].startswith(f"{run} timed exchanges of 2048 bytes at most")


def test_until_an_efficiency(rig: Rig, ready: str) -> None:
    asked, fabric = ASKED | {"topology": "2x1"}, "1 Tbit/s, 1 ms"
    (one,) = predict(rig, asked, fabric=fabric, until=0.9)["items"]
    found = [
        predict(rig, asked | {"topology": f"{one['until']['nodes'] + more}x1"}, fabric=fabric)["items"][0]["efficiency"]
        for more in (0, 1)
    ]
    assert found[0] >= 0.9 > found[1]
    told = f"{one['until']['bits_per_s'] / 1e6:.3f} Mbit/s, 1 ms"
    assert predict(rig, asked, fabric=told)["items"][0]["efficiency"] == pytest.approx(0.9, abs=1e-3)
    assert "bandwidth for 90" in prediction.text({"items": [one], "missing": []})


@pytest.mark.parametrize("fabric", ["fast", "0 bit/s, 1 us", "10 Gbit/s", "1.2.3 Gbit/s, 2 us", "-1 Gbit/s, 2 us"])
def test_what_is_no_fabric_is_refused_with_one_that_is(rig: Rig, fabric: str) -> None:
    problem = predict(rig, status=422, fabric=fabric)
    assert "100 Gbit/s, 2 us" in problem["errors"][0]["detail"]


@pytest.mark.parametrize("until", [0, 1, 1.5, -0.5, "NaN"])
def test_an_efficiency_is_between_0_and_1(rig: Rig, until: object) -> None:
    assert predict(rig, status=422, until=until)["errors"]


def test_the_command(rig: Rig, ready: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    predict(rig)
    rig.close()
    monkeypatch.setenv("TBD_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("TBD_SERVER", raising=False)
    assert main(["predict", "--judged"]) == 0
    assert "predicted (90 % CI)" in capsys.readouterr().out
    assert main(["predict", "--judged", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 3
    assert main(["predict", "--fabric", "x", "--judged"]) == 2
    assert "goes with a SPEC.yaml only" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [["--until", "100%", "x.yaml"], ["--until", "0", "x.yaml"], ["x.yaml", "--judged"], []]
)
def test_words_of_the_command_that_make_no_sense_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["predict", *wrong])
    assert ended.value.code == 2
