"""Work on many messages and saved searches on both engines: whose they are, how far they came, and who does them."""

from gatepost.ids import new_id
from gatepost.store.bulk_actions import MAX_ITEMS, MAX_KEPT
from gatepost.store.store import Store
from gatepost.store.users import MAX_SEARCHES


async def test_work_is_claimed_once_and_continued_behind_its_results(store: Store) -> None:
    user, items = new_id(), [new_id() for _ in range(3)]
    work = await store.bulk_actions.create(user, "delete", items)
    assert (work.items, work.results, work.finished, work.lease) == (tuple(items), (), None, 0)
    assert await store.bulk_actions.find(work.id, new_id()) is None
    assert await store.bulk_actions.claim(work.id)
    assert not await store.bulk_actions.claim(work.id)
    await store.bulk_actions.add_results(work.id, ["", "it is no longer held"])
    half = await store.bulk_actions.find(work.id, user)
    assert half
    assert half.finished is None
    assert (half.succeeded, half.failed) == ((items[0],), ((items[1], "it is no longer held"),))
    await store.bulk_actions.add_results(work.id, [""])
    done = await store.bulk_actions.find(work.id, user)
    assert done
    assert done.finished is not None
    assert len(done.results) == 3
    await store.bulk_actions.add_results(work.id, ["late"])
    assert await store.bulk_actions.find(work.id, user) == done, "what is finished does not change"
    assert not await store.bulk_actions.claim(work.id)


async def test_work_is_bounded(store: Store) -> None:
    work = await store.bulk_actions.create(new_id(), "delete", ["x"] * (MAX_ITEMS + 1))
    assert len(work.items) == MAX_ITEMS


async def test_a_user_has_so_many_records_and_work_that_goes_on_is_kept(store: Store) -> None:
    ann, bob = new_id(), new_id()
    others = await store.bulk_actions.create(bob, "delete", ["x"])
    running = await store.bulk_actions.create(ann, "delete", ["x"])
    assert await store.bulk_actions.claim(running.id)
    made = [(await store.bulk_actions.create(ann, "delete", ["x"])).id for _ in range(MAX_KEPT + 5)]
    left = [uid for uid in made if await store.bulk_actions.find(uid, ann)]
    assert left == made[-MAX_KEPT:]
    assert await store.bulk_actions.find(running.id, ann)
    assert await store.bulk_actions.find(others.id, bob)


async def test_saved_searches_belong_to_their_user(store: Store) -> None:
    ann, bob = new_id(), new_id()
    assert await store.users.save_search(ann, "/messages", "Bank", "q=bank.example")
    assert await store.users.save_search(ann, "/messages", "Bank", "q=bank.test")
    assert await store.users.save_search(ann, "/quarantine", "\0 \ud800", "q=x")
    mine = await store.users.saved_searches(ann)
    assert [(each.page, each.query) for each in mine] == [("/messages", "q=bank.test"), ("/quarantine", "q=x")]
    assert await store.users.saved_searches(bob) == ()
    assert not await store.users.delete_search(mine[0].id, bob)
    assert await store.users.delete_search(mine[0].id, ann)
    for number in range(MAX_SEARCHES - 1):
        assert await store.users.save_search(ann, "/messages", f"s{number}", "q=x")
    assert not await store.users.save_search(ann, "/messages", "one more", "q=x")
    assert await store.users.save_search(ann, "/messages", "s0", "q=y"), "one that is there can be changed"
