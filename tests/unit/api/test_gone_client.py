"""A reader of a live stream may leave at any time; every other exception is still one."""

import asyncio
from typing import Any

import anyio
import pytest

from orchestrator.api.door.gone_client import GoneClient


def call(error: Exception) -> None:
    async def app(*_: Any) -> None:
        raise error

    asyncio.run(GoneClient(app)({"type": "http"}, None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [anyio.BrokenResourceError(), ExceptionGroup("", [anyio.BrokenResourceError()])])
def test_a_reader_that_left_is_no_error(error: Exception) -> None:
    call(error)


def test_a_mistake_of_ours_is_one_also_beside_a_reader_that_left() -> None:
    with pytest.raises(ValueError, match="ours"):
        call(ValueError("ours"))
    with pytest.raises(ExceptionGroup) as caught:
        call(ExceptionGroup("", [anyio.BrokenResourceError(), ValueError("ours")]))
    assert [type(one) for one in caught.value.exceptions] == [ValueError]
