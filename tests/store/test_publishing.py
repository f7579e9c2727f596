"""Versions, turns and nodes in storage, on both engines."""

from gatepost.store.audit import Actor, AuditFilter
from gatepost.store.publishing import NodeDetail, VersionContent
from gatepost.store.store import Store
from gatepost.times import now

ANN = Actor("cli", "ann")
CONTENT = VersionContent({"guard.yml": {"mainWorkerCount": 4}}, {"policy/deployment.toml": b"x = 1\n"})
LATER = 60_000


async def test_versions_are_numbered_and_the_last_is_wanted(
    store: Store,
) -> None:
    assert (await store.publishing.rollout()).wanted == 0
    first = await store.publishing.publish(0, CONTENT, "why", ANN)
    second = await store.publishing.publish(1, CONTENT, "again", ANN, origin=1)
    assert first
    assert second
    assert (first.number, second.number, second.actor, second.origin) == (1, 2, "cli:ann", 1)
    assert (await store.publishing.rollout()).wanted == 2
    assert [each.number for each in await store.publishing.history()] == [2, 1]
    found = await store.publishing.find(1)
    assert found
    assert found.content == CONTENT
    assert await store.publishing.find(3) is None
    page = await store.audit.page(AuditFilter(action="config."))
    assert [(each.action, each.count) for each in page.rows] == [("config.rollback", 2), ("config.publish", 1)]


async def test_one_node_has_the_turn_until_it_ends_or_its_time_is_over(
    store: Store,
) -> None:
    assert await store.publishing.take_turn("a", now() + LATER)
    assert not await store.publishing.take_turn("b", now() + LATER)
    assert await store.publishing.take_turn("a", now() - 1)
    assert await store.publishing.take_turn("b", now() + LATER)
    await store.publishing.end_turn("a", "A", 1, "took over")
    assert (await store.publishing.rollout()).holder == "b"
    await store.publishing.end_turn("b", "B", 1, "took over")
    assert (await store.publishing.rollout()).holder == ""


async def test_a_version_that_failed_is_no_longer_wanted(store: Store) -> None:
    await store.publishing.publish(0, CONTENT, "good", ANN)
    await store.publishing.publish(1, CONTENT, "bad", ANN)
    await store.publishing.take_turn("a", now() + LATER)
    await store.publishing.fail_rollout("a", "A", 2, 1, "it broke")
    rollout = await store.publishing.rollout()
    assert (rollout.wanted, rollout.failed, rollout.failed_reason, rollout.holder) == (1, 2, "it broke", "")
    # One that was published meanwhile stays wanted.
    await store.publishing.publish(1, CONTENT, "mended", ANN)
    await store.publishing.fail_rollout("b", "B", 2, 1, "late")
    rollout = await store.publishing.rollout()
    assert (rollout.wanted, rollout.failed) == (3, 0)


async def test_nodes_say_how_they_are_and_are_forgotten(store: Store) -> None:
    await store.publishing.put_node("1", "mx1 guard:9785", NodeDetail(version=1))
    await store.publishing.put_node("1", "mx1 guard:9785", NodeDetail(version=2, error="x\0y"))
    (node,) = await store.publishing.nodes()
    assert (node.name, node.detail.version) == ("mx1 guard:9785", 2)
    assert await store.publishing.restart_all(ANN) == 1
    assert (await store.publishing.rollout()).restart == 1
    assert await store.publishing.forget_node("1", ANN)
    assert not await store.publishing.forget_node("1", ANN)
