"""Predict the cells of a spec before they are run, from steps of one device and netbenches; and store what was told."""

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.s_sgd import forecast, more_nodes
from orchestrator.analysis.s_sgd.buckets import MIB
from orchestrator.analysis.s_sgd.forecast import CONFIDENCE, Way, expected, half_width, mean_s
from orchestrator.analysis.s_sgd.labels import Beside, Merger
from orchestrator.analysis.s_sgd.prediction import Merging, NotPredictable
from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.predictions import ID_PREFIX, PredictedPart, Prediction, RestsOn, Told
from orchestrator.domain.asked.catalog import ExchangeFacts, StrategyFacts
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import DamagedRow, InvalidRequest, Problem
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context
from orchestrator.services.experiment import submit
from orchestrator.services.prediction.evidence import Evidence, Lacking, OneDevice
from orchestrator.services.prediction.judged import errors
from orchestrator.services.prediction.links import Link, Links, has_servers, way_of
from orchestrator.services.result.more_runs import RUNS_ASKED_FOR, Missing, command
from orchestrator.services.result.one_device import LAYERS

MOST_CELLS = 1000  # a judgement
METHOD = "S-SGD model: one device's steps, profiled by layers, and exchanges that were timed apart from it"
MOST_BEYOND = 16  # times the largest size that was timed. A judgement
WELL = 0.8  # an efficiency. A judgement
TOGETHER = Merging(more_nodes.MOST_BYTES)  # in one exchange
_FABRIC = re.compile(r"\s*([0-9.]{1,12}) *([kMGT]?)bit/s *, *([0-9.]{1,12}) *(ns|us|ms)\s*")
_BITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}


@dataclass(frozen=True)
class Fabric:
    """One that nobody has measured: what a node sends in a second, and what each message takes besides. ``text`` as it
    was asked for."""

    text: str
    bytes_per_s: float
    latency_s: float


@dataclass(frozen=True)
class Until:
    """How far a cell scales. ``nodes``: the most that have an ``efficiency`` so high, None: those that were asked for
    have less already; ``bits_per_s``: what the busiest link has to carry for them to have it, None: no bandwidth does.
    """

    efficiency: float
    nodes: int | None
    bits_per_s: float | None


@dataclass(frozen=True)
class Predicted:
    """The predictions of a spec, ``until`` for each where that was asked for; and what lacked for the other cells."""

    items: tuple[Prediction, ...]
    until: tuple[Until | None, ...]
    missing: tuple[Missing, ...]


def predict(
    context: Context,
    body: Any,
    *,
    by: Actor,
    fabric: str | None = None,
    until: float | None = None,
    beside: Beside | None = None,
) -> Predicted:
    """Predict each cell of the spec ``body`` that there is enough to predict from. Nothing of it is run.

    Args:
        fabric: ``100 Gbit/s, 2 us``: in the place of the one between nodes.
        until: an efficiency above 0 and below 1.
        beside: see ``Links``.

    Raises:
        InvalidRequest: as ``submit``; a strategy is asynchronous; there are too many cells.
        StoreUnavailable: nothing was stored.
    """
    other = None if fabric is None else parse_fabric(fabric)
    if until is not None and not 0 < until < 1:
        raise InvalidRequest([Problem("/until", f"{until:g}: an efficiency is above 0 and below 1")])
    _, _, plans = submit.plan(context, body)
    cells = sorted((plan for plan in plans if plan.repetition == 1), key=_place)  # runs come in an order of chance
    if len(cells) > MOST_CELLS:
        raise InvalidRequest([Problem("", f"{len(cells)} cells: at most {MOST_CELLS} are predicted at once")])
    strategies = [_strategy(context, plan) for plan in cells]
    now = context.clock.now()
    evidence, links = Evidence(context), Links(context, beside)
    known: dict[tuple[object, ...], list[float]] = {}
    items: list[Prediction] = []
    ends: list[Until | None] = []
    missing: list[Missing] = []
    for plan, strategy in zip(cells, strategies, strict=True):
        asked, lacks = _asked(context, evidence, links, plan, strategy, other)
        missing += lacks
        if asked is not None:
            kind = (plan.model, plan.framework, plan.strategy, plan.world_size > 1, asked.beside)
            if kind not in known:
                known[kind] = errors(context, plan, asked.beside)
            items.append(Prediction(new_id(ID_PREFIX), by.owner, now, plan, asked.told(known[kind])))
            ends.append(asked.until(until) if until is not None else None)
    context.store.add_predictions(items)
    return Predicted(tuple(items), tuple(ends), tuple(dict.fromkeys(missing)))


def reach(context: Context, plan: Plan) -> Until | None:
    """What the link between the nodes of a measured cell has to carry for it to scale well (``WELL``); None where the
    link that was timed is predicted to do, or where what a prediction rests on is not stored."""
    if plan.nodes == 1:
        return None
    framework = context.catalog.frameworks.get(plan.framework)
    strategy = framework.strategies.get(plan.strategy) if framework else None
    if strategy is None:  # of another version
        return None
    try:
        asked, _ = _asked(context, Evidence(context), Links(context), plan, strategy, None)
    except DamagedRow:  # of another run: this one is explained without
        return None
    return asked.until(WELL) if asked is not None and asked.efficiency < WELL else None


def parse_fabric(text: str) -> Fabric:
    """Raises InvalidRequest."""
    found = _FABRIC.fullmatch(text)
    try:
        rate, latency = (float(found[1]) * _BITS[found[2]], float(found[3]) * _SECONDS[found[4]]) if found else (0, 0)
    except ValueError:
        rate = latency = 0.0
    if not found or not rate > 0 or not math.isfinite(rate):
        raise InvalidRequest([Problem("/fabric", f"{text[:60]!r} is no fabric: write it as '100 Gbit/s, 2 us'")])
    return Fabric(text.strip(), rate / 8, latency)


def _place(plan: Plan) -> tuple[object, ...]:
    alike = (plan.model, plan.framework, plan.strategy, str(plan.options), plan.per_device_batch_size)
    return *alike, plan.world_size, plan.nodes, plan.cell_key


def _strategy(context: Context, plan: Plan) -> StrategyFacts:
    strategy = context.catalog.frameworks[plan.framework].strategies[plan.strategy]
    if not strategy.synchronous:
        told = "is asynchronous: no step waits for the others, and the model of S-SGD says nothing of it"
        raise InvalidRequest([Problem("/strategy", f"{plan.strategy} of {plan.framework} {told}")])
    return strategy


def _asked(
    context: Context, evidence: Evidence, links: Links, plan: Plan, strategy: StrategyFacts, fabric: Fabric | None
) -> tuple["_Asked | None", list[Missing]]:
    """(the cell with all that its prediction is made of, or None; what lacks for it)."""
    missing: list[Missing] = []
    alone = link = None
    try:
        alone = _one_device(context, evidence, plan)
    except Lacking as lacking:
        missing.append(Missing(lacking.what, lacking.command))
    try:
        link = _link(links, plan, strategy.exchange, fabric) if plan.world_size > 1 else None
    except Lacking as lacking:
        missing.append(Missing(lacking.what, lacking.command))
    if alone is None or missing:
        return None, missing
    try:
        asked = _Asked(plan, alone, link, _way(plan, strategy), fabric if plan.nodes > 1 else None)
        asked.check_sizes()
    except NotPredictable as error:
        return None, [Missing(f"{plan.model} cannot be predicted: {error}", None)]
    except Lacking as lacking:
        return None, [Missing(lacking.what, lacking.command)]
    return asked, []


class _Asked:
    """A cell with all that its prediction is made of; ``link`` is None on one device.

    Raises:
        NotPredictable: no layer has parameters.
    """

    def __init__(self, plan: Plan, alone: OneDevice, link: Link | None, way: Way, fabric: Fabric | None) -> None:
        self._plan, self._alone, self._link, self._way, self._fabric = plan, alone, link, way, fabric
        functions = link.functions if link else ()
        self._each = [expected(step.inputs, way, functions) for step in alone.steps]

    def check_sizes(self) -> None:
        """Raises Lacking: exchanges are so much larger than all that were timed that a line tells nothing of them."""
        found = self._link
        if found is None or found.run_id is None:
            return
        largest = min(one.segments[-1].to_bytes for one in found.functions)
        asked = max(size for one in self._each for size in one.exchanges)
        if asked > MOST_BEYOND * largest:
            told = f"{found.run_id} timed exchanges of {largest} bytes at most, and one of {asked} is to be told"
            raise Lacking(f"{told}: time larger ones (tbd netbench --budget S --max-bytes SIZE)")

    @property
    def beside(self) -> str | None:
        """What exchanges were timed beside; None where nobody timed them."""
        found = self._link
        return found.functions[0].beside if found and found.run_id else None

    @property
    def efficiency(self) -> float:
        return mean_s([one.one_device_s for one in self._each]) / mean_s([one.iteration_s for one in self._each])

    def told(self, earlier: Sequence[float]) -> Told:
        """``earlier``: errors of judged predictions (``forecast.half_width``)."""
        whole_s = mean_s([one.iteration_s for one in self._each])
        alone_s = mean_s([one.one_device_s for one in self._each])
        work = self._plan.world_size * self._alone.ratio
        rates = [step.work * work / one.iteration_s for step, one in zip(self._alone.steps, self._each, strict=True)]
        rate = math.exp(math.fsum(map(math.log, rates)) / len(rates))
        half = half_width([1 / one for one in rates], earlier)
        throughput = Measurement(
            "throughput", rate, self._alone.row.unit or "", METHOD, ci_low=rate * math.exp(-half),
            ci_high=rate * math.exp(half), confidence=CONFIDENCE, n=len(rates), scope="a run that was not made",
        )  # fmt: skip
        parts = (PredictedPart("one device", alone_s), PredictedPart("exposed exchange", whole_s - alone_s))
        return Told(throughput, self.efficiency, whole_s, parts, self._rests_on(len(earlier)))

    def _rests_on(self, judged: int) -> RestsOn:
        found = self._link
        return RestsOn(
            run_ids=tuple(step.run.id for step in self._alone.steps),
            profiled_batch=self._alone.row.plan.per_device_batch_size,
            step_batches=self._alone.step_batches,
            netbench_run=found.run_id if found else None,
            netbench_ranks=found.ranks if found else None,
            fabric=self._fabric.text if self._fabric else None,
            beside=self.beside,
            disturbed=found is not None and found.disturbed,
            beyond=self._each[0].beyond,
            judged=judged,
        )

    def until(self, wanted: float) -> Until | None:
        """None where it is not asked of several nodes, between which something is known."""
        if self._link is None or self._plan.nodes == 1:
            return None
        link = self._link
        members_a_node = link.members // self._plan.nodes
        middle = sorted(zip([one.iteration_s for one in self._each], self._alone.steps, strict=True), key=_seconds)
        inputs = middle[len(middle) // 2][1].inputs

        def on(nodes: int) -> float:
            return expected(inputs, self._way, link.among(nodes * members_a_node).functions).efficiency

        def over(times: float) -> float:
            there = link.each(lambda one: more_nodes.quicker(one, times))
            return expected(inputs, self._way, there).efficiency

        most = more_nodes.MOST_NODES // members_a_node
        times, rate = forecast.least_bandwidth(over, wanted), link.functions[0].segments[-1].bytes_per_s
        _, load = more_nodes.counts(link.algorithm, link.members)
        bits_per_s = 8 * rate * load / len(link.functions) * times if times and rate else None
        return Until(wanted, forecast.most_nodes(on, wanted, self._plan.nodes, most), bits_per_s)


def _seconds(pair: tuple[float, Any]) -> float:
    return pair[0]


def _one_device(context: Context, evidence: Evidence, plan: Plan) -> OneDevice:
    """Raises Lacking."""
    if plan.search:
        raise Lacking("a search for the largest batch has no batch to be predicted for: name one")
    try:
        return evidence.one_device(plan)
    except Lacking as lacking:
        lacking.command = command(context, plan, ("1x1",), (LAYERS,), RUNS_ASKED_FOR)
        raise


def _link(links: Links, plan: Plan, facts: ExchangeFacts | None, fabric: Fabric | None) -> Link:
    """Raises Lacking."""
    if facts is None:
        raise Lacking(f"there is no model of how {plan.strategy} of {plan.framework} exchanges")
    if fabric is not None and plan.nodes > 1:
        algorithm, ranks_a_member = way_of(plan, facts)
        members, parts = plan.world_size // ranks_a_member, 2 if has_servers(plan, facts) else 1
        part = more_nodes.over_link(fabric.latency_s, fabric.bytes_per_s, algorithm, members, parts)
        return Link((part,) * parts, algorithm, members)
    try:
        return links.link(plan, facts)
    except Lacking as lacking:
        library = facts.libraries.get(plan.device)
        if library and lacking.command is None:
            words = ["tbd", "netbench", "--topology", str(plan.topology), "--library", library]
            words += ["--fabric", plan.fabric] if plan.nodes > 1 and plan.fabric else []
            lacking.command = shlex.join(words)
        raise


def _way(plan: Plan, strategy: StrategyFacts) -> Way:
    facts = strategy.exchange
    if facts is None or facts.merged_by is None:
        return Way(facts is not None and facts.overlapped, TOGETHER if facts and facts.together else None)
    mib = dict(plan.options).get("bucket_mib", strategy.options["bucket_mib"].default)
    return Way(facts.overlapped, Merging(int(mib) * MIB, None, Merger(facts.merged_by)))
