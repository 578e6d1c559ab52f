"""How an experiment scales, over REST, as a table and as a figure."""

from typing import Any
from xml.etree import ElementTree

import pytest

from orchestrator.domain.words.errors import TbdError
from orchestrator.reports.figures import apart
from orchestrator.reports.figures.scaling import figure
from orchestrator.reports.figures.vega import drawn
from orchestrator.reports.tables.scaling import scaling_table
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_comparisons_rest import NOISE, OTHER, measured

TOPOLOGIES = {"1x1": [100 * one for one in NOISE], "1x2": [190 * one for one in OTHER], "2x2": [300 * n for n in NOISE]}


def scaling(rig: Rig, rates: dict[Any, Any], **changes: Any) -> Any:
    return rig.get(f"/experiments/{measured(rig, rates, by='topology', **changes)}/scaling")


def test_speed_up_and_efficiency_stand_against_one_device(rig: Rig) -> None:
    found = scaling(rig, TOPOLOGIES)
    assert (found["kind"], found["missing"]) == ("weak", [])
    one, two, four = found["items"]
    assert [item["world_size"] for item in (one, two, four)] == [1, 2, 4]
    assert (one["is_baseline"], one["speedup"]["value"], one["speedup"]["ci_low"]) == (True, 1, None)
    assert four["speedup"]["value"] == pytest.approx(3.0)
    assert four["efficiency"]["value"] == pytest.approx(0.75)
    assert two["speedup"]["ci_low"] < 1.9 < two["speedup"]["ci_high"]
    assert two["efficiency"]["ci_high"] == pytest.approx(two["speedup"]["ci_high"] / 2)
    assert (two["speedup"]["confidence"], two["blocks"]) == (0.95, 6)
    assert two["baseline_cell_key"] == one["cell_key"]
    assert two["notes"] == ["one device ran with the strategy single, several with ddp"]


def test_one_batch_over_all_devices_is_strong_scaling_and_what_does_not_divide_is_missing(rig: Rig) -> None:
    found = scaling(rig, {"1x1": [100.0, 101.0], "1x2": [150.0, 152.0]}, per_device_batch_size=None,
                    global_batch_size=[8, 9], repeats=2)  # fmt: skip
    assert found["kind"] == "strong"
    assert [(item["topology"], item["global_batch_size"]) for item in found["items"]] == [
        ("1x1", 8),
        ("1x2", 8),
        ("1x1", 9),
    ]
    (missing,) = found["missing"]
    assert (missing["cell"]["topology"], missing["cell"]["global_batch_size"]) == ("1x2", 9)
    assert missing["reason"] == "9 is not divisible by the 2 devices of 1x2"


def test_a_cell_without_a_rate_is_missing_with_its_reason_and_one_without_a_baseline_says_so(rig: Rig) -> None:
    made = rig.submit(topology=["1x1", "1x2"], repeats=1)
    assert {one["reason"] for one in rig.get(f"/experiments/{made['id']}/scaling")["missing"]} == {
        "no run has ended yet"
    }
    (item,) = scaling(rig, {"1x2": [100.0, 101.0]})["items"]
    assert item["speedup"] is None
    assert "add the topology 1x1" in item["reason"]


def test_the_table_has_the_intervals_and_below_it_what_is_missing(rig: Rig) -> None:
    table = scaling_table(scaling(rig, TOPOLOGIES))
    assert table.headers[-3:] == ["speed-up (95 % CI)", "efficiency (95 % CI)", "blocks"]
    assert table.rows[0][-3] == "1 (baseline)"
    value, low, _, high = table.rows[1][-3].replace("(", "").replace(")", "").split()
    assert float(low) < float(value) < float(high)
    assert any("Student's t" in note for note in table.notes)


def test_the_figure_has_a_point_for_each_cell_with_its_interval_and_is_drawn_alike_each_time(rig: Rig) -> None:
    found = scaling(rig, TOPOLOGIES)
    specification = figure(found, "a <name> & more")
    root = ElementTree.fromstring(drawn(specification, "svg"))
    assert "a <name> & more: weak scaling" in [text.text for text in root.findall(".//{*}text")]
    marks = [mark.attrib["aria-label"] for mark in root.iter() if mark.get("aria-roledescription") == "point"]
    assert [label.split(";")[0] for label in marks] == [f"devices: {count}" for count in (1, 2, 4)]
    rows = specification["layer"][2]["data"]["values"]
    assert [row["speedup"] for row in rows] == [item["speedup"]["value"] for item in found["items"][1:]]
    for form, begin in {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}.items():
        assert drawn(specification, form).startswith(begin)
        assert form == "pdf" or drawn(specification, form) == drawn(specification, form)
    with pytest.raises(ValueError, match="several devices"):
        figure(scaling(rig, {"1x1": [100.0, 101.0]}), "alone")


@pytest.mark.after_change
def test_a_server_draws_in_a_process_of_its_own_and_keeps_what_it_drew(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (figure(scaling(rig, TOPOLOGIES), name) for name in ("one", "other"))
    drawings, wanted = apart.Drawings(), [drawn(each, "svg").decode() for each in (one, other)]
    assert drawings.svgs([one, other, one]) == [*wanted, wanted[0]]
    monkeypatch.setattr(apart, "MOST_S", 0.001)
    assert drawings.svgs([other]) == [wanted[1]]
    with pytest.raises(TbdError, match="not drawn within"):
        drawings.svgs([figure(scaling(rig, TOPOLOGIES), "a third")])
    monkeypatch.undo()
    with pytest.raises(TbdError, match="ended with status"):
        drawings.svgs([{"mark": "of no kind"}])
    monkeypatch.setattr(apart, "MOST_KEPT", 1)
    assert drawings.svgs([one, other]) == wanted
