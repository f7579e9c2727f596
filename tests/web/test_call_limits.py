"""Pages that cost much run so many times at once: for a user, for a tenant, and in all."""

import asyncio
from typing import Any

import pytest

from gatepost.api.call_limits import LIMITS, CallKind, CallLimit
from gatepost.store.bulk_actions import BulkAction
from gatepost.web.context import AT_ONCE, BulkWork

# A page, or with fields of a form an action.
PAGES: list[tuple[CallKind, str, dict[str, Any]]] = [
    ("search", "/messages", {}),
    ("search", "/quarantine", {}),
    ("search", "/quarantine", {"action": "report", "all": "1"}),
    ("search", "/messages/export?format=csv", {}),
    ("search", "/lists/{tenant}/blocked-urls", {}),
    ("search", "/lists/{tenant}/blocked-urls/history", {}),
    ("search", "/audit", {}),
    ("policy trial", "/policy", {"text": ""}),
    ("dry run", "/lists/{tenant}/blocked-urls/preview", {"lines": "a.example"}),
    ("dry run", "/lists/{tenant}/blocked-urls/delete", {"key": "a.example"}),
]


@pytest.mark.parametrize(("kind", "path", "form"), PAGES)
def test_over_a_limit_it_is_429(
    site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch, kind: CallKind, path: str, form: dict[str, Any]
) -> None:
    visitor, path = site.visitor(tenant=tenant), path.format(tenant=tenant)

    def ask() -> Any:
        return visitor.post(path, form) if form else visitor.get(path)

    for limit, status in ((CallLimit(9, 0, 9), 429), (CallLimit(9, 9, 0), 429), (CallLimit(0, 9, 9), 503)):
        monkeypatch.setitem(LIMITS, kind, limit)
        refused = ask()
        assert (refused.status_code, refused.headers["retry-after"]) == (status, "5" if status == 429 else "10")
    monkeypatch.setitem(LIMITS, kind, CallLimit(1, 1, 1))
    for _ in range(3):
        assert ask().status_code not in (429, 503), "each call makes room for the next"


def test_work_on_many_messages_counts_until_it_ends(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = site.visitor(tenant=tenant)
    held = [site.message(tenant, held=True) for _ in range(AT_ONCE + 1)]
    page = visitor.post("/quarantine", {"action": "release", "ggrid": held}).headers["location"].partition("?")[0]
    monkeypatch.setitem(LIMITS, "bulk action", CallLimit(9, 0, 9))
    assert visitor.post(f"{page}/start").status_code == 429
    assert not set(held) & site.core.sent.keys()
    assert visitor.post(f"/messages/{held[0]}/delete").status_code == 303, "one message is no work on many"
    monkeypatch.setitem(LIMITS, "bulk action", CallLimit(1, 1, 1))
    for _ in range(2):
        assert visitor.post(f"{page}/start").status_code == 303, "what was refused starts later, and counts once"
    assert set(held[1:]) <= site.core.sent.keys()


def test_results_of_long_work_are_stored_in_a_hundred_steps() -> None:
    """Each of them writes the whole record: one for every four of ten thousand messages would write a gigabyte."""

    class Records:
        def __init__(self) -> None:
            self.stored: list[int] = []

        async def claim(self, _uid: str) -> bool:
            return True

        async def add_results(self, _uid: str, results: list[str]) -> None:
            self.stored.append(len(results))

    async def act(_item: str) -> str:
        return ""

    for number in (1, 7, 400, 10_000):
        records: Any = Records()
        work = BulkAction("w", "u", "delete", tuple(map(str, range(number))), (), 0, None, 0)
        asyncio.run(BulkWork().start(records, work, act))
        assert sum(records.stored) == number
        assert len(records.stored) <= 110
