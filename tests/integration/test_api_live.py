"""REST of a real service while real runs live: streams that follow and are resumed, and an orderly stop."""

import http.client
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from orchestrator.cli.rest.client import Client, Event, parse_events
from tests.integration.service_rig import service

SPEC = {
    "name": "live",
    "model": "sleep",
    "framework": "sleep",
    "per_device_batch_size": 1,
    "size": "tiny",
    "repeats": 1,
}
ENDLESS = SPEC | {"min_measure_s": 3600, "options": {"step_time_s": 0.05, "noise_ratio": 0.5}, "max_repeats": 1}
BRIEF = SPEC | {"max_steps": 30, "options": {"step_time_s": 0.01}, "max_repeats": 1}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with service(tmp_path_factory.mktemp("live")) as url:
        yield Client(url)


def follow(client: Client, path: str, last_id: str | None = None) -> Iterator[Event]:
    """One connection to a stream, as an EventSource would open it."""
    parts = urlsplit(client.url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    connection.request("GET", path, headers={"Last-Event-ID": last_id} if last_id else {})
    response = connection.getresponse()
    assert response.status == 200
    try:
        yield from parse_events(response)
    finally:
        connection.close()


def submitted(client: Client, spec: dict[str, Any]) -> tuple[str, str]:
    experiment = client.post("/experiments", spec)["id"]
    return experiment, client.get(f"/experiments/{experiment}/runs")["items"][0]["id"]


@pytest.mark.after_change
def test_a_stream_follows_a_run_while_it_lives_and_goes_on_where_it_was_cut(client: Client) -> None:
    experiment, run = submitted(client, ENDLESS)
    path = f"/api/v1/runs/{run}/events"
    seen = []
    for event in follow(client, path):
        if event.id:
            seen.append(event.id)
        if event.kind == "interval" and len(seen) > 20:
            break
    assert client.get(f"/runs/{run}")["state"] == "running"  # it was watched alive
    client.post(f"/experiments/{experiment}/cancel")
    rest = list(follow(client, path, seen[-1]))
    ids = seen + [event.id for event in rest if event.id]
    assert [int(identifier.rsplit(":", 1)[1]) for identifier in ids] == list(range(1, len(ids) + 1))
    assert rest[-1].kind == "end"
    assert rest[-1].data["state"] == "cancelled"


def test_the_stream_of_an_experiment_ends_with_it(client: Client) -> None:
    experiment, run = submitted(client, BRIEF)
    events = list(follow(client, f"/api/v1/experiments/{experiment}/events"))
    states = [event.data["state"] for event in events if event.kind == "run" and event.data["run_id"] == run]
    assert states[-1] == "completed"
    assert states[0] == "queued"
    assert events[-1].kind == "end"


def test_a_run_can_be_read_through_every_path(client: Client) -> None:
    experiment, run = submitted(client, BRIEF)
    list(follow(client, f"/api/v1/experiments/{experiment}/events"))
    assert client.pages(f"/runs/{run}/intervals")["items"]
    assert client.get(f"/runs/{run}/measurements")["items"]
    assert client.get(f"/runs/{run}")["fingerprint"]["workload"]["model"] == "sleep"
    for what in ("readings", "log", "memory", "kernels", "layers"):
        client.get(f"/runs/{run}/{what}")
    (row,) = client.get(f"/experiments/{experiment}/results")["items"]
    assert row["throughput"] or row["reasons"]["throughput"]


@pytest.mark.after_change
def test_a_server_with_open_streams_stops_in_order(tmp_path: Path) -> None:
    with service(tmp_path) as url:
        client = Client(url)
        _, run = submitted(client, ENDLESS)
        stream = follow(client, f"/api/v1/runs/{run}/events")
        next(stream)
        began = time.monotonic()
    assert time.monotonic() - began < 25
