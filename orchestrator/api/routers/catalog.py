"""What can be measured: models, frameworks, datasets."""

from fastapi import APIRouter, Response

from orchestrator.api.requests import MAX_PAGE, Ctx, Cursor, WholeLimit
from orchestrator.api.views.catalog import (
    DatasetView,
    FrameworkView,
    ModelView,
    dataset_view,
    framework_view,
)
from orchestrator.api.views.common import PageView, answer, page_of
from orchestrator.services.facts.datasets import datasets
from orchestrator.services.facts.frameworks import frameworks

router = APIRouter(tags=["catalog"])


@router.get("/models", response_model=PageView[ModelView])
def list_models(context: Ctx, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None) -> Response:
    """The models of the suite."""
    models = [model for _, model in sorted(context.catalog.models.items())]
    return answer(page_of(models, lambda model: model.name, ModelView.of, limit, cursor))


@router.get("/frameworks", response_model=PageView[FrameworkView])
def list_frameworks(context: Ctx, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None) -> Response:
    """The frameworks, and on which nodes their interpreters are ready."""
    return answer(page_of(frameworks(context), lambda status: status.facts.name, framework_view, limit, cursor))


@router.get("/datasets", response_model=PageView[DatasetView])
def list_datasets(context: Ctx, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None) -> Response:
    """The datasets, and what each node has of them. Synthetic data needs none."""
    return answer(page_of(datasets(context), lambda one: one.facts.name, dataset_view, limit, cursor))
