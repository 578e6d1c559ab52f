"""The cluster of Ray: on each of its nodes a long-lived detached actor that holds the node's agent.

Owns the connection to Ray, the naming of nodes and the making of actors. Ray is a means to reach the agents: that a
process is dead is never taken from Ray. Ray itself is imported when a cluster is made, not before: it is large.

Nodes are called by ``node_names``. Of several Ray nodes with one name (one machine that plays many) the further ones
get a suffix, ``host-2``; a node that has an agent keeps that agent's name.
"""

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.cluster.agents import (
    CALL_TIMEOUT_S,
    AgentCluster,
    AgentError,
    AgentUnreachable,
    Handle,
    Keeper,
    carry_out,
    close_all,
)
from orchestrator.cluster.node_names import free_name, name_in_ray, own_name, was_given
from orchestrator.cluster.ray_agent import AgentActor
from orchestrator.cluster.ray_embedded import HOST, EmbeddedRay
from orchestrator.cluster.ray_holds import GIVEN_S, Holds
from orchestrator.cluster.ray_versions import SameVersion
from orchestrator.cluster.records import package_path
from orchestrator.domain.asked.placement import Placement
from orchestrator.domain.words.errors import ClusterUnavailable

NAMESPACE = "tbd"
# How often Ray is asked for its nodes; seldom while attempts run, unless one of the agents has fallen silent.
SURVEY_S = (2.0, 10.0)
_SURVEY_LOOK_S = 1.0
# An actor is ready in half a second; on a busy host its imports take longer.
MAKE_TIMEOUT_S = 30.0
LEAVE_TIMEOUT_S = 20.0
# A call about placement groups takes milliseconds; the tasks that ask for GPUs come on top (``ray_holds.GIVEN_S``).
BOOKS_TIMEOUT_S = 10.0
# How long a Ray of somebody else may be away: the setting TBD_RAY_WAIT_S.
WAIT_S = 60.0
# Calls to an agent that are answered side by side, and questions for news beside them.
CONCURRENT_CALLS = 8
CONCURRENT_WAITS = 16

_DRIVER_ENVIRONMENT = {
    # By default a driver that has lost Ray for a minute ends its own process, and the service with it. Ten years.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "315360000",
    # By default a call without a connection starts another Ray, in this process.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # What has become of which call: nobody here asks Ray for it.
    "RAY_task_events_report_interval_ms": "0",
}

Answer = TypeVar("Answer")
# The term of this server, which each call to an agent carries; None where there are no terms. Raises
# ``ClusterUnavailable`` where this server must call nobody: another one may lead.
Term = Callable[[], int | None]

_log = logging.getLogger(__name__)


def without_term() -> None:
    """The term of a server whose agents no other server has."""


class RayHandle:
    """The way to an agent in an actor."""

    def __init__(self, ray: Any, actor: Any, term: Term = without_term) -> None:
        self._ray = ray
        self._actor = actor
        self._term = term

    def call(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        try:
            return _result(self._ray.get(self._ask(method, arguments), timeout=patience_s))
        except self._ray.exceptions.RayError as error:
            raise AgentUnreachable(_first_line(error)) from error

    def later(self, method: str, patience_s: float, /, **arguments: Any) -> "Future[Any]":
        answer: Future[Any] = Future()
        try:
            self._ask(method, arguments).future().add_done_callback(lambda raw: self._pass_on(raw, answer))
        except AgentUnreachable as error:
            answer.set_exception(error)
        return answer

    def _pass_on(self, raw: "Future[Any]", answer: "Future[Any]") -> None:
        try:
            answer.set_result(_result(raw.result()))
        except self._ray.exceptions.RayError as error:
            answer.set_exception(AgentUnreachable(_first_line(error)))
        except Exception as error:  # belongs to whoever waits
            answer.set_exception(error)

    def leave(self) -> None:
        """Have the agent end its attempts and itself."""
        self._term_now()
        try:
            self._ray.get(self._actor.leave.remote(), timeout=LEAVE_TIMEOUT_S)
        except self._ray.exceptions.RayError as error:
            _log.warning("an agent does not leave in order: %s", _first_line(error))
            self._ray.kill(self._actor)

    def _term_now(self) -> int | None:
        try:
            return self._term()
        except ClusterUnavailable as error:
            raise AgentUnreachable(str(error)) from error

    def _ask(self, method: str, arguments: Mapping[str, Any]) -> Any:
        # A group that the actor does not have aborts its process: name none but the one it was made with.
        # An actor of the version before knows of no terms.
        term, has_terms = self._term_now(), hasattr(self._actor, "answer_in_term")
        answer = self._actor.answer_in_term if has_terms else self._actor.answer
        answer = answer.options(concurrency_group="wait") if method == "wait" else answer
        return answer.remote(*([term] if has_terms else []), method, dict(arguments))


class RayCluster(AgentCluster):
    """See ``orchestrator.domain.ports.Cluster``.

    Args:
        address: of a running Ray, ``host:port``; None for an embedded one.
        directory: what belongs to this cluster lies here; on other hosts the agents use the same path.
        fence_s: seconds without contact after which an agent ends its attempts.
        idle_exit_s: seconds without a server after which an embedded Ray ends itself.
        wait_s: seconds without an answer of a Ray at ``address`` after which it is given up: ``lost``.
        term: of this server, which calls to agents of a Ray at ``address`` carry.

    Raises:
        ClusterUnavailable: Ray does not start, or cannot be reached.
    """

    def __init__(
        self,
        address: str | None,
        directory: Path,
        fence_s: float,
        idle_exit_s: float,
        wait_s: float = WAIT_S,
        term: Term = without_term,
    ) -> None:
        super().__init__()
        self._term = term
        self._directory = Path(directory).absolute()
        self._fence_s = fence_s
        self._embedded = None if address else EmbeddedRay(self._directory, idle_exit_s)
        self._address = address
        self._lock = threading.Lock()
        self._known: dict[str, Keeper] = {}  # by name
        self._names: dict[str, str] = {}  # id of a living Ray node -> name
        self._versions = SameVersion()
        self._wait_s = wait_s
        self._unanswered_since: float | None = None
        self._closed = threading.Event()
        try:
            self._ray = self._connect()
            self._holds = Holds(self._ray)
            self._survey()
            for keeper in self._keepers().values():
                keeper.settle(MAKE_TIMEOUT_S)
        except (SystemExit, KeyboardInterrupt):  # an orderly stop that comes early: nobody else can order it yet
            if self._embedded is not None:
                self._embedded.stop_what_was_started()
            raise
        self._surveyor = threading.Thread(target=self._keep_surveying, name="tbd-ray-nodes", daemon=True)
        self._surveyor.start()

    def _keepers(self) -> Mapping[str, Keeper]:
        with self._lock:
            return dict(self._known)

    def _connect(self) -> Any:
        address = self._address
        if self._embedded is not None:
            address = self._embedded.ensure()
            os.environ.update(self._embedded.environment)
        ray = import_ray()
        own = {"_node_ip_address": HOST} if self._embedded is not None else {}
        try:
            ray.init(
                address=address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
                **own,
            )
        except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterUnavailable(f"Ray at {address} cannot be reached: {_first_line(error)}") from error
        return ray

    def _keep_surveying(self) -> None:
        surveyed_at = time.monotonic()
        while not self._closed.wait(_SURVEY_LOOK_S):
            if time.monotonic() < surveyed_at + SURVEY_S[self._is_asking()]:
                continue
            surveyed_at = time.monotonic()
            try:
                if self._embedded is not None and not self._embedded.alive():
                    self._begin_anew()
                self._survey()
            except Exception as error:  # the next survey may do better
                _log.warning("Ray's nodes cannot be listed: %s", _first_line(error))

    def _begin_anew(self) -> None:
        """The embedded Ray has died: start another. Its agents' directories stay, so the new agents sweep them."""
        _log.error("the embedded Ray has died; starting it anew")
        with self._lock:
            lost, self._names = dict(self._known), {}
        close_all(lost.values())
        self._ray.shutdown()
        self._ray = self._connect()

    def _survey(self) -> None:
        """Take up Ray nodes that have come, and let the keepers of those that have gone rest."""
        if self._unanswered_since is None:
            self._unanswered_since = time.monotonic()
        alive = {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"]}
        self._unanswered_since = None
        gone = [self._names.pop(node_id) for node_id in list(self._names) if node_id not in alive]
        close_all(self._known[name] for name in gone)
        for node_id, node in sorted(alive.items(), key=lambda item: (item[1]["NodeManagerAddress"], item[0])):
            if node_id not in self._names and not self._closed.is_set():
                self._take_up(node_id, node)
        self._versions.replace_idle()

    def lost(self) -> str | None:
        """A Ray that was started anew at the same address is another Ray, which this process cannot join any more."""
        since = self._unanswered_since
        away_s = 0.0 if since is None else time.monotonic() - since
        if self._embedded is not None or away_s < self._wait_s:
            return None
        return f"Ray at {self._address} has not answered for {away_s:.0f} s (TBD_RAY_WAIT_S)"

    def _take_up(self, node_id: str, node: Mapping[str, Any]) -> None:
        wanted = own_name() if self._embedded is not None else name_in_ray(node)
        name = self._name_of_agent(node_id) or free_name(
            wanted, set(self._names.values()), lambda name: self._has_left(name, node)
        )
        if name is None:
            return
        self._names[node_id] = name
        address = "127.0.0.1" if self._embedded is not None else node["NodeManagerAddress"]
        keeper = Keeper(name, lambda: self._agent(node_id, name), self._fence_s, address)
        with self._lock:
            self._known[name] = keeper

    def _has_left(self, name: str, node: Mapping[str, Any]) -> bool:
        """Whether the node ``name``, which Ray has not given up, was the machine that has come back as ``node``: it is
        not heard of any more, and had the same address, or who starts both says that they are one."""
        keeper = self._known[name]
        holder = next(node_id for node_id, known in self._names.items() if known == name)
        is_same = was_given(node) or keeper.node.address == node["NodeManagerAddress"]
        return is_same and keeper.silent_s < math.inf and self._name_of_agent(holder) is None

    def _name_of_agent(self, node_id: str) -> str | None:
        """The name that the node's agent was given when it was made."""
        try:
            actor = self._ray.get_actor(_actor_name(node_id), NAMESPACE)
            return str(RayHandle(self._ray, actor, self._term).call("heartbeat", CALL_TIMEOUT_S)["node"])
        except (ValueError, AgentUnreachable, AgentError):
            return None

    def _agent(self, node_id: str, name: str) -> Handle:
        """The agent of a Ray node: found by its name, or made.

        Raises:
            AgentUnreachable: it cannot be made; for one because another agent holds the directory, or because it is of
                another version than this service.
        """
        self._versions.check_node(node_id)
        is_new = False
        try:
            agent = RayHandle(self._ray, self._ray.get_actor(_actor_name(node_id), NAMESPACE), self._term)
        except ValueError:  # there is none
            is_new, agent = True, self._make(node_id, name)
        except self._ray.exceptions.RayError as error:
            raise AgentUnreachable(_first_line(error)) from error
        if self._embedded is None:  # else it is of this very installation
            self._versions.check_agent(node_id, name, agent, is_new=is_new)
        return agent

    def _make(self, node_id: str, name: str) -> RayHandle:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        make = self._ray.remote(num_cpus=0, max_restarts=0, concurrency_groups={"wait": CONCURRENT_WAITS})(AgentActor)
        options: dict[str, Any] = {
            "name": _actor_name(node_id),
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "max_concurrency": CONCURRENT_CALLS,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False),
        }
        path = package_path()
        if self._embedded is None and path:
            options["runtime_env"] = {"env_vars": {"PYTHONPATH": path}}
        try:
            actor = make.options(**options).remote(str(self._directory / "nodes" / name), name, self._fence_s)
            self._ray.get(actor.process.remote(), timeout=MAKE_TIMEOUT_S)
        except (self._ray.exceptions.RayError, ValueError) as error:
            raise AgentUnreachable(f"its agent cannot be made: {_first_line(error)}") from error
        return RayHandle(self._ray, actor, self._term)

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        """An embedded Ray has no other users."""
        if self._embedded is not None:
            return placement
        with self._lock:
            node_ids = {name: node_id for node_id, name in self._names.items()}
            inventories = {name: keeper.node.inventory for name, keeper in self._known.items()}
        limit_s = BOOKS_TIMEOUT_S + GIVEN_S * len(placement.nodes)
        return self._asking(lambda: self._holds.hold(attempt_id, placement, node_ids, inventories), limit_s)

    def holds(self) -> Collection[str]:
        return () if self._embedded is not None else self._asking(self._holds.held)

    def let_go(self, over: Collection[str]) -> None:
        if over:
            self._asking(lambda: self._holds.let_go(over))

    def _asking(self, ask: Callable[[], Answer], limit_s: float = BOOKS_TIMEOUT_S) -> Answer:
        """Ray's own calls about placement groups have no time-outs, so they are made in a thread that may be left.

        Raises:
            ClusterUnavailable: Ray does not answer, or not within ``limit_s``; or this server must ask nobody.
        """
        self._term()
        answer: Future[Answer] = Future()

        def carry_out() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:  # belongs to whoever waits
                answer.set_exception(error)

        threading.Thread(target=carry_out, name="tbd-ray-books", daemon=True).start()
        try:
            return answer.result(limit_s)
        except (self._ray.exceptions.RayError, ConnectionError) as error:  # a time-out of Ray's own among them
            raise ClusterUnavailable(f"Ray does not answer: {_first_line(error)}") from error
        except FutureTimeout:
            raise ClusterUnavailable(f"Ray does not answer: no word within {limit_s:g} s") from None

    def close(self) -> None:
        if self._is_over():
            return
        self._leave_keepers()
        self._ray.shutdown()
        if self._embedded is not None:
            self._embedded.release()

    def _leave_keepers(self) -> None:
        self._closed.set()
        # It may hang in a call of Ray's own, which have no time-outs. What starts the embedded Ray anew has more to do.
        self._surveyor.join(BOOKS_TIMEOUT_S if self._embedded is None else 2 * MAKE_TIMEOUT_S)
        close_all(self._keepers().values())

    def _is_over(self) -> bool:
        """Whether there is nothing to let go of: nobody can be told anything when Ray is lost, and what runs is the
        next service's."""
        if self.lost():
            self._closed.set()
        return self._closed.is_set()

    def _end(self) -> None:
        if self._is_over():
            return
        try:
            self._leave()
        finally:  # whatever fails before: nobody else would end it for a quarter of an hour
            if self._embedded is not None:
                self._embedded.stop()

    def _leave(self) -> None:
        self._leave_keepers()
        if self._surveyor.is_alive():
            raise ClusterUnavailable("Ray does not answer: its nodes cannot be listed. What runs may go on")
        if self._embedded is None:
            self._asking(lambda: self._holds.let_go(self._holds.held()))
        leaving = [partial(self._have_leave, node_id) for node_id in list(self._names)]
        carry_out(leaving, LEAVE_TIMEOUT_S + CALL_TIMEOUT_S)
        self._ray.shutdown()

    def _have_leave(self, node_id: str) -> None:
        try:
            RayHandle(self._ray, self._ray.get_actor(_actor_name(node_id), NAMESPACE), self._term).leave()
        except (ValueError, AgentUnreachable, self._ray.exceptions.RayError):  # it has none, or is gone
            return


def _actor_name(node_id: str) -> str:
    return f"tbd-agent-{node_id}"


def _result(answer: Mapping[str, Any]) -> Any:
    if "error" in answer:
        raise AgentError(answer["error"])
    return answer["result"]


def _first_line(error: BaseException) -> str:
    """Ray's messages go on for pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def import_ray() -> Any:
    """Import Ray, which takes a second or two; where it was imported before, have it read the environment again."""
    os.environ.update(_DRIVER_ENVIRONMENT)
    known = "ray" in sys.modules
    import ray

    # It would warn that it leaves SIGTERM alone where another thread than the main one connects: it need not have that.
    logging.getLogger("ray._private.worker").setLevel(logging.ERROR)

    if known:
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()
    return ray
