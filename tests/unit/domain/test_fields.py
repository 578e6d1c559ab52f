"""One table declares the fields of a spec: whoever has a list of its own has the same ones."""

import re
from pathlib import Path

from orchestrator.cli.spec import spec_options
from orchestrator.domain.asked.fields import AXES, BY_NAME, FIELDS
from orchestrator.domain.asked.fingerprint import WORKLOAD_FIELDS
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec, NodeChoice
from orchestrator.reports.tables import results_table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "use" / "spec.md"
OF_NODES = {
    "gpu_model": "gpu_model",
    "node_names": "names",
    "device_ids": "devices",
}  # as a plan calls them, and as ``nodes`` does
NOT_ASKED = {"data_sha256"}  # what ``data`` stood for
OF_A_RUN = {"repetition", "search", "implied", "pins"}  # a plan has these beside the fields


def test_table_spec_and_page_name_the_same_fields() -> None:
    assert len(BY_NAME) == len(FIELDS)
    assert set(BY_NAME) - set(OF_NODES) - NOT_ASKED == set(ExperimentSpec.model_fields)
    assert set(OF_NODES.values()) == set(NodeChoice.model_fields)
    told = re.findall(r"^\| `([\w.]+)`", PAGE.read_text(encoding="utf-8"), re.M)
    parts = {f"nodes.{name}" for name in OF_NODES.values()}
    assert set(told) == set(ExperimentSpec.model_fields) - {"nodes"} | parts


def test_a_plan_has_the_fields_that_the_table_says() -> None:
    assert {field.name for field in FIELDS if field.planned} == set(Plan.__dataclass_fields__) - OF_A_RUN


def test_an_order_of_fields_has_each_of_them_once() -> None:
    assert sorted(AXES) == sorted(field.name for field in FIELDS if field.axis)
    assert sorted(WORKLOAD_FIELDS) == sorted(field.name for field in FIELDS if field.workload)
    assert sorted(results_table.AXES) == sorted(field.name for field in FIELDS if field.heading)
    assert sorted(spec_options.OPTIONS) == sorted(field.name for field in FIELDS if field.option)


def test_what_keys_a_series_is_in_its_plan() -> None:
    assert [field.name for field in FIELDS if (field.workload or field.exported) and not field.planned] == []
