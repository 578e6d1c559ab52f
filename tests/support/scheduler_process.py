"""A server's scheduler as a process of its own: it looks until nothing is due. URL NOW: the database, and the time."""

import sys

from tests.support.schedule_rig import Server


def main(url: str, now: str) -> None:
    server = Server(url, float(now))
    print("ready", flush=True)
    sys.stdin.readline()  # so that several begin together
    while server.look() == 0.0:
        pass
    server.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
