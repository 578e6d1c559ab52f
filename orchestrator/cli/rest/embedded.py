"""A server of one's own for one command: started as a child process, stopped at the end."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.cli.exits import INTERRUPTED, UNREACHABLE, CommandError
from orchestrator.cli.printing import output
from orchestrator.cli.rest.client import Client, path_of
from orchestrator.cli.rest.locate import client_of, find_server
from orchestrator.cli.rest.waiting import wait_for_experiment

STOP_S = 60.0  # what an orderly stop may take before the server is killed
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@contextmanager
def some_server(check: Callable[[], None] = lambda: None) -> Iterator[tuple[Client, bool]]:
    """(a client, whether its server is embedded): of the server that there is, else of one started for this command.

    ``check`` is called before one is started: nobody waits seconds to be told of a misspelt word.

    Raises:
        CommandError: the embedded server does not start; what it said went to stderr. Or what ``check`` raises.
    """
    url = find_server()
    if url is not None:
        yield client_of(url), False
        return
    check()
    output.say("no server: starting an embedded one …")
    # A session of its own: Ctrl-C is for this command, which stops the server in order. What a schedule submitted would
    # be cut off when the command ends, and what trains ends with it. So it does when this command is told to end, as a
    # batch system and a terminal that is closed do, or is killed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, signal.default_int_handler)
    me = os.getpid()
    server = subprocess.Popen(
        [sys.executable, "-m", "orchestrator.app", "serve", "--port", "0", "--no-schedules", "--end-runs", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: _end_with(me),
    )
    try:
        own = _announced_url(server)
        other = find_server() if own is None else None  # somebody started one at the same time, and was quicker
        if own is None and other is None:
            raise CommandError("the embedded server did not start; tbd doctor may know why", UNREACHABLE)
        yield client_of(str(own or other)), own is not None
    finally:
        _stop(server)


def wait_for_its_end(client: Client, experiment: dict[str, Any], is_embedded: bool) -> dict[str, Any]:
    """Follow the new ``experiment`` until it has ended; it. Ctrl-C cancels it where its server is embedded, and there
    SIGTERM and SIGHUP do.

    Raises:
        CommandError: the server is gone, or (130) Ctrl-C.
    """
    try:
        output.say(f"{experiment['id']}: {sum(experiment['run_counts'].values())} runs")
        return wait_for_experiment(client, experiment["id"])
    except (KeyboardInterrupt, CommandError) as error:
        # A KeyboardInterrupt comes before the waiting has begun.
        interrupted = isinstance(error, KeyboardInterrupt) or error.code == INTERRUPTED
        if interrupted and is_embedded:
            raise _cancelled(client, experiment["id"]) from None
        raise


def _cancelled(client: Client, experiment_id: str) -> CommandError:
    """The embedded server ends with this command, so nothing is left running behind a person's back."""
    path = path_of("experiments", experiment_id)
    client.post(f"{path}/cancel")
    output.say("interrupted: cancelling the experiment …")
    for _ in client.events(f"{path}/events"):
        pass
    return CommandError(
        f"interrupted; {experiment_id} was cancelled. What had ended is kept in TBD_DATA_DIR", INTERRUPTED
    )


def _end_with(parent: int) -> None:
    """Have this process end in order when ``parent`` has ended, in whatever way; called between fork and exec, of a
    command that has one thread."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _announced_url(server: "subprocess.Popen[str]") -> str | None:
    assert server.stdout is not None
    line = server.stdout.readline()
    try:
        return str(json.loads(line)["url"])
    except (ValueError, KeyError, TypeError):
        return None


def _stop(server: "subprocess.Popen[str]") -> None:
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if server.stdout is not None:
        server.stdout.close()
