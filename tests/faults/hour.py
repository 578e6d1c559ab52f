"""``make faults``: worlds by the thousand, and real services killed again and again, for so many MINUTES.

The last line is JSON: how much there was, and how many breaches of each promise were found. 1 where there was any.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.contract.postgresql_server import PostgresqlServer, installed
from tests.faults.kills import check, told
from tests.faults.misfortunes import Wire
from tests.support.promises import FIGURES

# Of the time for real services: each kind of database and of cluster, and how often it is killed at most.
SHARES = (("sqlite", "local", 0.55, 10**9), ("postgresql", "local", 0.35, 10**9), ("sqlite", "ray", 0.10, 50))
LEAST_RAY_MIN = 10.0  # a Ray takes its time to begin and to end
LAST_S = 90.0  # of each share, for what is left when it is killed no more; a judgement
SEEDS = 10**9


def main(minutes: float, seed: int) -> int:
    end = time.monotonic() + minutes * 60.0
    command = [sys.executable, "-m", "tests.simulation.seeds", str(seed), str(seed + SEEDS), str(int(minutes * 60.0))]
    worlds = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found: Counter[str] = Counter({"seeds": 0, "kills": 0, "acknowledged": 0} | dict.fromkeys(FIGURES.values(), 0))
    with tempfile.TemporaryDirectory(prefix="tbd-faults-") as folder:
        for number, (database, kind, share, most) in enumerate(SHARES):
            if kind == "ray" and minutes < LEAST_RAY_MIN:
                continue
            until_s = time.monotonic() + max(1.0, share * minutes * 60.0 - LAST_S)
            found.update(_killed(Path(folder) / str(number), database, kind, seed, until_s, most))
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
