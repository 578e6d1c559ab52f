"""The composition root: settings in, a running service out. ``python -m orchestrator.app`` is ``tbd serve``."""

import gc
import json
import logging
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from orchestrator.api.door.http_protocol import HttpProtocol
from orchestrator.db.connection.right import NEWS, RING, Right
from orchestrator.db.connection.writer import THREAD as WRITER_THREAD
from orchestrator.db.opening import open_store, open_to_serve
from orchestrator.domain.around.server import Server
from orchestrator.domain.ports import Clock, Cluster, Store
from orchestrator.domain.words.errors import ClusterUnavailable, SettingsError, StoreDamaged, StoreUnavailable, TbdError
from orchestrator.serve import serve_options
from orchestrator.serve.data_directory import DataDirectory
from orchestrator.serve.quiet_server import QuietServer
from orchestrator.serve.settings import EVERY_ADDRESS, Settings, is_loopback, read_settings
from orchestrator.serve.tls import context_of
from orchestrator.serve.watchdog import Watchdog
from orchestrator.serve.webhook_post import post
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.gate.gatekeeper import Gatekeeper
from orchestrator.services.gate.messenger import Messenger
from orchestrator.services.lookout import Lookout
from orchestrator.services.reconcile.reconciler import Bell, Reconciler
from orchestrator.services.reconcile.roster import Roster
from orchestrator.services.reconcile.stored_nodes import StoredNodes
from orchestrator.services.reconcile.trouble import WatchedCluster
from orchestrator.services.schedule.deadlines import Deadlines
from orchestrator.services.schedule.scheduler import POLL_S, Scheduler
from orchestrator.services.schedule.thinning import Thinning
from orchestrator.services.tokens import DAY_S, has_usable_admin
from orchestrator.web.site import create_site
from workers.node import background

log = logging.getLogger("tbd")
SYSTEM_CLOCK = SystemClock()


@contextmanager
def running_service(
    settings: Settings,
    directory: Path,
    server: Server,
    *,
    schedules: bool = True,
    end_runs: bool = False,
    clock: Clock = SYSTEM_CLOCK,
    poll_s: float = POLL_S,
) -> Iterator[Context]:
    """Everything but HTTP, running: the store, and where ``server`` leads the cluster, the reconciler and, with
    ``schedules``, their submission. On PostgreSQL with a Ray that several servers reach it may follow first. What it
    started is stopped at the end; trainings go on, unless ``end_runs``. ``poll_s``: how often at least the clock is
    compared with schedules.

    Raises:
        AlreadyServed: there is a server of the database.
        TbdError: the store or the cluster cannot be had.
    """
    with ExitStack() as stack:
        catalog = load_catalog(settings.suite_path)
        opened = partial(open_to_serve, server=server, say=_say, follows=bool(settings.ray_address))
        store = open_store(settings.database_url, settings.database_wait_s, _say, open_now=opened)
        stack.callback(store.close)
        right = store.right
        assert right is not None
        check_that_it_may_listen(settings, store)
        cluster = WatchedCluster(None, clock, StoredNodes(store, clock, store.leader))
        bells = [Bell() for _ in range(5)]

        def ring() -> None:
            for one in bells:
                one.ring()

        def wake() -> None:
            ring()
            if not store.leads():
                right.tell(RING)

        context = Context(store, cluster, catalog, clock, wake, deadline_s=settings.deadline_s)
        heard = {RING: ring, NEWS: context.news.tell}
        right.listen(lambda word: heard[word]() if word in heard else None)

        def begin(leading: ExitStack) -> None:
            swept = store.sweep()
            if swept:
                log.warning("%d experiments were removed that were left half imported or half removed", swept)
            cluster.lead(make_cluster(settings, directory, right))
            leading.callback(leave, cluster, store, right, settings, end_runs)
            step_back(cluster)
            leading.enter_context(context.news.listening(lambda: right.tell(NEWS)))
            bell, hour, *others = bells
            looking: list[Reconciler | Lookout] = [
                Reconciler(context, bell, settings.fence_s),
                Deadlines(context, hour, poll_s),
            ]
            if settings.ray_address and right.term() is not None:
                looking.append(Roster(context))
            if settings.keep_readings_days is not None:
                looking.append(Thinning(context, settings.keep_readings_days * DAY_S))
            if schedules:
                looking += submitters(context, settings, others, poll_s)
            for one in looking:
                leading.callback(one.close)
                one.start()

        if not store.leads():
            step_back(cluster)
        lead = Lead(right, begin, cluster.give_up)
        stack.callback(lead.close)
        lead.start()
        yield context


def submitters(context: Context, settings: Settings, bells: Sequence[Bell], poll_s: float) -> list[Lookout]:
    """What looks after schedules and what comes of them."""
    alarm, knock, mail = bells
    return [
        Scheduler(context, alarm, poll_s),
        Gatekeeper(context, knock, settings.gate_budget_ratio, poll_s),
        Messenger(context, mail, post, poll_s),
    ]


class Lead:
    """What only the server that leads runs: it is begun at once where this one does, else when it takes the lead.
    ``begin`` puts what is to be ended on a stack; ``give_up`` is told where it fails later."""

    LOOK_S = 1.0

    def __init__(self, right: Right, begin: Callable[[ExitStack], None], give_up: Callable[[str], None]) -> None:
        self._right = right
        self._begin = begin
        self._give_up = give_up
        self._begun = ExitStack()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._await, name="tbd-lead", daemon=True)

    def start(self) -> None:
        """Raises what ``begin`` does."""
        if self._right.await_lead(0.0):
            with ExitStack() as begun:
                self._begin(begun)
                self._begun = begun.pop_all()
        else:
            self._thread.start()

    def _await(self) -> None:
        # Now, so that the one that is succeeded is missed shortly.
        from orchestrator.cluster.ray_cluster import import_ray

        import_ray()
        while not self._closing.is_set():
            if self._right.await_lead(self.LOOK_S):
                try:
                    self._begin(self._begun)
                except Exception as error:
                    log.exception("this server ought to lead")
                    self._give_up(f"this server ought to lead, and cannot: {error}")
                return

    def close(self) -> None:
        """End it all, what was begun last first."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._begun.close()


def leave(cluster: Cluster, store: Store, right: Right, settings: Settings, end_runs: bool) -> None:
    """Let go of the cluster at the end: trainings go on, unless ``end_runs``. It is not ended in another's hands, nor
    before those that wait for it."""
    if store.lost() or (right.is_followed() and not end_runs):
        cluster.close()
    elif left := cluster.shut_down(end_runs=end_runs):
        _say(
            f"trainings go on, or may, on {', '.join(left)}. The next tbd serve takes them up, if it starts within "
            f"{settings.fence_s:g} s (TBD_FENCE_S). tbd serve --end-runs ends them with the service"
        )


def step_back(cluster: Cluster) -> None:
    """Take this process out of the way of what runs on this host: the calling thread, what it starts from now on and
    the store's writer. Threads of the cluster do not step back: agents, which start trainings, are their children."""
    here = [node for node in cluster.nodes() if node.inventory.get("hostname") == socket.gethostname()]
    cores = sorted({core for node in here for core in node.inventory.get("housekeeping_cores") or ()})
    background.step_back(cores)
    for thread in threading.enumerate():
        if thread.name == WRITER_THREAD and thread.native_id is not None:
            background.step_back(cores, thread=thread.native_id)
    background.session_steps_back(os.getpid())


def make_cluster(settings: Settings, directory: Path, right: Right) -> Cluster:
    """The cluster adapter that the settings name. Only the one that is used is imported: Ray is large. Agents that
    several servers reach are called by the term of ``right``; those of an embedded cluster nobody else has."""
    if settings.cluster == "local":
        from orchestrator.cluster.local import LocalCluster

        return LocalCluster(directory / "local", settings.fence_s, settings.idle_exit_s, settings.local_nodes)
    from orchestrator.cluster.ray_cluster import RayCluster

    folder, given = directory / "ray", (settings.fence_s, settings.idle_exit_s, settings.ray_wait_s)
    if settings.ray_address:
        return RayCluster(settings.ray_address, folder, *given, right.term)
    return RayCluster(None, folder, *given)


def serve(settings: Settings, as_json: bool, owner_fd: int | None = None, **more: Any) -> None:
    """Run the service until SIGTERM or SIGINT. ``owner_fd``: the lock of the data directory, where it is held already;
    ``more``: of ``running_service``.

    Raises:
        TbdError: it cannot start; the message names the cause and the way out.
    """
    tls = context_of(settings)
    end = End()
    end.in_order()
    directory = DataDirectory(settings.data_dir).open(owner_fd)
    try:
        listener = listen(settings)
        url = url_of(settings, listener.getsockname()[1])
        server = Server(url, socket.gethostname(), os.getpid(), time.time())
        with listener, running_service(settings, settings.data_dir, server, **more) as context:
            end.in_order()  # again: Ray has put a handler of its own in its place, which does not unwind anything
            directory.announce(server)
            _say_where(url, as_json)
            app = create_site(context, settings, stopping=lambda: http.should_exit)
            app.state.gate.refresh()
            config = configuration(app, settings, tls)
            http = QuietServer(
                config,
                ending=context.news.tell,
                lost=lambda: end.asked or context.store.lost() or context.cluster.lost(),
            )
            _set_aside_what_stays()
            with Watchdog({"the reconciler": lambda: context.pulse.count, "HTTP": lambda: http.ticks}):
                http.run(sockets=[listener])
            if reason := context.store.lost():
                raise StoreUnavailable(reason)
            if reason := context.cluster.lost():
                raise ClusterUnavailable(reason)
    finally:
        directory.close()


def _set_aside_what_stays() -> None:
    """Have collections of garbage pass over what is there now, the modules above all: a look at all of it takes 0.15 s,
    during which nobody is answered."""
    gc.collect()
    gc.freeze()


class End:
    """``asked``: which signal asked for it, also where what it raised was lost: Python drops what is raised within a
    finaliser or a weak reference's callback, and garbage is collected just before a server begins to serve."""

    def __init__(self) -> None:
        self.asked: str | None = None

    def in_order(self) -> None:
        """Let SIGTERM and SIGINT unwind the stack, at any time from here on, so that what was started is stopped.
        uvicorn takes both while it serves, and raises them again when it has ended; a second signal does not disturb
        the stop."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._leave)

    def _leave(self, number: int, _: object) -> None:
        self.asked = signal.Signals(number).name
        for one in (signal.SIGTERM, signal.SIGINT):
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(0)


def check_that_it_may_listen(settings: Settings, store: Store) -> None:
    """Refuse to be reached by others where nobody could be told apart.

    Raises:
        SettingsError: the address is beyond loopback, there is no token by which an admin could enter, and nobody said
            that the first one comes later.
    """
    if settings.on_loopback or has_usable_admin(store, SystemClock()):
        if settings.on_loopback and settings.allowed_hosts and not store.tokens(limit=1).items:
            log.warning("TBD_ALLOWED_HOSTS: whoever reaches the proxy may do everything. tbd token add makes tokens")
        return
    if settings.first_token == "later":  # the door is closed all the same: whoever reaches it sees its health
        _say("nobody may enter before there is a token of scope admin. Make one: tbd token add NAME --scope admin")
        return
    raise SettingsError(
        f"{settings.host} (TBD_HOST, --host) is beyond loopback, and there is no usable token of scope admin. "
        "Make one first: tbd token add NAME --scope admin"
    )


def configuration(app: ASGIApp, settings: Settings, tls: ssl.SSLContext | None) -> uvicorn.Config:
    """How uvicorn serves ``app``. No line of its log has a header, and so none has a token."""
    return uvicorn.Config(
        app,
        http=HttpProtocol,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
        forwarded_allow_ips=settings.proxies,
        server_header=False,
        ssl_context_factory=(lambda *_: tls) if tls else None,
    )


def url_of(settings: Settings, port: int) -> str:
    """Where commands on this machine find the server. Certificates are for names: https has that of loopback."""
    host = settings.host
    if host in EVERY_ADDRESS:
        host = "127.0.0.1"
    if settings.tls_cert and is_loopback(host):
        host = "localhost"
    scheme = "https" if settings.tls_cert else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def listen(settings: Settings) -> socket.socket:
    """The socket that the settings name, listening.

    Raises:
        SettingsError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the socket names the protocol, and accepted sockets inherit the name. Without
    # it the body of an answer waits until the client acknowledges the head, which Linux delays by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}. Give another TBD_PORT (0: a free one)"
        ) from None
    listener.listen(2048)
    return listener


def _say_where(url: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"url": url}), flush=True)
    else:
        print(f"tbd serves on {url} (API: {url}/docs). Stop it with Ctrl-C.", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(f"tbd serve: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None, **more: Any) -> int:
    """``tbd serve``: 0 after an orderly stop, 2 when the settings cannot be used, 4 when something is out of reach.
    ``more``: of ``running_service``, for those who bring a clock of their own."""
    options = serve_options.parser().parse_args(arguments)
    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = read_settings()
        given = {name: value for name in ("host", "port") if (value := getattr(options, name)) is not None}
        chosen = {"schedules": options.schedules, "end_runs": options.end_runs}
        serve(replace(settings, **given), options.json, options.owner_fd, **chosen, **more)
    except (SettingsError, StoreDamaged) as error:
        _say(str(error))
        return 2
    except TbdError as error:
        _say(str(error))
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
