"""Numbers, tables and reports as a person reads them."""

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from orchestrator.cli.printing import output
from orchestrator.domain.value.measurement import METRICS, OF_CONVERGENCE, Advice, Validity
from orchestrator.reports.drawing import table
from orchestrator.reports.experiment_report import BESIDE, experiment_report, observed
from orchestrator.reports.figures import compared
from orchestrator.reports.figures.cells import gpus_figure, heat_map
from orchestrator.reports.html_report import figures_of, html_report
from orchestrator.reports.numbers import NOTHING, duration, memory, percent, plain, with_interval
from orchestrator.reports.tables.comparison import sides_table
from orchestrator.reports.tables.results_table import results_table
from tests.contract.test_store_profiles import WHOLE
from tests.unit import builders
from tests.unit.api.api_rig import Rig, fingerprint_of, rate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NOTHING),
        (0, "0"),
        (12.3456, "12.35"),
        (0.00123456, "0.001235"),
        (123456.7, "123457"),
        (1e-9, "1.000e-09"),
        ("NaN", "NaN"),
    ],
)
def test_numbers_have_four_significant_digits(value: Any, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (123.456789, 123.4067, 123.5069, "123.457 ± 0.050"),
        (123.456, 100.5, 146.5, "123 ± 23"),
        (5.0, None, None, "5.000"),
        (5.0, 5.0, 5.0, "5.000"),
        (571.2, 537.1, 607.6, "571 (537 to 608)"),
        (101.3, 100.31, 102.4, "101.30 (100.31 to 102.40)"),
        (10.7, 3.2, 35.8, "10.7 (3.20 to 35.8)"),
        (0.1, 1e-13, 8e10, "0.100 (1.00e-13 to 8.00e+10)"),
        (0.1, 0.0, 1.371, "0.100 (0 to 1.37)"),
        (0.0, -12.71, 12.71, "0 ± 13"),
        (0.0, -1.0, 2.0, "0 (-1.00 to 2.00)"),
        (0.0, 0.0, 0.0, "0"),
        ("NaN", "NaN", "NaN", "NaN"),
        (None, None, None, NOTHING),
    ],
)
def test_an_interval_is_a_half_width_where_both_sides_round_alike_else_its_ends(
    value: Any, low: Any, high: Any, text: str
) -> None:
    assert with_interval({"value": value, "ci_low": low, "ci_high": high}) == text


def test_units_are_for_people() -> None:
    assert (memory(3 * 2**30), memory(17_825_792), memory(512)) == ("3.00 GiB", "17.0 MiB", "512 B")
    assert (percent(0.1284), percent(None)) == ("12.8 %", NOTHING)
    assert [percent("NaN"), memory("Infinity"), duration("-Infinity")] == ["NaN", "Infinity", "-Infinity"]
    assert [duration(s) for s in (1e-5, 0.0101, 2.06, 150, 7_300)] == [
        "10.0 µs",
        "10.1 ms",
        "2.06 s",
        "2 min 30 s",
        "2 h 1 min",
    ]


def test_columns_of_numbers_stand_to_the_right_and_a_long_last_one_is_wrapped() -> None:
    text = table.text(["name", "n", "note"], [["a", "1", "x " * 30], ["bcd", "22", "short"]], width=40)
    lines = text.splitlines()
    assert lines[2].startswith("a      1  x x")
    assert max(map(len, lines)) <= 40
    assert lines[-1] == "bcd   22  short"


HEADINGS = ["model", "batch", "samples/s (95 % CI)", "peak memory", "note"]
ROWS = [
    ["resnet-50", "4", "12.34 ± 0.05", "1.21 GiB", "single run, 2 left out [1]"],
    ["resnet-50", "16", "~12.34 (indicative)", "987 MiB", ""],
]


def test_a_row_is_folded_where_the_screen_is_narrow_and_its_numbers_stay_whole() -> None:
    assert table.text(HEADINGS, ROWS, width=40).splitlines() == [
        "model      batch  samples/s (95 % CI)",
        "  peak memory",
        "  note",
        "─" * 37,
        "resnet-50      4         12.34 ± 0.05",
        "     1.21 GiB",
        "  single run, 2 left out [1]",
        "resnet-50     16  ~12.34 (indicative)",
        "      987 MiB",
    ]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_no_line_of_a_table_is_wider_than_the_screen_and_nothing_is_lost(width: int) -> None:
    rows = [*ROWS, ["a-model-with-a-name-that-is-longer-than-twenty", "8", NOTHING, NOTHING, "x " * 40]]
    lines = table.text(HEADINGS, rows, width).splitlines()
    assert max(map(len, lines)) <= width
    assert "".join(lines).count("x") == 40
    assert width == 20 or any("12.34 ± 0.05" in line for line in lines)


def test_a_coloured_cell_is_coloured_in_each_of_its_lines_and_takes_the_room_of_its_text() -> None:
    red = "\x1b[31mnot valid at all\x1b[0m"
    assert table.text(["state"], [[red]], width=16).splitlines()[2] == red
    lines = table.text(["state"], [[red]], width=12).splitlines()[2:]
    assert lines == ["\x1b[31mnot valid\x1b[0m", "\x1b[31mat all\x1b[0m"]


def test_lists_and_dates_are_texts_though_they_begin_with_a_number() -> None:
    rows = [["3 completed, 1 failed", "2026-01-31 10:00"], ["1 failed", NOTHING]]
    assert table.text(["runs", "when"], rows).splitlines()[3] == f"1 failed               {NOTHING}"


def test_a_table_in_a_pipe_has_one_line_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output.width() is None
    assert len(table.text(HEADINGS, ROWS, output.width()).splitlines()) == 4
    monkeypatch.setenv("COLUMNS", "40")
    assert output.width() == 40


def results(rig: Rig, *cells: Any, **changes: Any) -> dict[str, Any]:
    """The material of a report: one experiment, a batch size per cell, each with the analyses of its runs."""
    batches = [4 * 2**index for index in range(len(cells))]
    experiment = rig.submit(per_device_batch_size=batches, repeats=len(cells[0]), max_repeats=20, **changes)
    waiting = {batch: list(cell) for batch, cell in zip(batches, cells, strict=True)}
    for run in rig.store.runs_of(experiment["id"]):
        rig.start(run.id)
        rig.finish(run.id, waiting[run.plan.per_device_batch_size].pop(0), fingerprint=fingerprint_of())
    return {
        "experiment": rig.get(f"/experiments/{experiment['id']}"),
        "rows": rig.get(f"/experiments/{experiment['id']}/results")["items"],
        "runs": rig.get(f"/experiments/{experiment['id']}/runs")["items"],
        "models": rig.get("/models")["items"],
        "comparisons": [rig.get(f"/experiments/{experiment['id']}/comparisons")],
    }


def test_the_table_shows_what_differs_and_says_once_what_is_the_same(rig: Rig) -> None:
    found = results_table(results(rig, [rate(9.0), rate(11.0)], [rate(18.0), rate(22.0)])["rows"])
    assert found.headers[:4] == ["model", "framework", "batch", "images/s (95 % CI)"]
    assert [row[2] for row in found.rows] == ["4", "8"]
    assert found.rows[0][3] == "9.95 (2.78 to 35.6)", "no speed is below zero"
    assert "topology 1x1" in found.common
    assert found.notes == []


def test_only_the_options_that_differ_stand_in_the_lines(rig: Rig) -> None:
    rows = results(rig, [rate(9.0), rate(11.0)], [rate(18.0), rate(22.0)])["rows"]
    for row, learning_rate in zip(rows, (0.1, 0.2), strict=True):
        row["axes"]["options"] = {"depth": 50, "rate": learning_rate}
    found = results_table(rows)
    assert found.headers[3] == "options"
    assert [row[3] for row in found.rows] == ["rate=0.1", "rate=0.2"]
    assert "options depth=50" in found.common


def test_a_cell_that_was_disturbed_has_its_number_a_mark_and_the_reason_below(rig: Rig) -> None:
    found = results_table(results(rig, [rate(9.0), rate(11.0)], [rate(17.0, builders.LOADED), rate(19.0)])["rows"])
    assert found.rows[1][3] == "18.0 (8.87 to 36.4)"
    assert found.rows[1][-1] == "disturbed [1]"
    assert found.notes[0] == f"[1] {builders.LOADED.text}."
    assert "all planned ones count" in found.notes[1]


def test_a_report_compares_the_cells_by_each_axis_that_has_several_values(rig: Rig) -> None:
    clear = experiment_report(**results(rig, [rate(10.0), rate(10.1)], [rate(20.0), rate(20.2)]))
    assert "## Comparison\n\nBy batch:" in clear
    assert "| batch 8 2 x batch 4 (2 to 2) | < 0.001 | 2 |" in clear
    close = experiment_report(**results(rig, [rate(9.0), rate(11.0)], [rate(12.5), rate(10.0)]))
    assert re.search(r"batch 8 1.1\d x batch 4 \(.*\): cannot tell (below|even) \d+ %", close)
    single = experiment_report(**results(rig, [rate(10.0)], [rate(20.0)]))
    assert "batch 8 against batch 4: too few runs that can be compared" in single


def test_a_report_says_that_several_axes_are_several_families(rig: Rig) -> None:
    material = results(rig, [rate(10.0), rate(10.1)], [rate(20.0), rate(20.2)])
    assert "family by itself" not in experiment_report(**material)
    twice = {**material, "comparisons": material["comparisons"] * 2}
    assert "Each of these tables is a family by itself" in experiment_report(**twice)


def test_an_experiment_of_one_cell_has_no_comparison_in_its_report(rig: Rig) -> None:
    assert "## Comparison" not in experiment_report(**results(rig, [rate(10.0), rate(10.1)]))


def test_a_report_answers_what_where_how_and_how_again(rig: Rig) -> None:
    cells = ([rate(9.0), rate(11.0)], [rate(18.0, builders.LOADED)] * 2)
    report = experiment_report(**results(rig, *cells, labels={"team": "a"}))
    for heading in ("# first", "## Results", "## What went wrong", "## How it was", "## Where, and", "## Reproduce"):
        assert re.search(f"^{heading}", report, re.MULTILINE), heading
    assert "Labels: team=a" in report
    assert builders.LOADED.text in report
    assert "pytorch 2.13" in report
    assert "images of 96 x 96 pixels" in report


def test_a_report_has_a_table_of_what_was_measured_and_one_line_of_what_was_not(rig: Rig) -> None:
    report = experiment_report(**results(rig, *([[rate(9.0), rate(11.0)]] * (BESIDE + 1))))
    measured = report.split("## All that was measured")[1].split("\n## ")[0]
    rows = re.findall(r"\(`throughput`\) \|(.*)\|$", measured, re.MULTILINE)
    assert [row.count("9.950 images/s") for row in rows] == [BESIDE, 1]
    (absent,) = re.findall(r"^Not measured: .*$", report, re.MULTILINE)
    told = re.findall(r"\(`(\w+)`\) \|", measured)
    assert {*told} | {*re.findall(r"`(\w+)`", absent)} == {*METRICS} - {*OF_CONVERGENCE}
    assert "was not measured" not in report


def test_a_report_as_html_is_one_file_with_its_figures_and_the_same_each_time(rig: Rig) -> None:
    material = results(rig, [rate(9.0), rate(11.0)], [rate(18.0), rate(22.0)], labels={"team": "<script>"})
    name = "<b>"
    drawn = list(figures_of(material | {"memory": [], "scaling": {"items": [], "kind": "weak"}}))
    assert [one["title"]["text"].split(":")[0] for one in drawn] == ["net"] * len(drawn) != []
    batches, rates = (drawn[0]["layer"][0]["data"]["values"], [row["throughput"]["value"] for row in material["rows"]])
    assert [(one["batch"], one["value"]) for one in batches] == [(4, rates[0]), (8, rates[1])]
    html = html_report(experiment_report(**material), name, [drawn])
    assert html == html_report(experiment_report(**material), name, [drawn])
    assert (html.count("<svg"), html.count("<script"), html.count("<b>")) == (len(drawn), 0, 0)
    assert not re.search(r"(src|href)=|@import|url\(", html)
    assert {*re.findall(r"\sid=\S+", html)} == set()  # figures share one document


def test_a_report_of_several_has_the_figures_of_each_below_its_results_and_the_observations_once(rig: Rig) -> None:
    several = [results(rig, [rate(9.0), rate(9.1)], [rate(18.0), rate(18.1)], name=name) for name in ("a", "b")]
    drawn = [list(figures_of(one | {"memory": [], "scaling": {"items": [], "kind": "weak"}})) for one in several]
    ids = [one["experiment"]["id"] for one in several]
    found = rig.get(f"/observations?experiment={ids[0]}&experiment={ids[1]}")["items"]
    said = observed(found)
    html = html_report("\n\n".join([*(experiment_report(**one) for one in several), said]), "both", drawn)
    places = [found.start() for found in re.finditer("<h1>|<h2>Results|<svg", html)]
    marks = [html[place : place + 4] for place in places]
    assert marks == (["<h1>", "<h2>"] + ["<svg"] * len(drawn[0])) + (["<h1>", "<h2>"] + ["<svg"] * len(drawn[1]))
    assert "Not enough data: 1, " in said
    assert html.count("observed</h2>") == 1


def test_a_report_tells_what_was_trained_on_what_and_where_a_profiled_step_went(rig: Rig) -> None:
    material = results(rig, [replace(rate(9.0), profiles=WHOLE), rate(11.0)])
    net = next(one for one in material["models"] if one["name"] == "net")
    net["sizes"]["full"] |= {"parameters": 12_345, "flops_per_sample": 2e9}
    found = rig.get(f"/runs/{material['rows'][0]['run_ids'][0]}/kernels")
    data = {"name": "synthetic", "splits": {"train": {"images": 40_000}}, "bytes": 2**20, "description": "noise"}
    report = experiment_report(**material, datasets=[data], kernels=[("net", found)])
    (model,) = re.findall(r"^\| net .*pytorch.*$", report.split("## What was trained")[1], re.MULTILINE)
    assert "| 12,345 | 2.00 |" in model
    assert "| synthetic | train 40,000 images | 1.00 MiB | noise |" in report
    assert re.search(r"## Kernels\s+net: kernels of 3 steps", report)


def test_a_map_of_all_cells_and_their_gpus_are_drawn_where_there_are_several(rig: Rig) -> None:
    rows = results(rig, *([[rate(value), rate(value * 1.01)] for value in (10.0, 20.0)]))["rows"]
    with pytest.raises(ValueError, match="two axes"):
        heat_map(rows)
    with pytest.raises(ValueError, match="two models"):
        gpus_figure(rows)
    gpus = [{**row, "axes": row["axes"] | {"nodes": {"gpu_model": gpu}, "seed": gpu}} for gpu in "PT" for row in rows]
    drawn = heat_map(gpus)["layer"][0]["data"]["values"]
    assert sorted(one["share"] for one in drawn) == pytest.approx([0.5, 0.5, 1.0, 1.0])
    for row in gpus:
        row["axes"]["seed"] = 1
    gpus[2]["throughput"] = gpus[2]["throughput"] | {"value": gpus[0]["throughput"]["value"] * 2}
    points = gpus_figure(gpus)["layer"][0]["data"]["values"]
    assert [(one["gpu"], one["times"]) for one in points] == [("P", 1.0), ("T", 2.0), ("P", 1.0), ("T", 1.0)]


def test_several_against_one_are_drawn_a_line_each_by_name_and_cell(rig: Rig) -> None:
    made = [rig.submit(name=name, per_device_batch_size=[4, 8], repeats=2)["id"] for name in "abc"]
    for one, rates in zip(made, ([10.0, 10.1], [8.0, 8.1], [10.0, 10.1]), strict=True):
        rig.complete_all(one, rates * 2)
    told = [
        (name, rig.get("/compare", baseline=made[0], candidate=one)) for name, one in zip("bc", made[1:], strict=True)
    ]
    rows = compared.figure("a", told)["layer"][1]["data"]["values"]
    assert [row["line"] for row in rows] == ["b: batch 4", "b: batch 8", "c: batch 4", "c: batch 8"]
    assert [round(row["value"]) for row in rows] == [-20, -20, 0, 0]
    assert [row["verdict"] for row in rows] == ["slower", "slower", "cannot tell", "cannot tell"]
    with pytest.raises(ValueError, match="both sides"):
        compared.figure("a", [("b", {"items": []})])


def test_a_table_has_the_findings_about_which_one_can_do_something_each_once(rig: Rig) -> None:
    judged = Validity.of(["the loss has not fallen yet", None, Advice("let it train longer")])
    told = replace(rate(9.0), validity=judged)
    found = results_table(results(rig, [told, told], [told, told])["rows"])
    assert [row[-1] for row in found.rows] == ["note [1]", "note [1]"]
    assert found.notes == ["[1] let it train longer."]


def test_an_interpreter_that_is_named_like_its_framework_is_no_column(rig: Rig) -> None:
    rows = results(rig, [rate(9.0), rate(11.0)], [rate(9.0), rate(11.0)])["rows"]
    for row, name in zip(rows, ("pytorch", "tensorflow"), strict=True):
        row["axes"] |= {"framework": name, "interpreter": name}
    found = results_table(rows)
    assert "interpreter" not in found.headers
    assert "interpreter" not in found.common
    rows[1]["axes"]["interpreter"] = "nightly"
    assert "interpreter" in results_table(rows).headers


def test_the_spec_in_a_report_is_yaml_that_makes_the_same_experiment(rig: Rig) -> None:
    material = results(rig, [rate(9.0), rate(11.0)], labels={"a": "b: c"})
    block = experiment_report(**material).split("```yaml\n")[1].split("```")[0]
    assert rig.submit(**yaml.safe_load(block))["spec"] == material["experiment"]["spec"]


def test_a_comparison_says_below_which_difference_it_cannot_tell(rig: Rig) -> None:
    one, other = rig.submit(name="a"), rig.submit(name="b")
    rig.complete_all(one["id"], [100.0, 104.0, 96.0])
    rig.complete_all(other["id"], [98.0, 103.0, 95.0], framework_version="2.14")
    found = sides_table(rig.get("/compare", baseline=one["id"], candidate=other["id"]))
    assert re.match(r"cannot tell below \d+ %", found.rows[0][-1])
    assert "differs beside: subject framework_version: 2.13 → 2.14" in found.notes
