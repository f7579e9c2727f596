"""Every key that was removed is refused with its line and with what to use instead."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.settings.refusals import find_faults

from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
from gatepost.settings.removed_keys import REMOVED

DOCS = Path(__file__).parents[2] / "docs"

GUARD = {
    "storage.databases": "storage:\n  databases: {west: 'postgresql://west/gatepost'}",
    "storage.tenants": "storage:\n  tenants: {0197a2b4-6f3e-7c1d-9a58-2b6c4d8e0f13: west}",
    "delivery.nextHop: mx:": "delivery:\n  nextHop: 'mx:'",
    "delivery.privateNetwork": "delivery:\n  privateNetwork: true",
    "delivery.routes.privateNetwork": (
        "delivery:\n  routes: [{domains: [example.com], nextHop: 'smtp://127.0.0.1:25', privateNetwork: true}]"
    ),
    "scanSources.smtp.outbound.privateNetwork": "scanSources: {smtp: {outbound:\n  {privateNetwork: true}}}",
    "domainReports.addresses": "domainReports:\n  addresses: [dmarc@example.com]",
    "domainReports.domains": "domainReports:\n  domains: [example.com]",
    "domainReports.acceptUnproven": "domainReports:\n  acceptUnproven: true",
    "domainReports.retention": "domainReports:\n  retention: 400",
    "domainReports.send.dmarc": (
        "domainReports:\n  send: {organization: Example, sender: dmarc@example.com, dmarc: true}"
    ),
    "domainReports.send.tls": ("domainReports:\n  send: {organization: Example, sender: dmarc@example.com, tls: true}"),
    "flowControl": "\nflowControl: {greylisting: {}}",
    "recipientVerification.rules.ldap": (
        "recipientVerification:\n  rules: [{ldap: {servers: ['ldap://127.0.0.1'], base: dc=example}}]"
    ),
    "recipientVerification.rules.callOut": "recipientVerification:\n  rules: [{callOut: {}}]",
    "recipientVerification.rules.recipientList": "recipientVerification:\n  rules: [{recipientList: true}]",
    "recipientVerification.rules.onFailure": "recipientVerification:\n  rules: [{onFailure: accept}]",
    "recipientVerification.cache": "recipientVerification:\n  cache: {maximum: 10}",
    "events.alerts": "events:\n  alerts: {mail: {recipients: [ann@example.com]}}",
    "frontProcesses": "\nfrontProcesses: 2",
}
_FEED = "feeds: [{name: bad, listName: blocked-urls, url: 'https://feeds.example/',"
ABBY = {
    "feeds.format: misp": f"{_FEED}\n  format: misp}}]",
    "feeds.format: stix": f"{_FEED}\n  format: stix}}]",
    "feeds.format: taxii": f"{_FEED}\n  format: taxii}}]",
    "feeds.fullEvery": f"{_FEED}\n  fullEvery: 7}}]",
    "frontProcesses": "\nfrontProcesses: 2",
    "notices": "\nnotices: {perDay: 10}",
}


def test_every_removed_key_has_a_case() -> None:
    assert GUARD.keys() | ABBY.keys() == REMOVED.keys()


CORE = "serviceProviders: {core: {hosts: [https://127.0.0.1:9785]}}"
CASES = [
    *((load_guard, GUARD_FILE, key, text) for key, text in GUARD.items()),
    *((load_abby, ABBY_FILE, key, f"{text}\n{CORE}") for key, text in ABBY.items()),
]


@pytest.mark.parametrize(("load", "name", "key", "text"), CASES)
def test_it_is_refused(load: Callable[[Path], object], name: Path, key: str, text: str, tmp_path: Path) -> None:
    """One fault in the second line, which ends with the sentence of the table."""
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(f"{text}\n")
    (fault,) = [each for each in find_faults(load, tmp_path) if each.line == 2]
    assert fault.file == str(tmp_path / name)
    assert fault.key.replace("[0]", "") == key.partition(": ")[0]
    assert fault.sentence == REMOVED[key]


def test_the_page_on_upgrading_has_the_same_table() -> None:
    page = (DOCS / "upgrading.md").read_text("utf-8")
    _, _, section = page.partition("### Keys that were removed\n")
    rows = [line for line in section.partition("\n### ")[0].splitlines() if line.startswith("| `")]
    assert rows == [f"| `{key}` | {sentence} |" for key, sentence in REMOVED.items()]
