"""What a passport says of an experiment: REST's answers. And those of a database that was made of its record alone."""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.analysis.analyse import CODE_VERSION
from orchestrator.cli.commands.analyse.report import comparisons
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.looking import LookingClient
from orchestrator.db.store import SqlStore
from orchestrator.services.intake.record import Recorded

# "To nine digits": numbers that differ by less are the same, computed in another order or by another processor.
RELATIVE_TOLERANCE = 1e-9
PROFILES = ("memory", "kernels", "layers")


class Difference(NamedTuple):
    """``told`` by the passport, and what was computed ``now``; None where the one or the other says nothing."""

    where: str
    told: Any
    now: Any


def told_of(client: Client, experiment_id: str) -> dict[str, Any]:
    """Results, comparisons, and of each run what was measured, its verdict and its profiles."""
    path = path_of("experiments", experiment_id)
    runs = client.pages(f"{path}/runs")["items"]
    return {
        "experiment": client.get(path),
        "results": client.pages(f"{path}/results")["items"],
        "comparisons": comparisons(client, f"{path}/comparisons"),
        "runs": {run["id"]: _of_run(client, run["id"]) for run in runs},
    }


def _of_run(client: Client, run_id: str) -> dict[str, Any]:
    path = path_of("runs", run_id)
    run = client.get(path)
    found = {"run": run, "measurements": client.get(f"{path}/measurements")["items"]}
    return found | {name: client.get(f"{path}/{name}") for name in PROFILES if name in run["plan"]["profile"]}


def computed(found: Sequence[Recorded]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id of an experiment, what ``told_of`` says of it) where nothing is known but these: they are stored in a new
    database, of which the same is asked."""
    with tempfile.TemporaryDirectory(prefix="tbd-passport-") as folder:
        store = SqlStore(f"sqlite:///{Path(folder, 'computed.sqlite3')}")
        try:
            for one in found:
                store.import_experiment(one.experiment, one.runs, {})
            client = LookingClient(store=store)
            for one in found:
                yield one.experiment.id, told_of(client, one.experiment.id)
        finally:
            store.close()


def versions(told: Mapping[str, Any]) -> list[str]:
    """Those of the analysis that made what is told, where it is not this one."""
    found = {run["run"]["code_version"] for run in told["runs"].values() if run["run"].get("code_version")}
    return sorted(found - {CODE_VERSION})


def differences(told: Any, now: Any, where: str = "") -> Iterator[Difference]:
    """In what two answers differ, as far as one can see: numbers to nine digits, all else as it is."""
    if isinstance(told, Mapping) and isinstance(now, Mapping):
        for name in [*told, *(name for name in now if name not in told)]:
            yield from differences(told.get(name), now.get(name), f"{where}/{name}")
    elif isinstance(told, list) and isinstance(now, list) and len(told) == len(now):
        for number, (one, other) in enumerate(zip(told, now, strict=True)):
            yield from differences(one, other, f"{where}/{number}")
    elif not _same(told, now):
        yield Difference(where, told, now)


def _same(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return bool(one == other or math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE))
    return bool(one == other)


def numbers(told: Any) -> Iterator[float]:
    """All numbers of an answer, in their order."""
    if isinstance(told, Mapping):
        for value in told.values():
            yield from numbers(value)
    elif isinstance(told, list):
        for value in told:
            yield from numbers(value)
    elif _is_number(told):
        yield told


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
