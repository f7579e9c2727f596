"""Pages that cost much run so many times at once: for a user, for a tenant, and in all."""

from typing import Any

import pytest

from gatepost.api.call_limits import LIMITS, CallKind, CallLimit

PAGES: list[tuple[CallKind, str, str, dict[str, Any]]] = [
    ("search", "GET", "/messages", {}),
    ("search", "GET", "/quarantine", {}),
    ("search", "GET", "/lists/{tenant}/blocked-urls", {}),
    ("search", "GET", "/lists/{tenant}/blocked-urls/history", {}),
    ("search", "GET", "/audit", {}),
    ("policy trial", "POST", "/policy", {"text": ""}),
    ("dry run", "POST", "/lists/{tenant}/blocked-urls/preview", {"lines": "a.example"}),
    ("dry run", "POST", "/lists/{tenant}/blocked-urls/delete", {"key": "a.example"}),
]


@pytest.mark.parametrize(("kind", "method", "path", "form"), PAGES)
def test_over_a_limit_it_is_429(
    site: Any,
    tenant: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: CallKind,
    method: str,
    path: str,
    form: dict[str, Any],
) -> None:
    visitor, path = site.visitor(tenant=tenant), path.format(tenant=tenant)

    def ask() -> Any:
        return visitor.get(path) if method == "GET" else visitor.post(path, form)

    for limit, status in ((CallLimit(9, 0, 9), 429), (CallLimit(9, 9, 0), 429), (CallLimit(0, 9, 9), 503)):
        monkeypatch.setitem(LIMITS, kind, limit)
        refused = ask()
        assert (refused.status_code, refused.headers["retry-after"]) == (status, "5" if status == 429 else "10")
    monkeypatch.setitem(LIMITS, kind, CallLimit(1, 1, 1))
    for _ in range(3):
        assert ask().status_code not in (429, 503), "each call makes room for the next"
