"""`contrib/feeds/indicators.py` as its user runs it: recorded answers of MISP and TAXII, and the real List API."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "contrib" / "feeds" / "indicators.py"
MISP = {
    "/servers/getVersion": {"version": "2.5.20", "perm_sync": True, "perm_sighting": True, "perm_galaxy_editor": False},
    "/servers/getPyMISPVersion.json": {"version": "2.5.20"},
    "/users/view/me": {"User": {"id": "1"}, "Role": {"id": "1", "name": "reader"}, "UserSetting": []},
}
ATTRIBUTES = [
    {"id": "1", "type": "url", "value": "http://login.evil.example/x", "comment": "lure", "to_ids": True},
    {"id": "2", "type": "hostname", "value": "cdn.evil.example", "comment": "", "to_ids": True},
    {"id": "3", "type": "url", "value": "not a link", "comment": "", "to_ids": True},
]


def indicator(pattern: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "indicator",
        "spec_version": "2.1",
        "pattern_type": "stix",
        "name": "lure",
        "pattern": pattern,
    } | fields


OBJECTS = [
    indicator("[ipv4-addr:value = '192.0.2.7']"),
    indicator("[ipv6-addr:value = '2001:db8::7']"),
    indicator("[ipv4-addr:value = '192.0.2.8'] AND [file:name = 'x']"),
    indicator("[ipv4-addr:value = '192.0.2.9']", revoked=True),
    indicator("[ipv4-addr:value = '192.0.2.10']", valid_until="2020-01-01T00:00:00Z"),
    indicator("[url:value = 'http://a.example/']"),
    {"type": "identity", "name": "somebody"},
]


class _Recorded(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        found = [each for each in ATTRIBUTES if each["type"] in asked["type"]] if asked["page"] == 1 else []
        self._answer({"response": {"Attribute": found}}, "application/json")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in MISP:
            self._answer(MISP[path], "application/json")
        elif path.endswith("/objects/"):
            has_more = "next=" not in self.path
            page = {"more": has_more, "objects": OBJECTS[:3] if has_more else OBJECTS[3:]}
            self._answer(page | ({"next": "second"} if has_more else {}), "application/taxii+json;version=2.1")
        else:
            info = {"id": "1", "title": "t", "can_read": True, "can_write": False}
            self._answer(info, "application/taxii+json;version=2.1")

    def _answer(self, value: Any, kind: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def recorded() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Recorded)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def run(lists: Any, tenant: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments, "--tenant", tenant]
    command += ["--gatepost", lists.url, "--gatepost-ca", lists.ca]
    keys = {"GATEPOST_API_KEY": lists.new_key(tenant), "MISP_KEY": "k" * 40, "TAXII_USER": "u", "TAXII_PASSWORD": "p"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | keys)


def test_attributes_of_a_misp_server_become_entries(lists: Any, certificate: tuple[Path, Path], recorded: str) -> None:
    ended = run(lists, tenant := lists.new_tenant(), "misp", recorded)
    assert "2 entries of blocked-urls were added or renewed, 1 were refused." in ended.stdout
    assert "not a link was not taken" in ended.stderr
    found = {each["entry"]: each for each in lists.entries("blocked-urls", tenant)}
    assert found.keys() == {"login.evil.example/x", "cdn.evil.example"}
    assert found["login.evil.example/x"]["comment"] == "misp: lure"
    assert all(each["expires"] for each in found.values())


def test_indicators_of_a_taxii_collection_become_entries_of_lists_of_their_kind(lists: Any, recorded: str) -> None:
    ended = run(lists, tenant := lists.new_tenant(), "taxii", f"{recorded}/api/collections/1/", "--list", "blocked-ips")
    assert "2 entries of blocked-ips were added or renewed, 0 were refused." in ended.stdout
    assert {each["entry"] for each in lists.entries("blocked-ips", tenant)} == {"192.0.2.7", "2001:db8::7"}
