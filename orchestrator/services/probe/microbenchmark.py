"""What a netbench and a calibration have in common: a request of its own, which an ordinary experiment carries out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from orchestrator.domain.around.access import Actor
from orchestrator.domain.asked.catalog import Catalog
from orchestrator.domain.asked.spec import NodeChoice, StrictModel, parse_spec, problems_of
from orchestrator.domain.expansion.sweep import check_for_any_machine
from orchestrator.domain.runs.run import Experiment
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.context import Context
from orchestrator.services.experiment.submit import submit

# What a disturbed run may be tried again: a judgement.
REPLACEMENTS = 2
DEVICE = "cuda: GPUs; cpu: sets of cores. auto: GPUs if any node has one when it is submitted, else cores"


class MicrobenchmarkRequest(StrictModel):
    """Where to run, and how often in fresh processes."""

    repeats: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        default=1, description="runs, each in fresh processes"
    )
    nodes: NodeChoice = Field(default=NodeChoice(), description="where it may run; left out: on every node")
    labels: dict[str, str] = Field(
        default_factory=dict, max_length=50, description="key -> value, by which experiments and results can be found"
    )

    def spec(self) -> dict[str, Any]:
        """The part of the experiment's spec that these fields say."""
        return {
            "per_device_batch_size": 1,
            "nodes": self.nodes.model_dump(),
            "repeats": self.repeats,
            "max_repeats": min(self.repeats + REPLACEMENTS, 1000),
            "labels": self.labels,
        }


_Asked = TypeVar("_Asked", bound=MicrobenchmarkRequest)


def parse(kind: type[_Asked], body: Any, described: str) -> _Asked:
    """Return ``body`` as a ``kind``; ``described`` says what it should be.

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest([Problem("", described)])
    try:
        return kind.model_validate(dict(body))
    except ValidationError as error:
        raise InvalidRequest(problems_of(kind, body, error)) from None


def check(spec: Mapping[str, Any], catalog: Catalog) -> None:
    """Refuse what no machine could carry out.

    Raises:
        InvalidRequest: in the words of the request, as ``carry_out``.
    """
    with _in_words_of_the_request():
        check_for_any_machine(parse_spec(spec), catalog)


def carry_out(
    context: Context, spec: Mapping[str, Any], by: Actor, idempotency_key: str | None
) -> tuple[Experiment, bool]:
    """Store the experiment; (it, whether it is new).

    Raises:
        InvalidRequest: in the words of the request: what the spec calls an option is a field there, and there is no
            grid of which a cell could be left out. Nothing was stored.
        IdempotencyMismatch: the key was used before with another body.
    """
    with _in_words_of_the_request():
        return submit(context, spec, by=by, idempotency_key=idempotency_key, action=str(spec["model"]))


@contextmanager
def _in_words_of_the_request() -> Iterator[None]:
    try:
        yield
    except InvalidRequest as error:
        raise InvalidRequest([_of_the_request(problem) for problem in error.problems]) from None


def _of_the_request(problem: Problem) -> Problem:
    return Problem(problem.pointer.replace("/options/", "/", 1), problem.message.partition(". To leave this cell")[0])
