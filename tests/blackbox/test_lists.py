"""The List API over real HTTPS, on both engines: every rule, every error, and that scopes are kept apart."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from tests.blackbox.conftest import error

from gatepost.api.call_limits import LIMITS, CallLimit
from gatepost.lists.catalogue import LISTS, make_custom_list
from gatepost.store.audit import CLI
from gatepost.store.errors import StorageError
from gatepost.times import now

BASE = "/api/public/lists/v1"
OPERATIONS = ("addEntries", "deleteEntries", "getLists", "listEntries")
NOBODY = "0198c5a2-7c11-7d3e-9f00-00000000dead"
LIMIT = 8 << 20
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def added(lists: Any, name: str, *entries: Any, **options: Any) -> int:
    stated = [entry if isinstance(entry, dict) else {"entry": entry} for entry in entries]
    response = lists.call("addEntries", {"listName": name, "entries": stated, **options})
    assert response.status_code == 200, response.text
    assert set(response.json()) == {"modifiedEntries"}
    return int(response.json()["modifiedEntries"])


def deleted(lists: Any, name: str, *entries: str, **options: Any) -> int:
    response = lists.call("deleteEntries", {"listName": name, "entries": list(entries), **options})
    assert response.status_code == 200, response.text
    return int(response.json()["modifiedEntries"])


def names(lists: Any, name: str, tenant: str | None = None) -> list[str]:
    return [line["entry"] for line in lists.entries(name, tenant)]


def sound(operation: str, tenant: str | None = None) -> dict[str, Any]:
    """A body that is right for this operation."""
    body: dict[str, Any] = {"tenantUid": tenant}
    if operation != "getLists":
        body["listName"] = "blocked-senders"
    if operation == "addEntries":
        body["entries"] = [{"entry": "sound@example.com", "comment": "c"}]
    if operation == "deleteEntries":
        body["entries"] = ["sound@example.com"]
    return body


def test_an_existing_entry_is_updated_and_counts(lists: Any, tenant: str) -> None:
    first = {"entry": "Ann@Example.COM", "comment": "one", "expires": "2040-01-01T00:00:00+01:00"}
    assert added(lists, "blocked-senders", first, "b@example.com", tenantUid=tenant) == 2
    (before, other) = lists.entries("blocked-senders", tenant)
    assert list(before) == ["entry", "comment", "created", "modified", "modifiedBy", "expires", "hits", "lastHit"]
    assert before["entry"] == "ann@example.com"
    assert before["expires"] == "2039-12-31T23:00:00.000Z"
    assert (before["hits"], before["lastHit"], before["modifiedBy"]) == (0, None, "key:test")
    assert (other["comment"], other["expires"]) == ("", None)
    assert TIME.fullmatch(before["created"])
    assert added(lists, "blocked-senders", {"entry": "<ann@example.com>", "comment": "two"}, tenantUid=tenant) == 1
    (after, _) = lists.entries("blocked-senders", tenant)
    assert (after["comment"], after["expires"], after["created"]) == ("two", None, before["created"])
    assert after["modified"] >= before["modified"]


def test_the_same_entry_twice_counts_once_and_the_last_wins(lists: Any, tenant: str) -> None:
    one, two = {"entry": "x.example", "comment": "first"}, {"entry": "X.EXAMPLE.", "comment": "last"}
    assert added(lists, "blocked-urls", one, two, tenantUid=tenant) == 1
    assert [line["comment"] for line in lists.entries("blocked-urls", tenant)] == ["last"]
    assert deleted(lists, "blocked-urls", "x.example", "http://X.example/", tenantUid=tenant) == 1


def test_a_delete_ignores_what_is_absent_and_refuses_nothing(lists: Any, tenant: str) -> None:
    added(lists, "blocked-ips", "192.0.2.0/24", "2001:db8::/32", tenantUid=tenant)
    strange = ["", "*", "\0", "not an ip", "x" * 5000, "\U0001f4a9", "0.0.0.0/0"]
    assert deleted(lists, "blocked-ips", *strange, tenantUid=tenant) == 0
    assert deleted(lists, "blocked-ips", *strange, "192.0.2.77/24", "192.0.2.9/24", tenantUid=tenant) == 1
    assert names(lists, "blocked-ips", tenant) == ["2001:db8::/32"]
    assert deleted(lists, "blocked-ips", tenantUid=tenant) == 0


@pytest.mark.parametrize(
    ("name", "entry", "normal"),
    [
        ("blocked-senders", "*.BÜCHER.example", "*.xn--bcher-kva.example"),
        ("blocked-ips", "::ffff:192.0.2.1", "192.0.2.1"),
        ("blocked-urls", "HTTPS://Example.com:8443/A/../B?q=1#f", "example.com:8443/B?q=1"),
        ("blocked-files", "AB" * 32, "ab" * 32),
        ("blocked-file-types", "*.EXE", "exe"),
        ("blocked-file-names", "Invoice**.ISO", "invoice*.iso"),
        ("blocked-phrases", "Überweisung  HEUTE", "uberweisung heute"),
        ("own-domains", "Example.COM.", "example.com"),
        ("protected-people", "Ánn Example <ANN@example.com>", "Ánn Example <ann@example.com>"),
        ("protected-names", "Exämple  Bank <B.example, A.example>", "Exämple Bank <a.example, b.example>"),
    ],
)
def test_entries_are_stored_in_their_normal_form(lists: Any, tenant: str, name: str, entry: str, normal: str) -> None:
    assert added(lists, name, entry, normal, tenantUid=tenant) == 1
    assert names(lists, name, tenant) == [normal]
    assert deleted(lists, name, entry, tenantUid=tenant) == 1
    assert names(lists, name, tenant) == []


def _varied(count: int, step: int = 7) -> str:
    """Text that no compression makes short."""
    return "".join(chr(0x4E00 + number * number * step % 20_000) for number in range(count))


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("blocked-urls", "example.com/" + _varied(980)),
        ("blocked-phrases", _varied(999) + "x"),
        ("blocked-phrases", "\ufdfa" * 999 + "x"),
        ("blocked-senders", _varied(980) + "@example.com"),
        ("protected-people", _varied(400) + " <" + _varied(300) + "@example.com>"),
    ],
)
def test_the_longest_entries_are_kept_whole(lists: Any, tenant: str, name: str, entry: str) -> None:
    """A thousand characters are allowed, however long their normal form gets; two that differ at the end are two."""
    other = entry.replace("example.com", "example.net") if "@" in entry else entry[:-1] + "y"
    assert added(lists, name, entry, other, entry, tenantUid=tenant) == 2
    found = names(lists, name, tenant)
    assert len(set(found)) == 2
    assert min(len(each.encode()) for each in found) > 2_000
    assert deleted(lists, name, entry, tenantUid=tenant) == 1
    assert deleted(lists, name, entry, tenantUid=tenant) == 0
    assert deleted(lists, name, other, tenantUid=tenant) == 1


def test_long_phrases_are_in_order(lists: Any, tenant: str) -> None:
    every = [f"{_varied(990)} {number:03}" for number in range(20)]
    added(lists, "blocked-phrases", *every[::-1], tenantUid=tenant)
    assert names(lists, "blocked-phrases", tenant) == every


def test_get_lists_has_every_list_of_the_table(lists: Any, tenant: str) -> None:
    for scope in (None, tenant):
        infos = lists.call("getLists", {"tenantUid": scope}).json()["listFileInfos"]
        assert [info["listName"] for info in infos][: len(LISTS)] == [definition.name for definition in LISTS]
        assert all(set(info) == {"listName", "listInfo"} for info in infos)
        assert all(list(i["listInfo"]) == ["displayName", "category", "description", "maxSize"] for i in infos)
    sizes = {info["listName"]: info["listInfo"]["maxSize"] for info in infos}
    assert (sizes["blocked-urls"], sizes["own-domains"]) == (10_000_000, 100_000)


def test_a_custom_list_is_its_scopes_own(lists: Any, tenant: str) -> None:
    small = make_custom_list("ioc-feed", "url", "block", "IOC feed", "From the feed", 3)
    lists.run(lists.store.lists.create(tenant, small, CLI))
    assert added(lists, "ioc-feed", "a.example", "b.example", tenantUid=tenant) == 2
    infos = lists.call("getLists", {"tenantUid": tenant}).json()["listFileInfos"]
    about = {"displayName": "IOC feed", "category": "block", "description": "From the feed", "maxSize": 3}
    assert infos[-1] == {"listName": "ioc-feed", "listInfo": about}
    body = {"listName": "ioc-feed", "entries": [{"entry": "c.example"}, {"entry": "d.example"}], "tenantUid": tenant}
    for extra in ({}, {"dryRun": True}):
        response = lists.call("addEntries", body | extra)
        assert error(response) == (409, "list_full")
    assert names(lists, "ioc-feed", tenant) == ["a.example", "b.example"]
    assert added(lists, "ioc-feed", "b.example", "c.example", tenantUid=tenant) == 2
    other = lists.new_tenant()
    for scope in (None, other):
        assert error(lists.call("listEntries", {"listName": "ioc-feed", "tenantUid": scope})) == (404, "list_not_found")


def test_entries_are_in_the_order_of_code_points(lists: Any, tenant: str) -> None:
    wanted = ["Zoë <a@x.example>", "ann <a@x.example>", "Ärzte <a@x.example>", "\U0001f600 <a@x.example>"]
    added(lists, "protected-people", *wanted, tenantUid=tenant)
    found = names(lists, "protected-people", tenant)
    assert found == sorted(found, key=lambda text: [ord(character) for character in text])
    assert set(found) == set(wanted)


def test_a_long_stream_is_whole(lists: Any, tenant: str) -> None:
    every = [f"host-{number:05}.example" for number in range(5_200)]
    for place in range(0, len(every), 500):
        added(lists, "blocked-urls", *every[place : place + 500], tenantUid=tenant)
    response = lists.call("listEntries", {"listName": "blocked-urls", "tenantUid": tenant})
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.headers["transfer-encoding"] == "chunked"
    assert response.text.endswith("\n")
    assert [json.loads(line)["entry"] for line in response.text.splitlines()] == every


def test_the_scope_is_global_where_no_tenant_is_named(lists: Any, tenant: str) -> None:
    name = f"{tenant[-12:]}.example"
    assert added(lists, "blocked-senders", name) == 1
    assert name in names(lists, "blocked-senders")
    assert names(lists, "blocked-senders", tenant) == []
    assert deleted(lists, "blocked-senders", name, tenantUid=None) == 1
    assert added(lists, "blocked-senders", name, tenantUid=tenant.upper()) == 1
    assert name not in names(lists, "blocked-senders")


def test_the_order_of_checks(lists: Any) -> None:
    """A request with every fault, which are mended one by one."""
    key = lists.new_key(lists.new_tenant())
    wrong: dict[str, Any] = {"Authorization": "Basic x", "Content-Type": "text/plain"}
    large = b" " * (LIMIT + 1)
    assert error(lists.client.get("/api/public/lists/v1/nothing", headers=wrong)) == (404, "not_found")
    response = lists.client.put(f"{BASE}/addEntries", content=large, headers=wrong)
    assert error(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == "POST, OPTIONS"
    response = lists.call("addEntries", large, headers=wrong)
    assert error(response) == (401, "unauthorized")
    assert response.headers["www-authenticate"] == "apikey"
    assert error(lists.call("addEntries", large, key, headers={"Content-Type": "text/plain"}))[0] == 415
    assert error(lists.call("addEntries", large, key)) == (413, "payload_too_large")
    assert error(lists.call("addEntries", b"{", key)) == (400, "malformed_request")
    body: dict[str, Any] = {"listName": "no-such-list", "entries": [{"entry": "*"}], "tenantUid": NOBODY, "x": 1}
    assert error(lists.call("addEntries", body, key)) == (400, "invalid_request")
    del body["x"]
    assert error(lists.call("addEntries", body, key)) == (403, "forbidden")
    assert error(lists.call("addEntries", body)) == (404, "tenant_not_found")
    body["tenantUid"] = lists.new_tenant()
    assert error(lists.call("addEntries", body)) == (404, "list_not_found")
    body["listName"] = "blocked-senders"
    assert error(lists.call("addEntries", body)) == (400, "invalid_entry")
    body["entries"][0]["entry"] = "a@b.example"
    assert lists.call("addEntries", body).json() == {"modifiedEntries": 1}


@pytest.mark.parametrize("scheme", ["apikey", "ApiKey", "APIKEY"])
def test_the_scheme_is_written_in_any_case(lists: Any, scheme: str) -> None:
    assert lists.call("getLists", {}, headers={"Authorization": f"{scheme}  {lists.key}"}).status_code == 200


def test_credentials_that_open_nothing(lists: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.abby.authenticator.FREE_GUESSES", 1_000_000)
    revoked = lists.new_key()
    (key_id,) = [key.id for key in lists.run(lists.store.api_keys.all()) if key.id][-1:]
    lists.run(lists.store.api_keys.revoke(key_id))
    gone = lists.new_tenant()
    orphaned = lists.new_key(gone)
    lists.run(lists.store.tenants.delete(gone))
    presented = [lists.key, f"Bearer {lists.key}", "apikey", f"apikey {lists.key}x", "apikey \xff\xfe"]
    presented += [f"apikey {key}" for key in (revoked, lists.new_key(expires=now() - 1), orphaned)]
    for operation in OPERATIONS:
        for value in presented:
            response = lists.call(operation, sound(operation), headers={"Authorization": value.encode("latin-1")})
            assert error(response) == (401, "unauthorized"), value
            assert response.headers["www-authenticate"] == "apikey"
    twice = [("Authorization", f"apikey {lists.key}")] * 2
    assert lists.client.post(f"{BASE}/getLists", json={}, headers=twice).status_code == 401
    assert lists.client.post(f"{BASE}/getLists", json={}).status_code == 401


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_tenants_key_reaches_nothing_else(lists: Any, operation: str) -> None:
    own, other = lists.new_tenant(), lists.new_tenant()
    added(lists, "blocked-senders", "sound@example.com", tenantUid=other)
    before = names(lists, "blocked-senders", other), names(lists, "blocked-senders")
    key = lists.new_key(own)
    for dry in ({}, {"dryRun": True}) if "entries" in sound(operation) else ({},):
        for scope in (other, other.upper(), NOBODY, None):
            response = lists.call(operation, sound(operation, scope) | dry, key)
            assert error(response) == (403, "forbidden")
            assert "sound@example.com" not in response.text
        absent = sound(operation, own) | dry
        del absent["tenantUid"]
        assert error(lists.call(operation, absent, key)) == (403, "forbidden")
        assert lists.call(operation, sound(operation, own.upper()) | dry, key).status_code == 200
    assert (names(lists, "blocked-senders", other), names(lists, "blocked-senders")) == before


def test_a_read_only_key_reads_and_tries(lists: Any, tenant: str) -> None:
    for key in (lists.new_key(read_only=True), lists.new_key(tenant, read_only=True)):
        for operation in ("addEntries", "deleteEntries"):
            body = sound(operation, tenant)
            assert error(lists.call(operation, body, key)) == (403, "forbidden")
            assert error(lists.call(operation, body | {"dryRun": False}, key)) == (403, "forbidden")
            assert lists.call(operation, body | {"dryRun": True}, key).json()["modifiedEntries"] == 0
        for operation in ("getLists", "listEntries"):
            assert lists.call(operation, sound(operation, tenant), key).status_code == 200
    assert names(lists, "blocked-senders", tenant) == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json; charset=UTF-8", 200),
        ("Application/JSON", 200),
        ("application/json; charset=latin-1", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonx", 415),
        ("", 415),
    ],
)
def test_media_types(lists: Any, tenant: str, operation: str, content_type: str, status: int) -> None:
    response = lists.call(operation, sound(operation, tenant), headers={"Content-Type": content_type})
    assert response.status_code == status
    compressed = {"Content-Encoding": "gzip"}
    assert error(lists.call(operation, sound(operation, tenant), headers=compressed))[0] == 415


def padded(size: int) -> bytes:
    start = b'{"listName": "blocked-senders", "entries": []'
    return start + b" " * (size - len(start) - 1) + b"}"


def test_sizes(lists: Any) -> None:
    assert lists.call("deleteEntries", padded(LIMIT)).status_code == 200
    assert error(lists.call("deleteEntries", padded(LIMIT + 1))) == (413, "payload_too_large")
    streamed = iter([padded(LIMIT + 1)[:LIMIT], b" " * 100_000])
    headers = {"Authorization": f"apikey {lists.key}", "Content-Type": "application/json"}
    response = lists.client.post(f"{BASE}/deleteEntries", content=streamed, headers=headers)
    assert error(response) == (413, "payload_too_large")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff{}", b'{"tenantUid": "\\ud800"}', b"[" * 100_000, b"{} x", b"[" + b"[]," * 200_000]
)
def test_what_is_no_json(lists: Any, operation: str, body: bytes) -> None:
    assert error(lists.call(operation, body)) == (400, "malformed_request")


@pytest.mark.parametrize(
    ("operation", "change", "field"),
    [
        ("addEntries", {"listName": None}, "listName"),
        ("addEntries", {"listName": 5}, "listName"),
        ("addEntries", {"entries": None}, "entries"),
        ("addEntries", {"entries": {}}, "entries"),
        ("addEntries", {"entries": ["a@b.example"]}, "entries[0]"),
        ("addEntries", {"entries": [{"entry": "a@b.example"}, {}]}, "entries[1].entry"),
        ("addEntries", {"entries": [{"entry": None}]}, "entries[0].entry"),
        ("addEntries", {"entries": [{"entry": "x" * 1001}]}, "entries[0].entry"),
        ("addEntries", {"entries": [{"entry": "a.example", "comment": 1}]}, "entries[0].comment"),
        ("addEntries", {"entries": [{"entry": "a.example", "comment": "x" * 1001}]}, "entries[0].comment"),
        ("addEntries", {"entries": [{"entry": "a.example", "expires": "tomorrow"}]}, "entries[0].expires"),
        ("addEntries", {"entries": [{"entry": "a.example", "expires": "2030-13-01T00:00:00Z"}]}, "entries[0].expires"),
        ("addEntries", {"entries": [{"entry": "a.example", "expires": 5}]}, "entries[0].expires"),
        ("addEntries", {"entries": [{"entry": "a.example", "coment": ""}]}, "entries[0].coment"),
        ("addEntries", {"dryRun": "yes"}, "dryRun"),
        ("addEntries", {"dryrun": True}, "dryrun"),
        ("addEntries", {"tenantUID": NOBODY}, "tenantUID"),
        ("deleteEntries", {"entries": [{"entry": "a"}]}, "entries[0]"),
        ("deleteEntries", {"entries": ["a", None]}, "entries[1]"),
        ("deleteEntries", {"tenantUid": ""}, "tenantUid"),
        ("deleteEntries", {"comment": ""}, "comment"),
        ("getLists", {"tenantUid": 5}, "tenantUid"),
        ("getLists", {"tenantUid": "0198c5a2"}, "tenantUid"),
        ("getLists", {"listName": "blocked-senders"}, "listName"),
        ("listEntries", {"tenantUid": NOBODY + "0"}, "tenantUid"),
        ("listEntries", {"limit": 5}, "limit"),
    ],
)
def test_fields(lists: Any, operation: str, change: dict[str, Any], field: str) -> None:
    response = lists.call(operation, sound(operation) | change)
    assert error(response) == (400, "invalid_request")
    assert field in response.json()["message"]


@pytest.mark.parametrize("body", [[], "x", 5, None, True])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_body_is_an_object(lists: Any, operation: str, body: Any) -> None:
    assert error(lists.call(operation, body)) == (400, "invalid_request")


def test_all_faults_are_reported_at_once(lists: Any) -> None:
    entries = [{"entry": 1, "note": 2}, {"comment": 3, "expires": "x"}, *[{}] * 100]
    message = lists.call("addEntries", {"entries": entries, "tenantUid": "x", "extra": 1}).json()["message"]
    for field in ("listName is missing", "entries[0].entry", "entries[0].note", "entries[1].comment", "more"):
        assert field in message
    assert len(message) < 3_000


def test_the_number_of_entries(lists: Any, tenant: str) -> None:
    every = [f"a{number}@example.com" for number in range(501)]
    assert added(lists, "blocked-senders", *every[:500], tenantUid=tenant) == 500
    assert added(lists, "blocked-senders", tenantUid=tenant) == 0
    for operation, entries in (("addEntries", [{"entry": each} for each in every]), ("deleteEntries", every)):
        body = {"listName": "blocked-senders", "entries": entries, "tenantUid": tenant}
        assert error(lists.call(operation, body)) == (400, "too_many_entries")
    assert len(names(lists, "blocked-senders", tenant)) == 500


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("blocked-senders", "*"),
        ("blocked-senders", "com"),
        ("allowed-senders", "github.io"),
        ("blocked-ips", "10.0.0.0/33"),
        ("blocked-ips", "64.0.0.0/4"),
        ("allowed-ips", "192.0.0.0/8"),
        ("blocked-files", "abc"),
        ("blocked-phrases", "ab"),
        ("protected-people", "ann@example.com"),
        ("blocked-senders", ""),
    ],
)
def test_a_refused_entry_is_named_and_nothing_is_applied(lists: Any, tenant: str, name: str, entry: str) -> None:
    good = {
        "blocked-senders": "a@b.example",
        "allowed-senders": "a@b.example",
        "blocked-ips": "192.0.2.1",
        "allowed-ips": "192.0.2.1",
        "blocked-files": "00" * 32,
        "blocked-phrases": "abc",
        "protected-people": "Ann <a@b.example>",
    }[name]
    entries = [{"entry": good}, {"entry": entry}, {"entry": good}]
    response = lists.call("addEntries", {"listName": name, "entries": entries, "tenantUid": tenant})
    assert error(response) == (400, "invalid_entry")
    assert "entries[1]" in response.json()["message"]
    assert "entries[0]" not in response.json()["message"]
    assert names(lists, name, tenant) == []


@pytest.mark.parametrize(
    ("block", "allow", "entry"),
    [
        (400, 400, "*"),
        (400, 400, "com"),
        (400, 400, "co.uk"),
        (400, 400, "*.co.uk"),
        (200, 400, "github.io"),
        (200, 400, "*.github.io"),
        (200, 200, "example.co.uk"),
        (200, 200, "*.example.github.io"),
    ],
)
def test_how_wide_a_name_may_be(lists: Any, tenant: str, block: int, allow: int, entry: str) -> None:
    for kind in ("senders", "urls"):
        for name, status in ((f"blocked-{kind}", block), (f"allowed-{kind}", allow)):
            body = {"listName": name, "entries": [{"entry": entry}], "tenantUid": tenant}
            assert lists.call("addEntries", body).status_code == status, name


@pytest.mark.parametrize(
    ("block", "trust", "allow", "entry"),
    [
        (400, 400, 400, "0.0.0.0/0"),
        (400, 400, 400, "8.0.0.0/7"),
        (200, 200, 400, "9.0.0.0/8"),
        (200, 200, 400, "9.8.0.0/15"),
        (200, 200, 200, "9.8.0.0/16"),
        (200, 200, 200, "10.0.0.0/8"),  # private: one's own business
        (400, 400, 400, "2000::/15"),
        (200, 200, 400, "2a00::/16"),
        (200, 200, 400, "2a00:1400::/31"),
        (200, 200, 200, "2a00:1450::/32"),
        (200, 200, 200, "fc00::/7"),
    ],
)
def test_how_wide_a_network_may_be(lists: Any, tenant: str, block: int, trust: int, allow: int, entry: str) -> None:
    for name, status in (("blocked-ips", block), ("trusted-relays", trust), ("allowed-ips", allow)):
        body = {"listName": name, "entries": [{"entry": entry}], "tenantUid": tenant}
        assert lists.call("addEntries", body).status_code == status, name


def test_an_entry_that_expires_is_gone_at_that_moment(lists: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = {"entry": "a.example", "expires": datetime.fromtimestamp(time.time() + 600, UTC).isoformat()}
    assert added(lists, "blocked-urls", soon, "b.example", tenantUid=tenant) == 2
    assert names(lists, "blocked-urls", tenant) == ["a.example", "b.example"]
    # The service runs in this process, and these are the clocks by which entries expire.
    later = SimpleNamespace(time_ns=lambda: time.time_ns() + 601 * 10**9)
    for module in ("gatepost.times", "gatepost.store.engine"):
        monkeypatch.setattr(f"{module}.time", later)
    assert names(lists, "blocked-urls", tenant) == ["b.example"]
    assert deleted(lists, "blocked-urls", "a.example", tenantUid=tenant) == 0
    assert added(lists, "blocked-urls", "a.example", tenantUid=tenant) == 1
    assert names(lists, "blocked-urls", tenant) == ["a.example", "b.example"]


def test_an_entry_that_has_expired_already_is_refused(lists: Any, tenant: str) -> None:
    assert added(lists, "blocked-urls", "a.example", tenantUid=tenant) == 1
    past = {"entry": "a.example", "expires": "2020-01-01T00:00:00Z"}
    body = {"listName": "blocked-urls", "entries": [{"entry": "b.example"}, past], "tenantUid": tenant}
    for more in ({}, {"dryRun": True}):
        answer = lists.call("addEntries", body | more)
        assert error(answer) == (400, "invalid_entry")
        assert "entries[1].expires" in answer.json()["message"]
    assert names(lists, "blocked-urls", tenant) == ["a.example"]


def test_a_comment_has_at_most_a_thousand_characters_and_null_is_absent(lists: Any, tenant: str) -> None:
    longest = {"entry": "a.example", "comment": "\U0001f600" * 1_000, "expires": None}
    assert added(lists, "blocked-urls", longest, {"entry": "b.example", "comment": None}, tenantUid=tenant) == 2
    assert [line["comment"] for line in lists.entries("blocked-urls", tenant)] == ["\U0001f600" * 1_000, ""]
    for entry in ({"entry": "c.example", "comment": "x" * 1_001}, {"entry": "c.example/" + "x" * 991}):
        answer = lists.call("addEntries", {"listName": "blocked-urls", "entries": [entry], "tenantUid": tenant})
        assert answer.status_code == 400
    assert len(lists.entries("blocked-urls", tenant)) == 2


def test_a_comment_with_nul_is_refused_and_not_changed(lists: Any, tenant: str) -> None:
    stated = [{"entry": "a.example", "comment": "fine"}, {"entry": "b.example", "comment": "x\0y"}]
    answer = lists.call("addEntries", {"listName": "blocked-urls", "entries": stated, "tenantUid": tenant})
    assert error(answer) == (400, "invalid_request")
    assert "entries[1].comment has the character NUL (U+0000) in it" in answer.json()["message"]
    assert names(lists, "blocked-urls", tenant) == []


@pytest.mark.parametrize("name", ["", "no-such-list", "Blocked-Senders", "blocked-senders ", "x" * 5000, "a\0b"])
def test_lists_that_there_are_not(lists: Any, name: str) -> None:
    for operation in ("addEntries", "deleteEntries", "listEntries"):
        assert error(lists.call(operation, sound(operation) | {"listName": name})) == (404, "list_not_found")


def test_tenants_that_there_are_not(lists: Any, tenant: str) -> None:
    lists.run(lists.store.tenants.delete(tenant))
    for operation in OPERATIONS:
        for uid in (NOBODY, tenant):
            assert error(lists.call(operation, sound(operation, uid))) == (404, "tenant_not_found")


@pytest.mark.parametrize("path", ["", "/", "/addEntries/", "/addentries", "/lists", "/openapi"])
def test_other_paths(lists: Any, path: str) -> None:
    assert error(lists.client.post(BASE + path, headers={"Accept": "text/html"})) == (404, "not_found")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_other_methods(lists: Any, operation: str) -> None:
    response = lists.client.get(f"{BASE}/{operation}", headers={"Accept": "text/html"})
    assert error(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == "POST, OPTIONS"


def test_both_documents_need_no_credential(lists: Any) -> None:
    document = lists.client.get(f"{BASE}/openapi.json").json()
    assert set(document["paths"]) == {f"{BASE}/{name}" for name in (*OPERATIONS, "openapi.json")}
    page = lists.client.get("/docs").text
    assert f"{BASE}/addEntries" in page
    assert "/v1/messageQueue/submitEmail" in page


def test_two_clients_at_once_break_no_count_and_no_call(lists: Any, tenant: str) -> None:
    """Each call is whole: whoever looks sees all entries of a call, or none."""
    entries = [f"{number}.example" for number in range(40)]
    additions = {"listName": "blocked-urls", "entries": [{"entry": each} for each in entries], "tenantUid": tenant}
    deletions = {"listName": "blocked-urls", "entries": entries[::-1], "tenantUid": tenant}

    def change(number: int) -> tuple[str, int]:
        operation, body = ("addEntries", additions) if number % 2 else ("deleteEntries", deletions)
        return operation, lists.call(operation, body).json()["modifiedEntries"]

    def look(_number: int) -> int:
        return len(names(lists, "blocked-urls", tenant))

    with ThreadPoolExecutor(6) as pool:
        changes, looks = pool.map(change, range(60)), pool.map(look, range(20))
        assert set(changes) <= {("addEntries", 40), ("deleteEntries", 40), ("deleteEntries", 0)}
        assert set(looks) <= {0, 40}
    (state,) = [each for each in lists.run(lists.store.lists.all(tenant)) if each.definition.name == "blocked-urls"]
    assert state.size == len(names(lists, "blocked-urls", tenant))


def test_a_stream_is_one_snapshot(lists: Any, tenant: str) -> None:
    every = [{"entry": f"{number:04}.example", "comment": "x" * 900} for number in range(6_000)]
    for place in range(0, len(every), 500):
        added(lists, "blocked-urls", *every[place : place + 500], tenantUid=tenant)
    body = {"listName": "blocked-urls", "tenantUid": tenant}
    headers = {"Authorization": f"apikey {lists.key}"}
    with lists.client.stream("POST", f"{BASE}/listEntries", json=body, headers=headers) as response:
        lines = response.iter_lines()
        assert json.loads(next(lines))["entry"] == "0000.example"
        assert deleted(lists, "blocked-urls", *[f"{number:04}.example" for number in range(5_500, 6_000)],
                       tenantUid=tenant) == 500  # fmt: skip
        assert added(lists, "blocked-urls", "zzzz.example", tenantUid=tenant) == 1
        rest = [json.loads(line)["entry"] for line in lines]
    assert len(rest) == 5_999
    assert rest[-1] == "5999.example"


def test_a_stream_that_breaks_has_no_end(lists: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_scope: str | None, _name: str, made: Any) -> Any:
        yield made([("a.example", "a.example", "", 1, 1, "key:x", None, 0, None)])
        raise StorageError("the disk is gone")

    monkeypatch.setattr(lists.store.lists, "stream_rows", broken)
    body = json.dumps({"listName": "blocked-urls", "tenantUid": tenant}).encode()
    head = f"POST {BASE}/listEntries HTTP/1.1\r\nHost: x\r\nAuthorization: apikey {lists.key}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with lists.connect() as connection:
        connection.sendall(head.encode() + body)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    assert b'"entry":"a.example"' in received
    assert not received.endswith(b"0\r\n\r\n")
    assert b"the disk is gone" not in received
    with pytest.raises(httpx.RemoteProtocolError):
        lists.call("listEntries", {"listName": "blocked-urls", "tenantUid": tenant})


def test_storage_that_fails_is_said_and_can_be_tried_again(
    lists: Any, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(scope: str | None, _name: str, _made: Any) -> Any:
        if scope == tenant:
            raise StorageError("secret detail")
        yield b""

    monkeypatch.setattr(lists.store.lists, "stream_rows", broken)
    monkeypatch.setitem(LIMITS, "stream", CallLimit(1, 1, 1))
    for _ in range(2):
        response = lists.call("listEntries", {"listName": "blocked-urls", "tenantUid": tenant})
        assert error(response) == (503, "storage_unavailable")
        assert response.headers["Retry-After"]
        assert "secret" not in response.text


@pytest.mark.variant
def test_readers_that_stay_away_hold_up_nobody(lists: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some may read at once; the next is told to come back, and those who leave make room."""
    monkeypatch.setitem(LIMITS, "stream", CallLimit(in_all=4, per_tenant=4, per_caller=3))
    every = [{"entry": f"{number:04}.example", "comment": "x" * 1_000} for number in range(10_000)]
    for place in range(0, len(every), 500):
        added(lists, "blocked-urls", *every[place : place + 500], tenantUid=tenant)
    body = {"listName": "blocked-urls", "tenantUid": tenant}
    request: dict[str, Any] = {"json": body, "headers": {"Authorization": f"apikey {lists.key}"}}
    with httpx.Client(base_url=lists.url, verify=lists.tls, trust_env=False, limits=httpx.Limits()) as client:
        held = [client.send(client.build_request("POST", f"{BASE}/listEntries", **request), stream=True)
                for _ in range(3)]  # fmt: skip
        response = lists.call("listEntries", body)
        assert error(response) == (429, "rate_limited")
        assert response.headers["retry-after"] == "5"
        monkeypatch.setitem(LIMITS, "stream", CallLimit(in_all=3, per_tenant=4, per_caller=4))
        response = lists.call("listEntries", body)
        assert error(response) == (503, "overloaded")
        assert response.headers["retry-after"] == "10"
        assert added(lists, "blocked-urls", "more.example", tenantUid=tenant) == 1
        for each in held:
            each.close()
    while (response := lists.call("listEntries", body)).status_code == 503:
        continue
    assert response.text.count("\n") == 10_001
