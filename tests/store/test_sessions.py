"""Who is signed in, and how that ends, on both engines."""

from tests.store.accounts import ROOT, new_analyst

from gatepost.ids import new_id
from gatepost.store.audit import AuditFilter
from gatepost.store.errors import NotFound
from gatepost.store.sessions import MAX_OF_USER, WebSession
from gatepost.store.store import Store
from gatepost.store.users import User

FAR = 1 << 50
IDLE = 1 << 49


async def signed_in(store: Store, user: User, digest: str, expires: int = FAR) -> WebSession:
    session = await store.sessions.create(user.uid, digest, expires, "192.0.2.1", "Browser/1", strong=True)
    assert isinstance(session, WebSession)
    return session


async def test_a_session_is_found_by_its_digest(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    session = await signed_in(store, ann, "d1")
    other = await signed_in(store, ann, "d2")
    assert (session.user, session.address, session.agent, session.strong) == (ann, "192.0.2.1", "Browser/1", True)
    assert len(session.csrf) >= 40
    assert len({session.csrf, other.csrf, session.id, other.id}) == 4
    assert await store.sessions.find("d1", session.created, IDLE) == session
    assert await store.sessions.find("d3", session.created, IDLE) is None
    assert await store.sessions.find(session.id, session.created, IDLE) is None, "the id opens nothing"
    assert {each.id for each in await store.sessions.of_user(ann.uid, session.created)} == {session.id, other.id}
    assert await store.sessions.create(new_id(), "d4", FAR, "", "") == NotFound("user")
    long = await store.sessions.create(ann.uid, "d5", FAR, "a" * 9_999, "b\0" * 9_999)
    assert isinstance(long, WebSession)
    assert len(long.agent) == len(long.address) == 300


async def test_it_ends_at_its_time_or_unused(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    session = await signed_in(store, ann, "d", expires=FAR)
    start = session.created
    assert await store.sessions.find("d", start + 999, idle=1_000)
    assert await store.sessions.find("d", start + 1_000, idle=1_000) is None
    assert await store.sessions.find("d", FAR - 1, idle=FAR)
    assert await store.sessions.find("d", FAR, idle=FAR) is None
    assert await store.sessions.of_user(ann.uid, FAR) == ()


async def test_its_use_is_noted_once_a_minute(store: Store) -> None:
    session = await signed_in(store, await new_analyst(store, "ann"), "d")
    start = session.created
    before = store.counters().changes
    for later in (0, 1, 59_999):
        assert (await store.sessions.find("d", start + later, IDLE)) == session
    assert store.counters().changes == before
    noted = await store.sessions.find("d", start + 60_000, IDLE)
    assert noted
    assert noted.seen == start + 60_000
    assert await store.sessions.find("d", start + 60_001, IDLE) == noted
    assert store.counters().changes == before + 1


async def test_whoever_is_disabled_or_changed_is_signed_out(store: Store) -> None:
    await new_analyst(store, "root")
    ann = await new_analyst(store, "ann")
    now = (await signed_in(store, ann, "1")).created
    await store.users.update(ann.uid, by=ROOT, role="auditor")
    assert await store.sessions.find("1", now, IDLE) is None
    await signed_in(store, ann, "2")
    await store.users.update(ann.uid, by=ROOT, disabled=True)
    assert await store.sessions.find("2", now, IDLE) is None
    assert await store.sessions.create(ann.uid, "3", FAR, "", "") == NotFound("user")
    await store.users.update(ann.uid, by=ROOT, disabled=False)
    assert await store.sessions.find("2", now, IDLE) is None, "it does not come back"
    await signed_in(store, ann, "4")
    await store.users.delete(ann.uid, ROOT)
    assert await store.sessions.find("4", now, IDLE) is None


async def test_a_new_password_ends_all_but_the_one_kept(store: Store) -> None:
    ann, bob = await new_analyst(store, "ann"), await new_analyst(store, "bob")
    kept, _ = await signed_in(store, ann, "1"), await signed_in(store, ann, "2")
    theirs = await signed_in(store, bob, "3")
    await store.users.set_password(ann.uid, "new", ROOT, keep=kept.id)
    assert [each.id for each in await store.sessions.of_user(ann.uid, kept.created)] == [kept.id]
    await store.users.set_password(ann.uid, "newer", ROOT, keep=theirs.id)
    assert await store.sessions.of_user(ann.uid, kept.created) == (), "somebody else's id keeps nothing"
    assert len(await store.sessions.of_user(bob.uid, kept.created)) == 1


async def test_ending(store: Store) -> None:
    ann, bob = await new_analyst(store, "ann"), await new_analyst(store, "bob")
    mine = [await signed_in(store, ann, str(n)) for n in range(3)]
    theirs = await signed_in(store, bob, "b")
    now = theirs.created
    assert not await store.sessions.end(theirs.id, ROOT, user_uid=ann.uid)
    assert await store.sessions.find("b", now, IDLE)
    assert await store.sessions.end(mine[0].id, ROOT, user_uid=ann.uid)
    assert not await store.sessions.end(mine[0].id, ROOT)
    assert await store.sessions.end_all(ann.uid, ROOT, keep=mine[1].id) == 1
    assert [each.id for each in await store.sessions.of_user(ann.uid, now)] == [mine[1].id]
    assert await store.sessions.end_all(new_id(), ROOT) == 0
    assert [
        record.count for record in (await store.audit.page(AuditFilter())).rows if record.action == "session.end"
    ] == [1, 1]


async def test_those_that_are_over_are_purged(store: Store) -> None:
    ann = await new_analyst(store, "ann")
    now = (await signed_in(store, ann, "1")).created
    await signed_in(store, ann, "2", expires=now + 100)
    assert await store.sessions.purge(now + 99, IDLE) == 0
    assert await store.sessions.purge(now + 100, IDLE) == 1
    assert await store.sessions.purge(now + 50_000, 10_000) == 1
    assert await store.sessions.of_user(ann.uid, 0) == ()


async def test_a_user_has_so_many_sessions(store: Store) -> None:
    ann, bob = await new_analyst(store, "ann of many"), await new_analyst(store, "bob of one")
    await signed_in(store, bob, "b")
    for number in range(MAX_OF_USER + 3):
        await signed_in(store, ann, f"s{number}")
    assert len(await store.sessions.of_user(ann.uid, 0)) == MAX_OF_USER
    assert await store.sessions.find(f"s{MAX_OF_USER + 2}", 0, IDLE), "the last one is among them"
    assert len(await store.sessions.of_user(bob.uid, 0)) == 1
