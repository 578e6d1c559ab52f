"""Experiments: submit, look, pause, extend, cancel."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import (
    REPLAYED,
    Ctx,
    Cursor,
    IdempotencyKey,
    JsonBody,
    Label,
    Limit,
    OfOwner,
    Order,
    carried_out_once,
    json_body_of,
    parse_label,
)
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.experiments import ExperimentView, PreviewView, experiment_view, preview_view
from orchestrator.api.views.runs import RunView, run_view
from orchestrator.domain.around.access import Actor
from orchestrator.domain.runs.filters import ExperimentFilter, RunFilter
from orchestrator.domain.runs.run import Experiment, ExperimentState, RunState
from orchestrator.services.context import Context
from orchestrator.services.experiment import cancel, extend, pause, query
from orchestrator.services.experiment.remove import remove_experiment
from orchestrator.services.experiment.submit import submit

router = APIRouter(prefix="/experiments", tags=["experiments"])
SPEC_BODY = json_body_of(
    "ExperimentSpec",
    name="resnet50-batch-sweep",
    model="resnet-50",
    framework=["pytorch", "tensorflow"],
    per_device_batch_size=[4, 8],
    size="small",
)


def submitted(experiment: Experiment, created: bool) -> Response:
    """The answer to a request that stores an experiment; ``created`` is False where it was sent before."""
    headers = {"Location": f"/api/v1/experiments/{experiment.id}"} | ({} if created else REPLAYED)
    return answer(experiment_view(experiment), 201, headers)


@router.post(
    "",
    status_code=201,
    response_model=ExperimentView,
    responses={200: {"model": PreviewView, "description": "what would run (dry_run)"}},
    openapi_extra=SPEC_BODY,
)
def submit_experiment(
    context: Ctx,
    who: Who,
    body: JsonBody,
    key: IdempotencyKey = None,
    dry_run: Annotated[bool, Query(description="answer the plans, store nothing")] = False,
) -> Response:
    """Submit an experiment. Acknowledged only once it is stored durably."""
    if dry_run:
        from orchestrator.services.experiment.preview import preview  # scipy takes a second to import

        return answer(preview_view(preview(context, body)))
    return submitted(*submit(context, body, by=who, idempotency_key=key))


@router.get("", response_model=PageView[ExperimentView])
def list_experiments(
    context: Ctx,
    owner: OfOwner = None,
    state: ExperimentState | None = None,
    name: str | None = None,
    label: Label = None,
    schedule: Annotated[str | None, Query(max_length=100, description="only what the schedule of this id made")] = None,
    order: Order = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Experiments, newest first unless ``order`` says otherwise."""
    wanted = ExperimentFilter(owner, state, name, parse_label(label), schedule, order == "oldest")
    page = context.store.experiments(wanted, limit=limit, cursor=cursor)
    return answer(page_view(page, experiment_view))


@router.get("/{experiment_id}", response_model=ExperimentView)
def get_experiment(context: Ctx, experiment_id: str) -> Response:
    """One experiment, with the counts of its runs by state."""
    return answer(experiment_view(query.experiment(context, experiment_id)))


@router.delete("/{experiment_id}", status_code=204, response_class=Response)
def delete_experiment(context: Ctx, who: Who, experiment_id: str) -> Response:
    """Remove an experiment of which nothing is being carried out, with its runs, logs, measurements and profiles. An
    idempotency key that made it can be used again."""
    remove_experiment(context, experiment_id, who)
    return Response(status_code=204)


@router.get("/{experiment_id}/runs", response_model=PageView[RunView])
def list_experiment_runs(
    context: Ctx,
    experiment_id: str,
    state: RunState | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The runs of an experiment, newest first."""
    query.owner_of(context, experiment_id)
    page = context.store.runs(RunFilter(experiment_id=experiment_id, state=state), limit=limit, cursor=cursor)
    return answer(page_view(page, run_view))


@router.post("/{experiment_id}/cancel", status_code=202, response_model=ExperimentView)
def cancel_experiment(context: Ctx, who: Who, experiment_id: str, key: IdempotencyKey = None) -> Response:
    """Ask for an experiment and all its runs to end. Idempotent by nature, with or without a key."""
    return _ordered(context, who, experiment_id, key, "cancel", cancel.cancel_experiment)


@router.post("/{experiment_id}/pause", status_code=202, response_model=ExperimentView)
def pause_experiment(context: Ctx, who: Who, experiment_id: str, key: IdempotencyKey = None) -> Response:
    """Let none of its queued runs begin; those that have begun come to their end. Idempotent by nature."""
    return _ordered(context, who, experiment_id, key, "pause", pause.pause_experiment)


@router.post("/{experiment_id}/resume", status_code=202, response_model=ExperimentView)
def resume_experiment(context: Ctx, who: Who, experiment_id: str, key: IdempotencyKey = None) -> Response:
    """Let the queued runs of a paused experiment begin. Idempotent by nature."""
    return _ordered(context, who, experiment_id, key, "resume", pause.resume_experiment)


@router.post("/{experiment_id}/extend", response_model=ExperimentView, openapi_extra=SPEC_BODY)
def extend_experiment(
    context: Ctx, who: Who, experiment_id: str, body: JsonBody, key: IdempotencyKey = None
) -> Response:
    """Extend an experiment by a spec that has everything the old one has and more: values of axes, repeats. Only what
    is missing runs. One that is over goes on; of one that was cancelled, what had not begun is queued anew."""
    found, headers = carried_out_once(
        context,
        who.owner,
        key,
        ("extend", experiment_id, body),
        lambda: extend.extend_experiment(context, experiment_id, body, who),
        lambda: query.experiment(context, experiment_id),
    )
    return answer(experiment_view(found), headers=headers)


def _ordered(
    context: Context, who: Actor, experiment_id: str, key: str | None, order: str, act: Callable[..., Experiment]
) -> Response:
    """The answer to an order that may come again."""
    found, headers = carried_out_once(
        context,
        who.owner,
        key,
        (order, experiment_id),
        lambda: act(context, experiment_id, who),
        lambda: query.experiment(context, experiment_id),
    )
    return answer(experiment_view(found), 202, headers)
