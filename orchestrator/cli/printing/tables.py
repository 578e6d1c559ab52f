"""Prints experiments, runs and results for a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cli.printing import output
from orchestrator.reports import facts_of
from orchestrator.reports.drawing import table
from orchestrator.reports.fingerprint import fingerprint_lines
from orchestrator.reports.tables import comparison
from orchestrator.reports.tables.results_table import Table, results_table

Json = Mapping[str, Any]
MOST_LINES = 20  # of a comparison below a table: a judgement
ENDINGS = {"completed": "completed", "failed": "failed", "cancelled": "been cancelled"}


def print_results(rows: Sequence[Json], state: str = "active") -> None:
    """The table of results, what is the same for all cells above it, notes below. ``state``: of their experiment."""
    if not rows:
        output.say("no results yet" if state == "active" else f"no results: the experiment has {ENDINGS[state]}")
        return
    print_table(results_table(rows))


def print_pairs(found: Json) -> None:
    """A line a pair, which goes below a table of results; notes below."""
    print()
    told = comparison.pair_lines(found)
    for line in told[:MOST_LINES]:
        print("\n".join(output.wrapped(line)))
    if len(told) > MOST_LINES:
        output.print_dim(f"… and {len(told) - MOST_LINES} more pairs: tbd compare EXPERIMENT --by {found['axis']}")
    for note in comparison.pair_notes(found):
        output.print_dim(note)


def print_table(found: Table) -> None:
    """A table: what is the same for all rows above it, notes below."""
    if found.common:
        output.print_dim(found.common)
    if found.rows:
        print(table.text(found.headers, found.rows, output.width()))
    for note in found.notes:
        output.print_dim(note)


def print_experiment(experiment: Json, rows: Sequence[Json], runs: Sequence[Json]) -> None:
    """An experiment: its state, its results, and each run that is not simply completed."""
    _print_pairs(facts_of.experiment_facts(experiment, runs, output.state))
    print()
    print_results(rows, experiment["state"])
    remarkable = facts_of.remarkable_table(runs, output.state)
    if remarkable.rows:
        print()
        print_table(remarkable)


def print_run(run: Json, measurements: Sequence[Json]) -> None:
    """A run: its state and why, its attempts, its grade, what was measured, where it ran."""
    _print_pairs(facts_of.run_facts(run, output.state))
    for attempt in run["attempts"]:
        number = output.coloured("attempt " + str(attempt["number"]).ljust(4), "dim")
        print(number + facts_of.attempt_text(attempt))
    _print_failure(run["failure"])
    _print_measurements(measurements)
    _print_summary(run["summary"] or {})
    _print_fingerprint(run["fingerprint"] or {})


def _print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    for name, text in pairs:
        print(f"{output.coloured(f'{name:<12}', 'dim')}{output.one_line(text)}")


def _print_failure(failure: Json | None) -> None:
    if not failure or not failure["stderr_tail"].strip():
        return
    print("\nthe end of its stderr:")
    for line in failure["stderr_tail"].rstrip().splitlines()[-15:]:
        print(f"  {line}")


def _print_measurements(measurements: Sequence[Json]) -> None:
    if not measurements:
        return
    print()
    print_table(facts_of.measurements_table(measurements))
    print(output.coloured("How each was made: tbd show RUN --measurements", "dim"))


def print_methods(measurements: Sequence[Json]) -> None:
    """What was measured and how it was made."""
    found = facts_of.methods_table(measurements)
    print(table.text(found.headers, found.rows, output.width()))
    for note in found.notes:
        print(output.coloured(note, "dim"))


def _print_summary(summary: Json) -> None:
    _print_curve(summary)
    pairs = facts_of.summary_facts(summary)
    if pairs:
        print("\nwhat the log says")
        for name, text in pairs:
            print(f"  {name}: {text}")


def _print_curve(summary: Json) -> None:
    """Of a run to convergence: the quality over the time of its training."""
    found = facts_of.curve_table(summary)
    if found is not None:
        print(f"\n{found.common}")
        print("\n".join([table.text(found.headers, found.rows), *found.notes]))


def _print_fingerprint(fingerprint: Json) -> None:
    if not fingerprint:
        return
    keys, *others = fingerprint_lines(fingerprint)
    print(f"\nfingerprint\n  {keys}")
    for text in others:
        print("\n".join(output.wrapped(f"  {text}")))
