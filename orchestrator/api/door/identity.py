"""Who asks, for routers."""

from typing import Annotated

from fastapi import Depends

from orchestrator.api.door.access import actor_of_request
from orchestrator.domain.around.access import Actor

Who = Annotated[Actor, Depends(actor_of_request)]
