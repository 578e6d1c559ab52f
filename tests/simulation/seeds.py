"""Worlds by the thousand: ``python -m tests.simulation.seeds FIRST [END]``. A broken promise is told in full."""

import itertools
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.db.store import SqlStore
from orchestrator.services.facts.catalog import load_catalog
from tests.simulation.world import World
from tests.support.promises import FIGURES, Breach, breaches

OF_ONE_STORE = 100  # seeds, until it is made anew: a database that grows answers later
CATALOG = load_catalog()


@contextmanager
def new_store() -> Iterator[SqlStore]:
    """A SQLite file in memory: what survives a loss of power is not what is tried here."""
    with tempfile.TemporaryDirectory(prefix="tbd-simulation-", dir="/dev/shm") as folder:
        store = SqlStore(f"sqlite:///{Path(folder) / 'tbd.sqlite3'}")
        try:
            yield store
        finally:
            store.close()


def breaches_of(seed: int, store: SqlStore) -> tuple[list[Breach], World]:
    world = World(seed, store, CATALOG)
    world.run()
    return breaches(world.evidence()), world


def run(seeds: Iterable[int], until_s: float = math.inf) -> Counter[str]:
    """Run ``seeds`` until then (``time.monotonic()``), or until one breaks a promise, which is told on stderr; how
    many there were, with what they came to."""
    found: Counter[str] = Counter(dict.fromkeys(FIGURES.values(), 0))
    for of_one_store in batched(seeds):
        with new_store() as store:
            for seed in of_one_store:
                if time.monotonic() > until_s:
                    return found
                broken, world = breaches_of(seed, store)
                found.update(seeds=1, acknowledged=len(world.acknowledged), kills=world.counts["kill"])
                if broken:
                    found.update(FIGURES[one.promise] for one in broken)
                    tell(of_one_store[0], seed, broken, world)
                    return found
    return found


def batched(seeds: Iterable[int]) -> Iterator[list[int]]:
    left = iter(seeds)
    while found := list(itertools.islice(left, OF_ONE_STORE)):
        yield found


def tell(first: int, seed: int, broken: list[Breach], world: World) -> None:
    """``first``: the seed with which the store began: what is left of others in it may have a part."""
    lines = [*world.history, "", *(f"{promise}: {what}" for promise, what in broken)]
    lines += ["", f"again: PYTHONHASHSEED=0 python -m tests.simulation.seeds {first} {seed + 1}"]
    print("\n".join(lines), file=sys.stderr, flush=True)


def main(first: int, end: int | None = None, duration_s: float = math.inf) -> int:
    found = run(range(first, first + 1 if end is None else end), time.monotonic() + duration_s)
    print(json.dumps(found))
    return any(found[name] for name in FIGURES.values())


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
