"""Idempotency keys on every POST: the same key and request once, another request under the key refused."""

from tests.unit.api.api_rig import AS_LOG, Rig

KEY = {"Idempotency-Key": "k1"}


def test_a_key_that_cancelled_one_experiment_cancels_no_other(rig: Rig) -> None:
    first, second = rig.submit()["id"], rig.submit()["id"]
    assert rig.http.post(f"/api/v1/experiments/{first}/cancel", headers=KEY).status_code == 202
    refused = rig.http.post(f"/api/v1/experiments/{second}/cancel", headers=KEY)
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:tbd:problem:idempotency-key-reused"
    assert rig.get(f"/experiments/{second}")["cancel_requested"] is False


def test_an_order_that_comes_late_again_does_not_undo_what_came_after_it(rig: Rig) -> None:
    assert rig.http.post("/api/v1/nodes/n0/drain", headers=KEY).json()["state"] == "draining"
    rig.http.post("/api/v1/nodes/n0/resume", headers={"Idempotency-Key": "k2"})
    again = rig.http.post("/api/v1/nodes/n0/drain", headers=KEY)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["state"] == "available"


def test_another_log_under_the_same_key_is_refused_before_it_is_read(rig: Rig) -> None:
    first = rig.http.post("/api/v1/ingest", content=b'{"kind": "log_opened"}\n', headers=KEY | AS_LOG)
    assert first.status_code == 422  # it is no log of ours, and the key stays free
    experiment = rig.submit()["id"]
    assert rig.http.post(f"/api/v1/experiments/{experiment}/cancel", headers=KEY).status_code == 202
    other = rig.http.post("/api/v1/ingest", content=b'{"kind": "log_closed"}\n', headers=KEY | AS_LOG)
    assert other.json()["type"] == "urn:tbd:problem:idempotency-key-reused"
