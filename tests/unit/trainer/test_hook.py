"""The hook of ``tbd exec`` by itself: who is listened to on its control channel, and how large a batch is."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers.node import port_choice, stop_channel
from workers.trainer import hook


def said(address: tuple[str, int], line: bytes) -> socket.socket:
    connection = socket.create_connection(address)
    connection.sendall(line + b"\n")
    return connection


@pytest.mark.parametrize("line", [b"garbage", b"[]", b'{"token": "another", "role": "agent"}', b'{"stop": "now"}'])
def test_a_stranger_on_the_control_channel_commands_nothing_and_the_agent_is_obeyed(line: bytes) -> None:
    address = ("127.0.0.1", port_choice.free_port())
    channel = hook.Channel(address, "secret", 0, 1)
    with said(address, line + b'\n{"stop": "stranger"}'):
        for turn in range(20):
            assert channel.turn(turn, {"go": 5}) == {"go": 5}
    job = {"token": "secret", "control": {"host": address[0], "port": address[1]}}
    assert stop_channel.send_stop(job, "length")
    orders = [channel.turn(turn, {"go": 5}) for turn in range(3)]
    assert orders[-1]["stop"] == "length"


def test_a_rank_that_has_gone_is_named() -> None:
    address = ("127.0.0.1", port_choice.free_port())
    channel = hook.Channel(address, "secret", 0, 2)
    said(address, json.dumps({"token": "secret", "rank": 1}).encode()).close()
    with pytest.raises(hook.TroubleError, match="rank 1 has gone"):
        channel.turn(3, {"go": 5})


def tensor(*shape: int) -> Any:
    count = 1
    for one in shape:
        count *= one
    return SimpleNamespace(shape=shape, numel=lambda: count)


@pytest.mark.parametrize(
    ("batch", "samples", "tokens"),
    [
        (tensor(8, 3, 32, 32), 8, 0),
        ([tensor(4, 2), tensor(4)], 4, 0),
        ((["a", "b"], {"x": [tensor(6)]}), 6, 0),
        ({"labels": tensor(5), "input_ids": tensor(5, 128)}, 5, 640),
        (tensor(), 0, 0),
        ("text", 0, 0),
    ],
)
def test_a_batch_is_as_large_as_its_first_tensor(batch: Any, samples: int, tokens: int) -> None:
    assert hook._size(batch) == (samples, tokens)


class Loader:
    _dataset = ()

    def __next__(self) -> list[int]:
        return [1]


class Tensor:
    def backward(self) -> str:
        return "gradients"


class Optimizer:
    def __init__(self) -> None:
        self.param_groups: list[Any] = []


@pytest.mark.parametrize("place", ["_asked", "_got", "_backward", "_stepping", "_stepped"])
def test_an_error_of_its_own_ends_the_watching_and_not_the_script(place: str, tmp_path: Path) -> None:
    meter, around = hook.Meter(str(tmp_path)), list[Any]()
    torch = hook.Torch(meter)
    torch._torch = SimpleNamespace(is_grad_enabled=lambda: True)
    kinds = {kind.__name__: type(kind.__name__, (kind,), {}) for kind in (Tensor, Optimizer)}
    loader = type("Loader", (Loader,), {})
    telling = dict.fromkeys(("register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"), around.append)
    for look in (torch._see_loaders, torch._see_tensors, torch._see_optimizers):
        look(SimpleNamespace(_BaseDataLoaderIter=loader, **kinds, **telling))

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    setattr(torch, place, broken)
    optimizer = kinds["Optimizer"]()
    for _ in range(2):
        assert next(loader()) == [1]
        assert kinds["Tensor"]().backward() == "gradients"
        for told in around:
            told(optimizer, (), {})
    assert meter.over
    (note,) = (tmp_path / "notes.jsonl").read_text().splitlines()
    assert json.loads(note)["problem"] == "in the hook: RuntimeError: broken"
