"""What is no text or no number is refused before anything is stored, and spoils no list."""

import json
from typing import Any

import pytest

from tests.unit.api.api_rig import SPEC, Rig

LISTS = ["/experiments", "/runs", "/results", "/observations", "/netbench", "/calibrations"]


def post(rig: Rig, body: Any) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return rig.http.post("/api/v1/experiments", content=raw, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"labels": {"k": "\ud800"}}, "/labels/k"),
        ({"labels": {"k": "a\x00b"}}, "/labels/k"),
        ({"labels": {"\x1b[31m": "v"}}, "/labels/\\x1b[31m"),
        ({"name": "abc\n"}, "/name"),
        ({"topology": "1x1\n"}, "/topology"),
        ({"nodes": {"names": ["n0\x07"]}}, "/nodes/names/0"),
        ({"options": {"depth": 10**30}}, "/options/depth"),
    ],
)
def test_what_is_no_text_or_no_number_is_refused_with_its_place(
    rig: Rig, changes: dict[str, Any], pointer: str
) -> None:
    answer = post(rig, SPEC | changes)
    assert answer.status_code == 422, answer.text
    assert pointer in [item["pointer"] for item in answer.json()["errors"]]
    for path in LISTS:
        assert rig.get(path)["items"] == [] or path == "/observations"


def test_a_name_ends_where_its_last_letter_does_also_without_the_border(rig: Rig) -> None:
    from orchestrator.domain.asked.spec import parse_spec
    from orchestrator.domain.words.errors import InvalidRequest

    for wrong in ({"name": "abc\n"}, {"topology": "1x1\n"}):
        with pytest.raises(InvalidRequest):
            parse_spec(SPEC | wrong)
