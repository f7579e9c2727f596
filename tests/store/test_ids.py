"""RFC 9562 section 5.7."""

import time
import uuid

from gatepost.store.ids import uuid7


def test_version_variant_and_time() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid7() for _ in range(200)]
    after = time.time_ns() // 1_000_000
    assert len(set(made)) == 200
    for text in made:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
        assert before <= parsed.int >> 80 <= after
