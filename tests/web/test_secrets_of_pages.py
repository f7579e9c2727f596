"""What is defined on pages can have a key in its address: who may not change it sees none of it, nor does the audit
trail, which also goes out as events."""

from typing import Any

import pytest
from tests.web.routes import CLOSED

from gatepost.settings.events import WebAlert
from gatepost.settings.feeds import WebFeed
from gatepost.store.audit import CLI, AuditFilter

MARK = "Xq7marker"
# The pages of those who may change the address, which is the value of a field there.
EDITING = ("/feeds/edit", "/alerts", "/alerts/edit")


@pytest.fixture(scope="module")
def defined(site: Any) -> None:
    for number, url in enumerate((f"https://a.example/{MARK}/x", f"https://a.example/x?token={MARK}")):
        feed = WebFeed("blocked-urls", url=url, credentials_file=f"{number}.key")
        made = site.run(site.store.feeds.put_definition(f"feed-{number}", feed, 0, CLI, paused=True))
        changed = site.run(site.store.feeds.put_definition(f"feed-{number}", feed, made.modified, CLI, paused=False))
        assert not isinstance(changed, str)
        alert = WebAlert(kinds=("message.held",), url=url)
        assert not isinstance(site.run(site.store.alerts.put(f"alert-{number}", alert, 0, CLI)), str)
    gone = WebFeed("blocked-urls", url=f"https://a.example/{MARK}")
    site.run(site.store.feeds.put_definition("gone", gone, 0, CLI, paused=True))
    assert not isinstance(site.run(site.store.feeds.delete_definition("gone", CLI)), str)


@pytest.mark.usefixtures("defined")
def test_the_audit_trail_has_no_key_of_an_address(site: Any) -> None:
    trail = site.run(site.store.audit.page(AuditFilter(), limit=1_000)).rows
    told = [record for record in trail if record.action.startswith(("feed.", "alert."))]
    assert len(told) >= 8
    assert MARK not in str(trail)
    assert "a.example/(hidden)" in str(told)


@pytest.mark.usefixtures("defined")
@pytest.mark.parametrize("role", ["auditor", "analyst", "administrator"])
def test_no_page_shows_one(site: Any, role: str) -> None:
    visitor, opened = site.visitor(role), 0
    for row in CLOSED:
        if row.method == "GET" and "{" not in row.path and not (role == "administrator" and row.path in EDITING):
            answer = visitor.get(row.path)
            assert MARK not in answer.text, row.path
            opened += answer.status_code == 200
    assert opened > 10
