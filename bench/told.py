"""Whether an alert gets lost on its way to a webhook: ``python -m bench.told``, part of ``make gate-figures``.

The store, the outbox, the messenger and HTTP are the product's. Alerts become open one after another; the process that
does so and sends is killed again and again, and its webhook fails at random. Only its clock is ours, so that pauses of
hours are of seconds. Prints a table in Markdown.
"""

import argparse
import logging
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from deploy.receiver import Receiver
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.alerts import Alert, AlertFilter, AlertState, Candidate, Told
from orchestrator.domain.around.webhooks import Webhook
from orchestrator.serve.webhook_post import post
from orchestrator.services.clock import SystemClock, new_id
from orchestrator.services.context import Context
from orchestrator.services.gate import outbox
from orchestrator.services.gate.messenger import Messenger
from orchestrator.services.reconcile.reconciler import Bell

ALERTS, KILLS = 1000, 50
FAILS = 0.25  # of the tries: 500, a redirect, or no answer at all
FASTER = 2000.0  # than this host's clock
OPENED_S = 0.01  # between one alert and the next
LIFE_S = (0.05, 0.6)  # of a process
ALL_S, STARTED_S = 600.0, 120.0  # that all may take after the last kill, and a start
PROCESSES = multiprocessing.get_context("forkserver")  # a start in milliseconds, of what has no threads
PROCESSES.set_forkserver_preload(["orchestrator.db.store", "orchestrator.services.gate.messenger", "deploy.receiver"])
SECRET = "whsec_" + "b" * 43 + "="


class FastClock(SystemClock):
    """``domain.ports.Clock``: this host's since ``begun``, faster."""

    def __init__(self, begun: float) -> None:
        self._begun = begun

    def now(self) -> float:
        return self._begun + (super().now() - self._begun) * FASTER


@dataclass(frozen=True)
class Outcome:
    """``lost``: alerts that never came; ``again``: messages that came again after they were taken; ``forged``: tries
    whose signature is wrong; ``given_up``: messages; ``tries``: all; ``kills``."""

    lost: int
    again: int
    forged: int
    given_up: int
    tries: int
    kills: int


def serve(url: str, begun: float, ready: Event) -> None:
    """Have the alerts that are being tried become open, and send what waits, until all is done."""
    store, bell = SqlStore(url), Bell()
    clock = FastClock(begun)
    context = Context(store, None, None, clock, bell.ring)  # type: ignore[arg-type]
    messenger = Messenger(context, bell, post, poll_s=0.05)
    messenger.start()
    logging.disable()
    ready.set()
    while True:
        for one in store.alerts(AlertFilter(state=AlertState.TRYING.value), limit=1).items:
            store.move_alert(one.id, AlertState.TRYING, AlertState.OPEN, one.told, clock.now())
        outbox.tell(context, ())
        time.sleep(OPENED_S)


def tried(folder: Path, alerts: int, kills: int, seed: int) -> Outcome:
    """Kill it so often, then let it end."""
    chance = random.Random(seed)
    receiver = Receiver(lambda: 204 if chance.random() >= FAILS else chance.choice([500, 302, 0]))
    url = f"sqlite:///{folder / 'tbd.sqlite3'}"
    store = SqlStore(url)
    begun = time.time()
    new = Webhook(new_id("whk"), receiver.url, SECRET, begun)
    store.add_webhook(new, 1, Deed(new_id("deed"), begun, "bench", None, None, "webhook add", new.id))
    for number in range(alerts):
        told = Told((Candidate(f"c{number}", "net", "n0 cpu:0", begun, begun, -0.1),), (), "being tried")
        store.add_alert(Alert(f"alt_{number}", f"sch_{number}", AlertState.TRYING, begun, begun, None, told))
    for _ in range(kills):
        process = _started(url, begun)
        time.sleep(chance.uniform(*LIFE_S))
        _end(process)
    process, end = _started(url, begun), time.monotonic() + ALL_S
    while time.monotonic() < end and (store.alerts(AlertFilter(state="trying"), limit=1).items or _waits(store)):
        time.sleep(0.2)
    _end(process)
    (webhook,) = store.webhooks().items
    store.close()
    receiver.close()
    taken = [one for one in receiver.received if one.answered == 204]
    came = {alert["id"] for one in taken for alert in one.told["data"]["alerts"]}
    return Outcome(
        lost=alerts - len(came),
        again=sum(count - 1 for count in Counter(one.id for one in taken).values()),
        forged=sum(not one.is_signed_by(SECRET) for one in receiver.received),
        given_up=webhook.n_given_up,
        tries=len(receiver.received),
        kills=kills,
    )


def _waits(store: SqlStore) -> bool:
    return bool(store.untold_alerts()) or any(one.n_waiting for one in store.webhooks().items)


def _started(url: str, begun: float) -> BaseProcess:
    ready = PROCESSES.Event()
    process = PROCESSES.Process(target=serve, args=(url, begun, ready), daemon=True)
    process.start()
    if not ready.wait(STARTED_S):
        raise RuntimeError(f"it did not start within {STARTED_S:.0f} s: exit status {process.exitcode}")
    return process


def _end(process: BaseProcess) -> None:
    """By SIGKILL."""
    process.kill()
    process.join()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alerts", type=int, default=ALERTS)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=20261126)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tbd-told-") as folder:
        found = tried(Path(folder), options.alerts, options.kills, options.seed)
    print("| alerts | the sender killed | tries | failed at random | came again | given up | lost |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {options.alerts} | {found.kills} times | {found.tries} | {FAILS:.0%} | {found.again} | {found.given_up} | "
        f"{found.lost} |"
    )
    return 1 if found.lost or found.forged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
