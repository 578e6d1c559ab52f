"""What can be measured: models, frameworks, datasets."""

from fastapi import APIRouter, Response

from orchestrator.api.requests import Ctx
from orchestrator.api.views.catalog import (
    DatasetView,
    FrameworkView,
    ModelView,
    dataset_view,
    framework_view,
    model_view,
)
from orchestrator.api.views.common import PageView, answer
from orchestrator.services.frameworks import frameworks

router = APIRouter(tags=["catalog"])


@router.get("/models", response_model=PageView[ModelView])
def get_models(context: Ctx) -> Response:
    """The models of the suite."""
    return answer(PageView[ModelView](items=[model_view(model) for _, model in sorted(context.catalog.models.items())]))


@router.get("/frameworks", response_model=PageView[FrameworkView])
def get_frameworks(context: Ctx) -> Response:
    """The frameworks, and on which nodes their interpreters are ready."""
    return answer(PageView[FrameworkView](items=[framework_view(status) for status in frameworks(context)]))


@router.get("/datasets", response_model=PageView[DatasetView])
def get_datasets(context: Ctx) -> Response:
    """The registered datasets. Synthetic data needs none."""
    items = [dataset_view(dataset) for _, dataset in sorted(context.catalog.datasets.items())]
    return answer(PageView[DatasetView](items=items))
