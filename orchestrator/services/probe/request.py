"""What the requests for probes have in common: an ordinary experiment, of the probe's model, carries each out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from orchestrator.domain.around.access import Actor
from orchestrator.domain.asked.catalog import Catalog
from orchestrator.domain.asked.spec import NodeChoice, StrictModel, TopologyText, parse_spec, problems_of
from orchestrator.domain.expansion.sweep import check_for_any_machine
from orchestrator.domain.runs.run import Experiment
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.context import Context
from orchestrator.services.experiment.submit import submit

# What a disturbed run may be tried again: a judgement.
REPLACEMENTS = 2


class ProbeRequest(StrictModel):
    """Where to run, and how often in fresh processes. A kind of probe adds what to measure, and how long.

    ``model``: its name; ``options``: which of its fields are options of that; ``example``: a topology.
    """

    model: ClassVar[str]
    options: ClassVar[tuple[str, ...]]
    example: ClassVar[str]

    topology: TopologyText
    device: Literal["auto", "cuda", "cpu"] = Field(
        default="auto",
        description="cuda: GPUs; cpu: sets of cores. auto: GPUs if any node has one when it is submitted, else cores",
    )
    repeats: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        default=1, description="runs, each in fresh processes"
    )
    nodes: NodeChoice = Field(default=NodeChoice(), description="where it may run; left out: on every node")
    labels: dict[str, str] = Field(
        default_factory=dict, max_length=50, description="key -> value, by which experiments and results can be found"
    )

    def spec(self) -> dict[str, Any]:
        """The spec of the experiment: the same for the same request, whatever the cluster consists of, so that an
        idempotency key is good for it.

        Raises:
            InvalidRequest: there would be nothing to measure.
        """
        return {
            "name": f"{self.model}-{self.topology}",
            "model": self.model,
            "options": {name: getattr(self, name) for name in self.options},
            "topology": self.topology,
            "device": self.device,
            "per_device_batch_size": 1,
            "nodes": self.nodes.model_dump(),
            "repeats": self.repeats,
            "max_repeats": min(self.repeats + REPLACEMENTS, 1000),
            "labels": self.labels,
        }


def spec_of(kind: type[ProbeRequest], body: Any) -> dict[str, Any]:
    """The spec of the experiment that carries out the probe ``body`` describes.

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong.
    """
    if not isinstance(body, Mapping):
        described = f"a {kind.model} is an object of fields, such as {{topology: {kind.example}}}"
        raise InvalidRequest([Problem("", described)])
    try:
        return kind.model_validate(dict(body)).spec()
    except ValidationError as error:
        raise InvalidRequest(problems_of(kind, body, error)) from None


def check(kind: type[ProbeRequest], body: Any, catalog: Catalog) -> None:
    """Refuse what no machine could carry out.

    Raises:
        InvalidRequest: in the words of the request, as ``carry_out``.
    """
    spec = spec_of(kind, body)
    with _in_words_of_the_request():
        check_for_any_machine(parse_spec(spec), catalog)


def carry_out(
    context: Context, kind: type[ProbeRequest], body: Any, by: Actor, idempotency_key: str | None
) -> tuple[Experiment, bool]:
    """Store the experiment; (it, whether it is new).

    Raises:
        InvalidRequest: in the words of the request: what the spec calls an option is a field there, and there is no
            grid of which a cell could be left out. Nothing was stored.
        IdempotencyMismatch: the key was used before with another body.
    """
    spec = spec_of(kind, body)
    with _in_words_of_the_request():
        return submit(context, spec, by=by, idempotency_key=idempotency_key, action=kind.model)


@contextmanager
def _in_words_of_the_request() -> Iterator[None]:
    try:
        yield
    except InvalidRequest as error:
        raise InvalidRequest([_of_the_request(problem) for problem in error.problems]) from None


def _of_the_request(problem: Problem) -> Problem:
    return Problem(problem.pointer.replace("/options/", "/", 1), problem.message.partition(". To leave this cell")[0])
