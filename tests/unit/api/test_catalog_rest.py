"""Models, frameworks, datasets, nodes, health, and the description of it all."""

import re

import pytest

from orchestrator.domain.around.device_health import DeviceEvent, EventKind
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.services.facts import devices
from tests.unit import builders
from tests.unit.api.api_rig import Rig

NEEDED_OF_MODELS = {
    "name",
    "domain",
    "frameworks",
    "parameters",
    "layers",
    "flops_per_sample",
    "dominant_layer",
    "work_unit",
    "sizes",
    "datasets",
    "maintainers",
}


def test_models_tell_what_the_contract_asks_for(rig: Rig) -> None:
    (model,) = rig.get("/models")["items"]
    assert set(model) >= NEEDED_OF_MODELS
    assert {option["name"]: option["default"] for option in model["options"]} == {"depth": 50, "rate": 0.1}


def test_frameworks_tell_on_which_node_their_interpreter_is_ready_and_what_to_do_where_not(rig: Rig) -> None:
    rig.cluster.unreachable.add("n1")
    found = {one["name"]: one for one in rig.get("/frameworks")["items"]}
    pytorch = {one["node"]: one for one in found["pytorch"]["interpreters"]}
    assert pytorch["n0"]["ready"] is True
    assert pytorch["n1"]["ready"] is None
    assert "no answer" in pytorch["n1"]["reason"]
    (tensorflow, _) = found["tensorflow"]["interpreters"]
    assert tensorflow["ready"] is False
    assert "tbd frameworks install" in tensorflow["reason"]


def test_a_node_is_drained_quarantined_and_resumed(rig: Rig) -> None:
    for order, state in (
        ("drain", "draining"),
        ("drain", "draining"),
        ("quarantine", "quarantined"),
        ("resume", "available"),
    ):
        answer = rig.http.post(f"/api/v1/nodes/n1/{order}")
        assert (answer.status_code, answer.json()["state"]) == (200, state)
        assert {one["name"]: one["state"] for one in rig.get("/nodes")["items"]} == {"n0": "available", "n1": state}


def test_a_device_tells_what_happened_to_it_and_is_cleared(rig: Rig) -> None:
    lost = DeviceEvent("n1", "GPU-7", 1.0, EventKind.XID, "XID 79: it has fallen off the bus", 79)
    rig.store.add_device_events([lost])
    found = rig.get("/nodes/n1/devices/GPU-7")
    assert (found["health"]["state"], found["health"]["reasons"]) == ("bad", [lost.text])
    assert {one["name"]: list(one["health"]) for one in rig.get("/nodes")["items"]} == {"n0": [], "n1": ["GPU-7"]}
    answer = rig.http.post("/api/v1/nodes/n1/devices/GPU-7/clear").json()
    assert (answer["health"]["state"], [one["kind"] for one in answer["events"]["items"]]) == (
        "well",
        ["cleared", "xid"],
    )
    assert rig.http.post("/api/v1/nodes/n1/devices/GPU-7/clear").status_code == 200
    assert [(deed.action, deed.target) for deed in rig.store.deeds().items] == [("device clear", "n1/GPU-7")]
    assert rig.http.get("/api/v1/nodes/n1/devices/GPU-8").status_code == 404
    assert rig.get("/nodes/n1/devices/cpu:0")["health"]["state"] == "well"


def test_what_was_taken_back_is_not_written_anew_each_time_its_agent_tells_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = builders.node("n1", gpu_xids=[{"device": "GPU-7", "xid": 79, "at": 1.0}])
    written = []
    add = rig.store.add_device_events
    monkeypatch.setattr(rig.store, "add_device_events", lambda told: written.append(add(told)) or written[-1])

    def noted() -> bool:
        return devices.note(rig.context, [node], devices.open_events(rig.context))

    assert [noted(), noted()] == [True, False]
    assert rig.http.post("/api/v1/nodes/n1/devices/GPU-7/clear").status_code == 200
    assert [noted(), noted()] == [False, False]
    assert written == [1]


@pytest.mark.parametrize("path", ["/models", "/frameworks", "/datasets", "/nodes"])
def test_a_list_that_is_had_as_a_whole_is_paged_like_any_other(rig: Rig, path: str) -> None:
    whole = rig.get(path)
    assert whole["next_cursor"] is None
    walked, cursor = [], ""
    while True:
        page = rig.get(f"{path}?limit=1{cursor}")
        walked += page["items"]
        if page["next_cursor"] is None:
            break
        assert len(page["items"]) == 1
        cursor = f"&cursor={page['next_cursor']}"
    assert walked == whole["items"]


def test_health_asks_nothing_of_the_database_and_readiness_does(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rig.http.get("/readyz").json() == {"status": "ready", "role": "leader", "leader": None, "nodes": 2}

    def away() -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(rig.store, "ping", away)
    assert rig.http.get("/healthz").status_code == 200
    assert rig.http.get("/readyz").status_code == 503


def test_the_description_names_every_schema_that_it_refers_to(rig: Rig) -> None:
    answer = rig.http.get("/openapi.json")
    schemas = answer.json()["components"]["schemas"]
    referred = {part.split('"')[0] for part in answer.text.split("#/components/schemas/")[1:]}
    assert referred <= set(schemas)
    assert {"ExperimentSpec", "ProblemView", "RunView", "ResultRowView"} <= set(schemas)


def test_the_description_of_the_spec_takes_one_value_or_a_list_for_an_axis(rig: Rig) -> None:
    spec = rig.http.get("/openapi.json").json()["components"]["schemas"]["ExperimentSpec"]
    one, several = spec["properties"]["framework"]["anyOf"]
    assert one == several["items"] == {"$ref": "#/components/schemas/Framework"}
    assert spec["properties"]["interpreter"]["default"] == "auto"
    assert spec["additionalProperties"] is False


# method -> the verbs that its operations begin with
VERBS = {
    "get": "export get list stream",
    "post": "acknowledge cancel clear create drain extend import ingest pause quarantine resume revoke run submit test",
    "patch": "change",
    "delete": "delete",
}


def test_every_operation_has_a_short_name_one_tag_a_text_and_errors_of_one_kind(rig: Rig) -> None:
    description = rig.app.openapi()
    schemas = description["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch("([A-Z][a-z]+)+", name)] == []  # classes of generated clients
    operations = [(method, one) for path in description["paths"].values() for method, one in path.items()]
    assert len({one["operationId"] for _, one in operations}) == len(operations)
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemView"}}}
    for method, one in operations:
        name = one["operationId"]
        assert re.fullmatch("[a-z]+([A-Z][a-z]+)+", name), name
        assert len(name) <= 26, name
        verb = re.split("[A-Z]", name)[0]
        assert verb in VERBS[method].split(), name
        content = one["responses"].get("200", {}).get("content", {}).get("application/json", {})
        if content.get("schema", {}).get("$ref", "").endswith("Page"):
            assert verb == "list", name
        assert len(one["tags"]) == 1, name
        assert one["summary"], name
        assert one["description"], name
        errors = {
            status: answer["content"] for status, answer in one["responses"].items() if not status.startswith("2")
        }
        assert errors == {"default": problem}, name


def test_the_page_for_people_loads_nothing_from_elsewhere(rig: Rig) -> None:
    text = rig.http.get("/docs").text
    assert "/api/v1/experiments" in text
    for word in ("http://", "https://", "<script", "src="):
        assert word not in text
