"""Who asks. The one place that decides it."""

from typing import Annotated

from fastapi import Depends

LOCAL = "local"


async def owner_of_request() -> str:
    """The owner of what is created and the only one whose things are shown. Until there are tokens, the server listens
    on loopback and everyone who reaches it is the same person. (async: see ``requests``.)"""
    return LOCAL


Owner = Annotated[str, Depends(owner_of_request)]
