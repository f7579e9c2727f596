from uuid import UUID

import pytest

from gatepost.ids import canonical, id_prefix, id_time, new_id

NOON = 1_700_000_000_123_456_789


def test_a_new_id_is_a_uuid_of_version_7() -> None:
    uid = UUID(new_id())
    assert (uid.version, uid.variant) == (7, "specified in RFC 4122")
    assert str(uid) == str(uid).lower()


def test_ids_sort_by_time_within_a_millisecond() -> None:
    ids = [new_id(NOON + step * 1000) for step in range(500)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 500
    assert id_time(ids[0]) == NOON // 1_000_000


def test_ids_of_one_moment_differ() -> None:
    assert len({new_id(NOON) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0198C5A2-7C11-7D3E-9F00-00000000AA01", "0198c5a2-7c11-7d3e-9f00-00000000aa01"),
        ("0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa01"),
        ("0198c5a27c117d3e9f0000000000aa01", None),
        ("{0198c5a2-7c11-7d3e-9f00-00000000aa01}", None),
        ("0198c5a2-7c11-7d3e-9f00-00000000aa01\n", None),
        ("0198c5a2-7c11-7d3e-9f00-00000000aa0g", None),
        ("", None),
    ],
)
def test_uuids_of_clients(text: str, expected: str | None) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0198C5A2", "0198c5a2"),
        ("0198c5a2-", "0198c5a2"),
        ("0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa01"),
        ("0198c5a27c117d3e9f0000000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa01"),
        ("0198c5a27c11…", "0198c5a2-7c11"),
        ("0198c5a2-7...", "0198c5a2-7"),
        ("0198c5a", None),
        ("0198c5a2--7c11", None),
        ("0198-c5a27c11", None),
        ("0198c5a2-7c117d3e", None),
        ("0198c5a2%", None),
        ("0198c5a2_", None),
        ("٠١٩٨٠١٩٨", None),
        ("0198c5a2" * 5, None),
        ("-" * 100_000, None),
        ("0198c5a2\0", None),
        ("", None),
    ],
)
def test_beginnings_of_ids(text: str, expected: str | None) -> None:
    assert id_prefix(text) == expected
