"""The draft of a configuration and publishing over a known version, on both engines: an older revision is refused."""

import asyncio

from gatepost.store.audit import Actor
from gatepost.store.publishing import DraftContent, VersionContent
from gatepost.store.store import Store

ROOT = Actor("user", "root", "1")


async def test_of_two_versions_at_once_one_is_published(store: Store) -> None:
    content = VersionContent({"guard.yml": {}}, {})
    both = await asyncio.gather(*(store.publishing.publish(0, content, "r", ROOT) for _ in range(3)))
    assert len([each for each in both if each]) == 1
    assert await store.publishing.publish(0, content, "r", ROOT) is None
    assert (await store.publishing.rollout()).wanted == 1
    draft = DraftContent({"guard.yml log.level": "info"}, {"": "text"})
    assert await store.publishing.put_draft(draft, 1, 0, ROOT)
    assert not await store.publishing.put_draft(draft, 1, 0, ROOT), "there is one already"
    found = await store.publishing.draft()
    assert found
    assert (found.revision, found.base, found.content, found.modified_by) == (1, 1, draft, "user:root")
    saved = await asyncio.gather(*(store.publishing.put_draft(DraftContent(), 1, 1, ROOT) for _ in range(3)))
    assert sorted(saved) == [False, False, True]
    assert not await store.publishing.discard_draft(1, ROOT)
    assert await store.publishing.discard_draft(2, ROOT)
    assert await store.publishing.draft() is None
    await store.publishing.dismiss_item("mail", ROOT)
    await store.publishing.dismiss_item("mail", ROOT)
    assert await store.publishing.dismissed_items() == {"mail"}
