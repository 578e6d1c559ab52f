"""What schemathesis is taught about this API: how a log is sent, and what a refusal has to say."""

import os
from itertools import count
from typing import Any

import schemathesis

from orchestrator.api.door.access import NEEDED
from orchestrator.domain.around.access import Scope

RUNS = os.environ.get("TBD_FUZZ_RUNS", "").split()
SCOPE = os.environ.get("TBD_FUZZ_SCOPE", "")  # of the token that is presented, if one is
OWN = os.environ.get("TBD_FUZZ_TOKEN_ID", "").split()  # the id and the name of that token
FILE_TYPES = ("application/jsonl", "application/x-ndjson", "application/x-tar")


@schemathesis.serializer(*FILE_TYPES)
def as_file(ctx: Any, value: Any) -> bytes:
    """A log, or an archive, is sent as it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


_calls = count()


@schemathesis.hook
def before_call(ctx: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Of the calls that a random value would stop at the door, every second one is let in: it compares runs that are
    there, and its idempotency key was never used."""
    parameters = case.path_parameters or {}
    if parameters.get("token_id") in OWN:  # it would saw off the branch that it sits on
        parameters["token_id"] = "nobody"
    if next(_calls) % 2:
        return
    for name in ("baseline", "candidate"):
        if RUNS and isinstance((case.query or {}).get(name), str):
            case.query[name] = RUNS[len(case.query[name]) % len(RUNS)]
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 0 < len(key) < 200:
        case.headers["Idempotency-Key"] = f"{key}-{next(_calls)}"


@schemathesis.check
def a_refusal_is_a_problem_that_says_what_is_wrong(ctx: Any, response: Any, case: Any) -> None:
    """Every error is problem+json; one of a request (422) points at each thing that is wrong, or names its kind."""
    if response.status_code < 400 or case.method.upper() == "HEAD":
        return
    assert response.headers["content-type"] == ["application/problem+json"], response.headers["content-type"]
    document = response.json()
    assert document["status"] == response.status_code
    assert document["detail"], "a problem without a text"
    if response.status_code == 422:
        reused = document["type"] == "urn:tbd:problem:idempotency-key-reused"
        assert reused or document["errors"], "a refusal that points at nothing"


@schemathesis.check
def nobody_reaches_beyond_their_scope(ctx: Any, response: Any, case: Any) -> None:
    """What needs a wider scope is refused; with no tokens on the server nobody is asked for one."""
    if not SCOPE:
        assert response.status_code not in (401, 403), response.status_code
        return
    needed = NEEDED.get((case.method.upper(), case.operation.path.removeprefix("/api/v1")))
    if needed is not None and not Scope(SCOPE).covers(needed):
        assert 400 <= response.status_code < 500, f"{SCOPE} got {response.status_code}"
