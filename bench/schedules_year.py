"""A thousand schedules over a simulated year, held against an oracle that walks through it minute by minute.

``make schedules-year`` runs it: expressions by chance in zones whose clocks do all that clocks do. First what the
expressions name, dense ones among them. Then what two servers submit over one SQLite database: the clock is moved to
where they would wake, they take turns by chance, are started anew, and now and then nobody looks for days.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from orchestrator.domain.around.cron import parse_cron
from orchestrator.domain.around.schedule import FireState
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule.scheduler import Scheduler
from tests.support.cron_oracle import ZONES, Expression, Wall, drawn, epoch
from tests.support.schedule_rig import SPEC, Server

DAY_S = 86400
RULES = {"misfire": "all", "overlap": "allow", "max_age_s": 30 * DAY_S}
OUTAGES = 1 / 400  # of the looks are followed by a time without any server
LONGEST_OUTAGE_S = 3 * DAY_S


@dataclass(frozen=True)
class Case:
    """A schedule to be: an expression in a zone."""

    name: str
    zone: str
    expression: Expression


def cases(count: int, seed: int, *kinds: str, zones: Sequence[str] = ZONES) -> list[Case]:
    """So many of the ``kinds`` that ``drawn`` knows, by turns."""
    chance = random.Random(seed)
    drawn_ones = [drawn(chance, kinds[n // len(zones) % len(kinds)]) for n in range(count)]
    return [Case(f"{kinds[0]}-{n}", zones[n % len(zones)], one) for n, one in enumerate(drawn_ones)]


def by_oracle(zone: str, found: Sequence[Case], start: int, end: int) -> dict[str, list[int]]:
    """Name -> when those of a zone fire."""
    wall = Wall(ZoneInfo(zone), start, end)
    return {case.name: wall.fires(case.expression) for case in found}


def expected_of(found: Sequence[Case], start: int, end: int, processes: int = 1) -> dict[str, list[int]]:
    """Name -> when it fires from ``start`` on and before ``end``, by the oracle."""
    zones = sorted({case.zone for case in found})
    theirs = [[case for case in found if case.zone == zone] for zone in zones]
    times = ([start] * len(zones), [end] * len(zones))
    if processes == 1:
        parts = list(map(by_oracle, zones, theirs, *times))
    else:
        with ProcessPoolExecutor(processes) as pool:
            parts = list(pool.map(by_oracle, zones, theirs, *times))
    return {name: fires for part in parts for name, fires in part.items()}


def named(case: Case, start: int, end: int) -> list[int]:
    """When it fires, by the code that schedules use."""
    found = []
    for one in parse_cron(case.expression.text).times(ZoneInfo(case.zone), start - 1):
        if one >= end:
            break
        found.append(one)
    return list(map(int, found))


def different(expected: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]) -> list[str]:
    """The names of those whose times are not the same."""
    return [name for name, times in expected.items() if list(times) != list(found[name])]


@contextmanager
def servers(url: str, start: float) -> Iterator[list[Server]]:
    made = [Server(url, start, poll_s=DAY_S) for _ in range(2)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def served(found: Sequence[Case], folder: Path, start: int, end: int, seed: int) -> tuple[dict[str, list[int]], int]:
    """(name -> the times for which something was submitted, by the records; how many looks it took)."""
    chance = random.Random(seed)
    with servers(f"sqlite:///{folder / 'tbd.sqlite3'}", start - 1.0) as both:
        made = {
            case.name: both[0].add(case.expression.text, name=case.name, timezone=case.zone, spec=SPEC, **RULES)
            for case in found
        }
        now, looks = start - 1.0, 0
        while now < end:
            looks += 1
            server = chance.choice(both)
            if chance.random() < 0.01:  # started anew
                server.scheduler = Scheduler(server.context, Bell(), DAY_S)
            now += server.look(now)
            now += chance.uniform(0, LONGEST_OUTAGE_S) if chance.random() < OUTAGES else 0.001
        for server in both:  # what the last outage has left
            server.look(now)
        return {name: _submitted(both[0], schedule.id, end) for name, schedule in made.items()}, looks


def _submitted(server: Server, schedule_id: str, end: int) -> list[int]:
    fires = server.fires(server.store.schedule(schedule_id))
    wrong = [one for one in fires if one.state is not FireState.SUBMITTED or one.experiment_id is None]
    assert not wrong, wrong[:3]
    return [int(one.at) for one in fires if one.at < end]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    start, end = epoch(2026), epoch(2027)
    began = time.monotonic()

    def told(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    dense = cases(options.schedules, options.seed, "any", "night")
    few = cases(options.schedules, options.seed + 1, "seldom")  # a database stores no million experiments in a minute
    found = [*dense, *few]
    expected = expected_of(found, start, end, options.processes)
    told(f"the oracle has walked through {end - start:,} s in {len(ZONES)} zones for {len(found)} expressions")
    with ProcessPoolExecutor(options.processes) as pool:
        all_named = pool.map(partial(named, start=start, end=end), dense)
        by_name = {case.name: times for case, times in zip(dense, all_named, strict=True)}
    wrong = different({case.name: expected[case.name] for case in dense}, by_name)
    told(f"{len(dense)} expressions name {sum(len(expected[c.name]) for c in dense):,} times, {len(wrong)} otherwise")
    # In memory where that can be had: it is not the disk that is tried out.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="tbd-schedules-", dir=memory) as folder:
        fired, looks = served(few, Path(folder), start, end, options.seed)
    apart = different({case.name: expected[case.name] for case in few}, fired)
    count = sum(len(expected[case.name]) for case in few)
    told(f"{len(few)} schedules had {count:,} times in {looks:,} looks of two servers, {len(apart)} otherwise")
    for name in (wrong + apart)[:10]:
        case = next(one for one in found if one.name == name)
        print(f"not as the oracle says: {case.expression.text} in {case.zone}")
    return 1 if wrong or apart else 0


if __name__ == "__main__":
    sys.exit(main())
