"""``make faults``: worlds by the thousand, and real services killed again and again, for so many MINUTES.

The last line is JSON: how much there was, and how many breaches of each promise were found. 1 where there was any.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.contract.postgresql_server import PostgresqlServer, installed
from tests.faults.kills import check, told
from tests.faults.misfortunes import Wire
from tests.support.promises import FIGURES

# The real services, all at once, since most of a life is waiting: database, cluster, how often it is killed at most.
LANES = (("sqlite", "local", 10**9),) * 2 + (("postgresql", "local", 10**9), ("sqlite", "ray", 50))
LEAST_RAY_MIN = 10.0  # a Ray takes its time to begin and to end
LAST_S = 120.0  # for what is left when they are killed no more; a judgement
SEEDS = 10**9


def main(minutes: float, seed: int) -> int:
    end = time.monotonic() + minutes * 60.0
    command = [sys.executable, "-m", "tests.simulation.seeds", str(seed), str(seed + SEEDS), str(int(minutes * 60.0))]
    worlds = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found: Counter[str] = Counter({"seeds": 0, "kills": 0, "acknowledged": 0} | dict.fromkeys(FIGURES.values(), 0))
    lanes = [one for one in LANES if one[1] != "ray" or minutes >= LEAST_RAY_MIN]
    until_s = end - min(LAST_S, minutes * 30.0)
    with tempfile.TemporaryDirectory(prefix="tbd-faults-") as folder, ThreadPoolExecutor(len(lanes)) as at_once:
        killed = [
            at_once.submit(_killed, Path(folder) / str(number), database, kind, seed + number, until_s, most)
            for number, (database, kind, most) in enumerate(lanes)
        ]
        for lane in killed:
            found.update(lane.result())
    said, _ = worlds.communicate(timeout=max(1.0, end - time.monotonic()) + 300.0)
    found.update({name: count for name, count in json.loads(said).items() if name != "kills"})
    print(json.dumps(found))
    return any(found[name] for name in FIGURES.values())


def _killed(folder: Path, database: str, kind: str, seed: int, until_s: float, most: int) -> Counter[str]:
    if database == "sqlite":
        kills, evidence, broken = check(folder, f"sqlite:///{folder / 'tbd.sqlite3'}", kind, seed, until_s, most)
    else:
        binaries = installed()
        if binaries is None:
            print("PostgreSQL is not installed: nothing was tried on it", flush=True)
            return Counter()
        with tempfile.TemporaryDirectory(prefix="tbd-postgresql-") as of_server:  # not ours: another user's
            server = PostgresqlServer(binaries, Path(of_server))
            server.create()
            server.start()
            try:
                server.execute("CREATE DATABASE killed")
                wire = Wire(server.port)
                kills, evidence, broken = check(folder, server.url("killed"), kind, seed, until_s, most, wire)
                print(f"{wire.cuts} connections broke behind a commit", flush=True)
                wire.close()
            finally:
                server.stop()
    print(f"{database}: {told(kills, evidence, broken)}", flush=True)
    figures = Counter(FIGURES[one.promise] for one in broken)
    return figures + Counter(kills=kills.kills, acknowledged=len(evidence.acknowledged))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2])))
