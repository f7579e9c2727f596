"""Every key that was removed is refused with its line and with what to use instead."""

from pathlib import Path

import pytest

from gatepost.settings.faults import ConfigError, Fault
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


@pytest.mark.parametrize("key", GUARD)
def test_guard_refuses(key: str, tmp_path: Path) -> None:
    _check(tmp_path / GUARD_FILE, key, GUARD[key], _find_faults(tmp_path / GUARD_FILE, GUARD[key]))


@pytest.mark.parametrize("key", ABBY)
def test_abby_refuses(key: str, tmp_path: Path) -> None:
    start = "serviceProviders: {core: {hosts: [https://127.0.0.1:9785]}}"
    _check(tmp_path / ABBY_FILE, key, ABBY[key], _find_faults(tmp_path / ABBY_FILE, f"{ABBY[key]}\n{start}"))


def _find_faults(file: Path, text: str) -> tuple[Fault, ...]:
    file.parent.mkdir(parents=True)
    file.write_text(f"{text}\n")
    load = load_guard if file.name == GUARD_FILE.name else load_abby
    with pytest.raises(ConfigError) as refusal:
        load(file.parents[2])
    return refusal.value.faults


def _check(file: Path, key: str, text: str, faults: tuple[Fault, ...]) -> None:
    """One fault in the second line, which ends with the sentence of the table."""
    name, _, _ = key.partition(": ")
    (fault,) = [each for each in faults if each.line == 2]
    assert fault.file == str(file)
    assert fault.key.replace("[0]", "") == name
    assert fault.sentence == REMOVED[key]


def test_the_page_on_upgrading_has_the_same_table() -> None:
    page = (DOCS / "upgrading.md").read_text("utf-8")
    _, _, section = page.partition("### Keys that were removed\n")
    rows = [line for line in section.partition("\n### ")[0].splitlines() if line.startswith("| `")]
    assert rows == [f"| `{key}` | {sentence} |" for key, sentence in REMOVED.items()]
