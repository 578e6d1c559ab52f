"""No path, command or code that a request holds is ever followed: names are looked up, and ids are rows of tables."""

from pathlib import Path

from tests.unit.api.api_rig import SPEC, Rig

HOSTILE = [
    "../../../../etc/passwd",
    "/etc/passwd",
    "$(touch {folder}/made)",
    "; touch {folder}/made",
    "`touch {folder}/made`",
    "__import__('os').system('touch {folder}/made')",
    "os",
    "suites.models.resnet_50",
    "pytorch/../../../bin/sh",
    "{{7*7}}",
    "' OR 1=1 --",
]
NAMES = ("model", "framework", "strategy", "interpreter", "data", "size", "precision", "device", "topology", "fabric")
NAMES += ("placement", "mode", "profile")
PATHS = [
    "/experiments/{}",
    "/experiments/{}/events",
    "/runs/{}",
    "/runs/{}/log",
    "/runs/{}/trace",
    "/runs/{}/events",
    "/runs/{}/kernels",
]
CLIMBING = [
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "%2fetc%2fpasswd",
    "..%5c..%5cwin.ini",
    "%00",
    "run_%00",
    "~root",
]


def test_a_spec_names_what_is_registered_and_nothing_else(rig: Rig, tmp_path: Path) -> None:
    for name in NAMES:
        for text in (value.replace("{folder}", str(tmp_path)) for value in HOSTILE):
            for sent in (text, [text]):
                answer = rig.http.post("/api/v1/experiments", json=SPEC | {name: sent})
                assert answer.status_code == 422, (name, text, answer.text)
                assert answer.json()["errors"][0]["pointer"].startswith(f"/{name}")
    assert not (tmp_path / "made").exists()
    assert rig.get("/experiments")["items"] == []


def test_options_are_those_that_the_model_declares(rig: Rig) -> None:
    for value in HOSTILE:
        for options in ({value: 1}, {"depth": value}):
            assert rig.http.post("/api/v1/experiments", json=SPEC | {"options": options}).status_code == 422


def test_a_spec_has_no_field_for_a_command(rig: Rig) -> None:
    for field in ("command", "cmd", "env", "environment", "module", "path", "script", "image", "url"):
        answer = rig.http.post("/api/v1/experiments", json=SPEC | {field: "/bin/sh"})
        assert answer.status_code == 422
        assert "unknown key" in answer.text


def test_free_text_is_kept_as_text(rig: Rig, tmp_path: Path) -> None:
    labels = {f"k{number}": value.replace("{folder}", str(tmp_path)) for number, value in enumerate(HOSTILE)}
    made = rig.submit(labels=labels, nodes={"names": [*labels.values()]})
    assert rig.get(f"/experiments/{made['id']}")["spec"]["labels"] == labels
    assert [one["id"] for one in rig.get("/experiments", label=f"k10={labels['k10']}")["items"]] == [made["id"]]
    assert not (tmp_path / "made").exists()


def test_no_path_leads_out_of_the_tables(rig: Rig) -> None:
    for path in PATHS:
        for text in CLIMBING:
            answer = rig.http.get(f"/api/v1{path.format(text)}")
            assert answer.status_code in (404, 422), (path, text)
            assert "root:" not in answer.text
            assert answer.headers["Content-Type"] == "application/problem+json"


def test_what_is_served_as_a_file_is_called_by_its_id(rig: Rig) -> None:
    made = rig.submit(repeats=1)
    (run,) = rig.get(f"/experiments/{made['id']}/runs")["items"]
    answer = rig.http.get(f"/api/v1/runs/{run['id']}/trace")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{run["id"]}.trace.json"'
