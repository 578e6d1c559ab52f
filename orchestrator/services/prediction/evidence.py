"""What a prediction is made of: the profiled steps of one device, and how long its library's exchanges take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from orchestrator.analysis.probe.netbench import ALL_REDUCE, PULL, PUSH
from orchestrator.analysis.s_sgd import communication
from orchestrator.analysis.s_sgd.communication import Communication
from orchestrator.analysis.s_sgd.inputs import Inputs, NotAnInput, inputs_of
from orchestrator.analysis.s_sgd.labels import Algorithm, Beside
from orchestrator.analysis.s_sgd.more_nodes import on_other_nodes
from orchestrator.domain.asked.catalog import ExchangeFacts
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.filters import TransferFilter
from orchestrator.domain.runs.row import Row
from orchestrator.domain.runs.run import Run
from orchestrator.domain.runs.stored import StoredTransfer
from orchestrator.services.context import Context
from orchestrator.services.result.one_device import newest, profiled
from orchestrator.services.result.rank_steps import step_s_of
from orchestrator.services.result.rated import RatedCell

# Judgements: so many cells, and so many transfers, are looked through, the nearest and the newest.
MOST_CELLS = 5
MOST_TRANSFERS = 5000


class Lacking(Exception):  # noqa: N818 - reads as what happened
    """What a prediction cannot do without is not stored; ``what`` says it, ``command`` would supply it."""

    def __init__(self, what: str, command: str | None = None) -> None:
        super().__init__(what)
        self.what, self.command = what, command


@dataclass(frozen=True)
class Step:
    """What a run of one device did in a timed step. ``work``: units of it, of the profiled batch."""

    run: Run
    inputs: Inputs
    work: float


@dataclass(frozen=True)
class OneDevice:
    """``steps``, one a run, of the cell ``row``. Their inputs are for the batch that was asked for, which is ``ratio``
    times the cell's."""

    row: Row
    steps: tuple[Step, ...]
    ratio: float


@dataclass(frozen=True)
class Link:
    """How long an exchange takes by ``algorithm`` among ``members``: ranks, or nodes that have servers. ``functions``:
    of the whole, or with servers of push and pull. ``run_id``: the netbench that was fitted, on ``ranks`` ranks; None:
    a fabric that was asked for."""

    functions: tuple[Communication, ...]
    algorithm: Algorithm
    members: int
    run_id: str | None = None
    ranks: int | None = None

    def each(self, change: Callable[[Communication], Communication]) -> tuple[Communication, ...]:
        return tuple(change(one) for one in self.functions)

    def among(self, members: int) -> "Link":
        """The same among more or fewer of them."""
        if members == self.members:
            return self
        there = self.each(lambda one: on_other_nodes(one, self.algorithm, self.members, members))
        return replace(self, functions=there, members=members)


class Evidence:
    """What is stored, for the cells of one spec: what several of them rest on is read once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows: dict[tuple[str, str], list[Row]] = {}
        self._steps: dict[tuple[str, str], list[Step]] = {}
        self._links: dict[tuple[object, ...], dict[str, tuple[tuple[Communication, ...], int]]] = {}

    def one_device(self, plan: Plan) -> OneDevice:
        """What each device does under ``plan``.

        Raises:
            Lacking: no run of one device tells it.
        """
        kind = (plan.model, plan.framework)
        if kind not in self._rows:
            self._rows[kind] = list(newest(self._context, plan))
        why = "there is no cell of one device with its workload and interpreter that was profiled by layers"
        for cell in islice(profiled(self._context, plan, self._rows[kind]), MOST_CELLS):
            ratio = plan.per_device_batch_size / cell.row.plan.per_device_batch_size
            try:
                steps = self._steps_of(cell)
            except NotAnInput as error:
                why = f"the profile of layers of its cell of one device cannot be used: {error}"
            else:
                grown = tuple(replace(one, inputs=one.inputs.at_batch(ratio)) for one in steps)
                return OneDevice(cell.row, grown, ratio)
        raise Lacking(why)

    def _steps_of(self, cell: RatedCell) -> list[Step]:
        """Raises NotAnInput."""
        key = (cell.row.experiment_id, cell.row.plan.cell_key)
        if key not in self._steps:
            self._steps[key] = _steps(self._context, cell)
        return self._steps[key]

    def link(self, plan: Plan, facts: ExchangeFacts) -> Link:
        """How long the exchanges of ``plan`` take: from the newest netbench of its library with as many ranks, else
        from one with the nearest number of them, by the formula of its algorithm. Between the devices of a node and
        between nodes are two things, so that neither tells of the other.

        Raises:
            Lacking: there is none.
        """
        library = facts.libraries.get(plan.device)
        if library is None:
            raise Lacking(facts.unmeasured)
        fabric = plan.fabric if plan.nodes > 1 else None
        algorithm, ranks_a_member = way_of(plan, facts)
        operations = (PUSH, PULL) if has_servers(plan, facts) else (ALL_REDUCE,)
        key = (library, plan.device, fabric, plan.nodes > 1, plan.devices_per_node, operations)
        if key not in self._links:
            self._links[key] = self._fitted(plan, library, fabric, operations)
        usable = self._links[key]
        if not usable:
            between = f"over {fabric}" if fabric else "within a node"
            raise Lacking(f"there is no netbench of {library} {between} with two sizes or more")
        run_id = min(usable, key=lambda one: abs(usable[one][1] - plan.world_size))  # the newest of those
        functions, ranks = usable[run_id]
        link = Link(functions, algorithm, ranks // ranks_a_member, run_id, ranks)
        return link.among(plan.world_size // ranks_a_member)

    def _fitted(
        self, plan: Plan, library: str, fabric: str | None, operations: Sequence[str]
    ) -> dict[str, tuple[tuple[Communication, ...], int]]:
        """Run -> (its functions, one for each operation, and its ranks), the newest first."""
        runs: dict[str, dict[str, list[StoredTransfer]]] = {}
        for name in operations:
            wanted = TransferFilter(operation=name, library=library, device=plan.device, fabric=fabric, valid=True)
            for one in self._context.store.transfers(wanted, limit=MOST_TRANSFERS).items:
                if _is_between_as_many(one, plan):
                    runs.setdefault(one.run_id, {}).setdefault(name, []).append(one)
        found = {}
        for run_id, sent in runs.items():
            if functions := _fit(plan, [sent.get(name, []) for name in operations]):
                found[run_id] = functions, next(iter(sent.values()))[0].world_size
        return found


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


def _steps(context: Context, cell: RatedCell) -> list[Step]:
    """Raises NotAnInput."""
    found = []
    for run, rate in cell.row.rates_of(cell.basis):
        profiles = context.store.profiles(run.id)
        if rate > 0 and not profiles.layers:
            raise NotAnInput(profiles.reasons.get("layers") or f"{run.id} has none")
        if rate > 0:
            step_s = step_s_of(run, rate)
            found.append(Step(run, inputs_of(profiles.layers[0], step_s), rate * step_s))
    if not found:
        raise NotAnInput("its runs have no rate")
    return found


def _is_between_as_many(one: StoredTransfer, plan: Plan) -> bool:
    """Between nodes as many devices of each take part; within one, any number."""
    nodes, devices = (int(part) for part in one.topology.split("x"))
    if (nodes > 1) != (plan.nodes > 1) or len(one.ranks) != one.world_size:
        return False
    return nodes == 1 or devices == plan.devices_per_node


def _fit(plan: Plan, sent: Sequence[Sequence[StoredTransfer]]) -> tuple[Communication, ...] | None:
    """The functions of one netbench, of each operation's times. On CPU devices, whose cores compute meanwhile, of those
    beside busy cores."""
    for busy in (True, False) if plan.device == "cpu" else (False,):
        times = [
            {one.bytes: one.duration_p50_s for one in ones if one.busy_cores is busy and one.duration_p50_s > 0}
            for ones in sent
        ]
        if all(len(by_size) > 1 for by_size in times):
            beside = Beside.BUSY_CORES if busy else Beside.IDLE
            return tuple(_fitted_to(by_size, beside) for by_size in times)
    return None


def _fitted_to(times: Mapping[int, float], beside: Beside) -> Communication:
    sizes = sorted(times)
    return communication.fit(sizes, [times[size] for size in sizes], beside).function
