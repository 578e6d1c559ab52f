"""The contract of the store: tokens and the audit trail. On SQLite and on PostgreSQL."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.around import access
from orchestrator.domain.around.access import Actor, Deed, Scope, Session, Token
from orchestrator.domain.words.errors import Conflict, InvalidRequest, NotFound
from orchestrator.services import tokens
from orchestrator.services.clock import SystemClock, new_id

pytest_plugins = ["tests.contract.store_servers"]
ROOT = Actor("root", Scope.ADMIN, None, "(database)")


def a_token(number: int = 1, **fields: object) -> Token:
    values = {"id": new_id("tok"), "name": f"t{number}", "owner": "ada", "scope": Scope.SUBMIT}
    return Token(**values | {"secret_sha256": access.digest("s"), "created_at": float(number)} | fields)  # type: ignore[arg-type]


def a_deed(number: int = 1, who: str = "ada", target: str = "exp_1") -> Deed:
    return Deed(new_id("deed"), float(number), who, "tok_1", "10.0.0.1", "submit", target)


def test_a_token_comes_back_as_it_was_stored(store: SqlStore) -> None:
    new = a_token(expires_at=5000.0)
    store.add_token(new, a_deed(target=new.id))
    assert store.all_tokens().items == [new]
    assert store.tokens().items == [new]
    assert [deed.target for deed in store.deeds().items] == [new.id]


def test_tokens_are_paged_newest_first(store: SqlStore) -> None:
    made = [a_token(number) for number in range(5)]
    for one in made:
        store.add_token(one, a_deed())
    first = store.tokens(limit=3)
    rest = store.tokens(limit=3, cursor=first.next_cursor)
    assert [*first.items, *rest.items] == made[::-1]
    assert rest.next_cursor is None
    assert store.all_tokens().items == made


def test_a_token_is_revoked_once_and_the_first_time_stays(store: SqlStore) -> None:
    new = a_token()
    store.add_token(new, a_deed())
    assert store.revoke_token(new.id, 50.0, a_deed(2, "bob", new.id)).revoked_at == 50.0
    assert store.revoke_token(new.id, 60.0, a_deed(3, "eve", new.id)).revoked_at == 50.0
    assert [deed.who for deed in store.deeds(target=new.id).items] == ["bob"]  # what was done once is told once


def test_what_is_refused_leaves_no_deed(store: SqlStore) -> None:
    with pytest.raises(NotFound, match="tok_nobody"):
        store.revoke_token("tok_nobody", 1.0, a_deed())
    new = a_token()
    store.add_token(new, a_deed(1))
    with pytest.raises(Conflict):  # the same id again
        store.add_token(new, a_deed(2))
    assert len(store.deeds().items) == 1


def test_a_session_comes_back_until_it_is_over_or_ended_and_a_token_has_so_many(store: SqlStore) -> None:
    token = a_token()
    store.add_token(token, a_deed())
    made = [Session(new_id("ses"), token.id, access.digest("s"), float(k), 100.0 + k) for k in range(5)]
    for one in made[:3]:
        store.add_session(one, 2, a_deed())
    assert {one.id for one in store.sessions(50.0)} == {one.id for one in made[1:3]}  # of three the oldest is gone
    assert store.sessions(101.5) == [made[2]]
    store.end_session(made[2].id)
    store.end_session("ses_nobody")
    assert store.sessions(50.0) == [made[1]]
    late = replace(made[3], created_at=101.0)
    store.add_session(late, 2, a_deed())
    assert store.sessions(0.0) == [late]  # what was over went
    with pytest.raises(Conflict):
        store.add_session(replace(made[4], token_id="tok_nobody"), 2, a_deed(2, "eve"))
    assert "eve" not in [deed.who for deed in store.deeds().items]


def test_the_last_use_is_noted(store: SqlStore) -> None:
    first, second = a_token(1), a_token(2)
    for one in (first, second):
        store.add_token(one, a_deed())
    store.note_use([first.id], 77.0)
    assert [one.last_used_at for one in store.all_tokens().items] == [77.0, None]


def test_deeds_are_paged_newest_first_by_who_and_by_target(store: SqlStore) -> None:
    for number in range(4):
        store.add_token(a_token(number), a_deed(number, "ada" if number % 2 else "bob", f"exp_{number // 2}"))
    first = store.deeds(limit=3)
    rest = store.deeds(limit=3, cursor=first.next_cursor)
    assert [deed.at for deed in (*first.items, *rest.items)] == [3.0, 2.0, 1.0, 0.0]
    assert [deed.at for deed in store.deeds(who="ada").items] == [3.0, 1.0]
    assert [deed.at for deed in store.deeds(target="exp_1").items] == [3.0, 2.0]
    assert [deed.at for deed in store.deeds(who="ada", target="exp_1").items] == [3.0]
    assert store.deeds(limit=1).items == [store.deeds().items[0]]
    assert (first.items[0].token_id, first.items[0].address, first.items[0].action) == ("tok_1", "10.0.0.1", "submit")


def test_a_made_token_matches_its_text_and_the_database_has_no_secret(sqlite_url: str) -> None:
    store = SqlStore(sqlite_url)
    token, text = tokens.add(store, SystemClock(), {"name": "ada", "scope": "admin"}, ROOT)
    shown = access.presented(text)
    store.close()
    assert shown is not None
    assert shown.id == token.id
    assert token.matches(shown.secret)
    assert token.expires_at == pytest.approx(token.created_at + 90 * 86400)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    written = b"".join(part.read_bytes() for part in path.parent.glob(f"{path.name}*"))
    assert shown.id.encode() in written
    assert shown.secret.encode() not in written


def test_two_tokens_of_an_owner_follow_each_other_and_a_name_revokes_the_only_usable_one(store: SqlStore) -> None:
    clock = SystemClock()
    old, _ = tokens.add(store, clock, {"name": "ada"}, ROOT)
    new, _ = tokens.add(store, clock, {"name": "ada", "owner": "ada"}, ROOT)
    with pytest.raises(InvalidRequest, match=f"{old.id}, {new.id}"):
        tokens.revoke(store, clock, "ada", ROOT)
    assert tokens.revoke(store, clock, old.id, ROOT).revoked_at is not None
    assert tokens.revoke(store, clock, "ada", ROOT).id == new.id
    with pytest.raises(NotFound, match="usable token 'ada'"):
        tokens.revoke(store, clock, "ada", ROOT)
    assert [deed.action for deed in store.deeds().items] == [*["token revoke"] * 2, *["token add submit"] * 2]
    assert not tokens.has_usable_admin(store, clock)


@pytest.mark.parametrize(
    "body",
    [
        *(None, [], {}, {"name": ""}, {"name": "a b"}, {"name": "(removing)"}, {"name": "a", "scope": "root"}),
        *({"name": "a", "expires_days": 0}, {"name": "a", "expires_days": 1e9}, {"name": "a", "secret": "mine"}),
    ],
)
def test_a_token_that_makes_no_sense_is_refused(sqlite_url: str, body: object) -> None:
    store = SqlStore(sqlite_url)
    try:
        with pytest.raises(InvalidRequest):
            tokens.add(store, SystemClock(), body, ROOT)
        assert store.all_tokens().items == []
    finally:
        store.close()


def test_another_process_sees_a_new_token_while_a_server_has_the_file_open(sqlite_url: str) -> None:
    store = SqlStore(sqlite_url)
    assert store.all_tokens().items == []
    beside = SqlStore(sqlite_url)
    beside.add_token(a_token(), a_deed())
    beside.close()
    assert len(store.all_tokens().items) == 1
    store.close()
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("SELECT count(*) FROM token").fetchone() == (1,)
    connection.close()
