"""Worlds by the thousand: ``python -m tests.simulation.seeds FIRST [END]``. A broken promise is told in full."""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
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


def run(seeds: Iterator[int]) -> Counter[str]:
    """Run ``seeds`` until one breaks a promise; how many there were, with what they came to. What it says of one that
    does goes to stderr."""
    found: Counter[str] = Counter(dict.fromkeys(FIGURES.values(), 0))
    more = True
    while more:
        more = False
        with new_store() as store:
            for seed, _ in zip(seeds, range(OF_ONE_STORE), strict=False):
                more = True
                broken, world = breaches_of(seed, store)
                found.update(seeds=1, acknowledged=len(world.acknowledged), **world.counts)
                if broken:
                    found.update(FIGURES[one.promise] for one in broken)
                    tell(seed, broken, world)
                    return found
    return found


def tell(seed: int, broken: list[Breach], world: World) -> None:
    lines = [*world.history, "", *(f"{promise}: {what}" for promise, what in broken)]
    lines += ["", f"again: python -m tests.simulation.seeds {seed}"]
    print("\n".join(lines), file=sys.stderr, flush=True)


def main(first: int, end: int) -> int:
    began = time.monotonic()
    found = run(iter(range(first, end)))
    print(dict(found), f"{time.monotonic() - began:.1f} s")
    return any(found[name] for name in FIGURES.values())


if __name__ == "__main__":
    given = [int(one) for one in sys.argv[1:3]]
    sys.exit(main(given[0], given[-1] + (len(given) == 1)))
