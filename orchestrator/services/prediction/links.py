"""How long the exchanges of a cell take, by what is stored: netbenches of its library, or replays with its strategy."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

from orchestrator.analysis.probe.netbench import ALL_REDUCE, PULL, PUSH
from orchestrator.analysis.s_sgd import communication
from orchestrator.analysis.s_sgd.communication import Communication
from orchestrator.analysis.s_sgd.labels import Algorithm, Beside
from orchestrator.analysis.s_sgd.more_nodes import on_other_nodes
from orchestrator.domain.asked.catalog import ExchangeFacts
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.filters import CellFilter, TransferFilter
from orchestrator.domain.runs.run import Run
from orchestrator.domain.runs.stored import StoredTransfer
from orchestrator.services.context import Context
from orchestrator.services.prediction.evidence import Lacking
from orchestrator.services.result import results
from orchestrator.services.result.one_device import MOST_SEARCHED

PAGE, MOST_PAGES = 1000, 20  # of what netbenches have sent: so much is looked through, the newest. A judgement
_ALIKE = ("strategy", "device", "fabric", "devices_per_node")  # of a replay that exchanges as a cell does


@dataclass(frozen=True)
class Link:
    """How long an exchange takes by ``algorithm`` among ``members``: ranks, or nodes that have servers. ``functions``:
    of the whole, or with servers of push and pull. ``run_id``: the netbench that was fitted, on ``ranks`` ranks; None:
    a fabric that was asked for. ``disturbed``: that run was."""

    functions: tuple[Communication, ...]
    algorithm: Algorithm
    members: int
    run_id: str | None = None
    ranks: int | None = None
    disturbed: bool = False

    def each(self, change: Callable[[Communication], Communication]) -> tuple[Communication, ...]:
        return tuple(change(one) for one in self.functions)

    def among(self, members: int) -> "Link":
        """The same among more or fewer of them."""
        if members == self.members:
            return self
        there = self.each(lambda one: on_other_nodes(one, self.algorithm, self.members, members))
        return replace(self, functions=there, members=members)


@dataclass(frozen=True)
class Timed:
    """What one netbench tells: a function for each operation, on so many ranks."""

    run_id: str
    functions: tuple[Communication, ...]
    ranks: int
    disturbed: bool


class Links:
    """What is stored, for the cells of one spec: what several of them rest on is read once.

    Args:
        beside: exchanges that were timed beside this alone: netbenches beside idle or busy cores, profiles of replays
            (``BACKWARD_PASS``); None: on CPU devices, whose cores compute meanwhile, busy cores, else idle ones.
    """

    def __init__(self, context: Context, beside: Beside | None = None) -> None:
        self._context, self._beside = context, beside
        self._links: dict[tuple[object, ...], list[Timed]] = {}

    def link(self, plan: Plan, facts: ExchangeFacts) -> Link:
        """How long the exchanges of ``plan`` take: from the newest netbench of its library with as many ranks, else
        from one with the nearest number of them, by the formula of its algorithm; a disturbed one only where no other
        has as many. Between the devices of a node and between nodes are two things, so that neither tells of the other.

        Raises:
            Lacking: there is none.
        """
        library = facts.libraries.get(plan.device)
        if library is None:
            raise Lacking(facts.unmeasured)
        fabric = plan.fabric if plan.nodes > 1 else None
        algorithm, ranks_a_member = way_of(plan, facts)
        operations = (PUSH, PULL) if has_servers(plan, facts) else (ALL_REDUCE,)
        replays = self._beside is Beside.BACKWARD_PASS
        by = (plan.framework, plan.strategy) if replays else (library,)
        key = (*by, plan.device, fabric, plan.nodes > 1, plan.devices_per_node, operations)
        if key not in self._links:
            self._links[key] = self._replayed(plan) if replays else self._timed(plan, library, fabric, operations)
        usable = self._links[key]
        if not usable:
            between = f"over {fabric}" if fabric else "within a node"
            if replays:
                raise self._lacks_replays(plan, facts, between)
            beside = f"beside {self._beside.replace('-', ' ')} " if self._beside else ""
            raise Lacking(f"there is no netbench of {library} {beside}{between} with two sizes or more")
        nearest = min(usable, key=lambda one: (abs(one.ranks - plan.world_size), one.disturbed))  # the newest of those
        members = nearest.ranks // ranks_a_member
        link = Link(nearest.functions, algorithm, members, nearest.run_id, nearest.ranks, nearest.disturbed)
        return link.among(plan.world_size // ranks_a_member)

    def _lacks_replays(self, plan: Plan, facts: ExchangeFacts, between: str) -> Lacking:
        """Servers' pushes and pulls are two lanes, which no profile tells apart."""
        told = f"there is no replay with {plan.strategy} {between} whose profile of layers has exchanges of two sizes"
        models = [one for one in self._context.catalog.models.values() if one.replays]
        if has_servers(plan, facts) or not any(plan.framework in one.frameworks for one in models):
            return Lacking(told)
        words = ["tbd", "run", "replay", "-f", plan.framework, "--strategy", plan.strategy, "--batch", "1"]
        words += ["--topology", str(plan.topology), *(["--fabric", plan.fabric] if plan.fabric else [])]
        return Lacking(told, shlex.join([*words, "--option", "run=RUN", "--profile", "layers"]))

    def _timed(self, plan: Plan, library: str, fabric: str | None, operations: Sequence[str]) -> list[Timed]:
        """What each netbench tells of all ``operations``, the newest first."""
        runs: dict[str, dict[str, list[StoredTransfer]]] = {}
        for name in operations:
            wanted = TransferFilter(operation=name, library=library, device=plan.device, fabric=fabric)
            for one in self._sent(wanted):
                if _is_between_as_many(one, plan):
                    runs.setdefault(one.run_id, {}).setdefault(name, []).append(one)
        found = []
        for run_id, sent in runs.items():
            first = next(iter(sent.values()))[0]
            if functions := self._fit(plan, [sent.get(name, []) for name in operations]):
                found.append(Timed(run_id, functions, first.world_size, not first.valid))
        return found

    def _sent(self, wanted: TransferFilter) -> list[StoredTransfer]:
        """The newest of those, of whole netbenches."""
        found: list[StoredTransfer] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = self._context.store.transfers(wanted, limit=PAGE, cursor=cursor)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found
        return [one for one in found if one.run_id != found[-1].run_id]

    def _replayed(self, plan: Plan) -> list[Timed]:
        """What the exchanges of replays with the strategy of ``plan`` tell, for each number of ranks: in their profiles
        they go on beside a backward pass."""
        times: dict[int, dict[int, list[float]]] = {}  # ranks -> bytes -> seconds
        newest: dict[int, Run] = {}
        for row in islice(results.all_rows(self._context, CellFilter(framework=plan.framework)), MOST_SEARCHED):
            if not self._is_replay_of(row.plan, plan):
                continue
            for run in row.basis.runs:
                for told in self._context.store.profiles(run.id).layers:
                    newest.setdefault(run.plan.world_size, run)
                    of_ranks = times.setdefault(run.plan.world_size, {})
                    for one in (each for each in told.exchanges if each.bytes > 0 and each.end_s > each.start_s):
                        of_ranks.setdefault(one.bytes, []).append(one.end_s - one.start_s)
        found = []
        for ranks, seconds in times.items():
            if function := _fitted({size: median(each) for size, each in seconds.items()}, Beside.BACKWARD_PASS):
                found.append(Timed(newest[ranks].id, (function,), ranks, disturbed=False))
        return found

    def _is_replay_of(self, one: Plan, plan: Plan) -> bool:
        """Whether it exchanges as ``plan`` does, over as many devices of a node or more, beside layers that wait."""
        model = self._context.catalog.models.get(one.model)
        alike = all(getattr(one, name) == getattr(plan, name) for name in _ALIKE)
        return alike and one.world_size > 1 and model is not None and model.replays is not None

    def _fit(self, plan: Plan, sent: Sequence[Sequence[StoredTransfer]]) -> tuple[Communication, ...] | None:
        """The functions of one netbench, of each operation's times: beside what is asked for, or the first of these
        that all of them have."""
        usual = (Beside.BUSY_CORES, Beside.IDLE) if plan.device == "cpu" else (Beside.IDLE,)
        for beside in (self._beside,) if self._beside else usual:
            busy = beside is Beside.BUSY_CORES
            times = [
                {one.bytes: one.duration_p50_s for one in ones if one.busy_cores is busy and one.duration_p50_s > 0}
                for ones in sent
            ]
            functions = [function for by_size in times if (function := _fitted(by_size, beside))]
            if len(functions) == len(sent):
                return tuple(functions)
        return None


def has_servers(plan: Plan, facts: ExchangeFacts) -> bool:
    """Whether gradients are pushed to servers and pulled from them."""
    return facts.algorithms.get(plan.device) == Algorithm.SERVERS


def way_of(plan: Plan, facts: ExchangeFacts) -> tuple[Algorithm, int]:
    """(the algorithm, ranks of each that takes part in it): with servers a node's devices are added up on it first.
    Within a node only that grows with them, in one place."""
    algorithm = Algorithm(facts.algorithms.get(plan.device, Algorithm.RING))
    if algorithm is not Algorithm.SERVERS:
        return algorithm, 1
    return (algorithm, plan.devices_per_node) if plan.nodes > 1 else (Algorithm.SERVER, 1)


def _is_between_as_many(one: StoredTransfer, plan: Plan) -> bool:
    """Between nodes as many devices of each take part; within one, any number."""
    nodes, devices = (int(part) for part in one.topology.split("x"))
    if (nodes > 1) != (plan.nodes > 1) or len(one.ranks) != one.world_size:
        return False
    return nodes == 1 or devices == plan.devices_per_node


def _fitted(times: Mapping[int, float], beside: Beside) -> Communication | None:
    """The function of seconds by bytes; None with less than two sizes."""
    sizes = sorted(times)
    if len(sizes) < 2:
        return None
    return communication.fit(sizes, [times[size] for size in sizes], beside).function
