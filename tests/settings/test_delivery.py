"""Next hops, routes and certificates in `guard.yml`, and what is built from them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.data_folders import write_files

from gatepost.api.scanning import MAX_BODY
from gatepost.service.certificates import CertificateWatch, load_certificates, sign_certificate
from gatepost.service.core import _build_smtp_limits
from gatepost.service.data_folder import DataFolder
from gatepost.service.plan import Plan
from gatepost.service.routes import build_routing
from gatepost.settings.delivery import list_hops
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import find_warnings, load_guard, settings_in_force
from gatepost.settings.keys import GuardSettings, by_tenant
from gatepost.settings.scan_sources import MAX_MESSAGE
from gatepost.settings.values import is_local
from gatepost.smtp.commands import SmtpLimits

UID = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
Load = Callable[..., GuardSettings]


@pytest.fixture
def write(tmp_path: Path) -> Load:
    """Write `guard.yml` and load it; `{pair}` stands for a certificate and its key."""
    chain, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
    (tmp_path / "chain.pem").write_bytes(chain)
    (tmp_path / "key.pem").write_bytes(key)

    def load(text: str, **options: Any) -> GuardSettings:
        pair = f"certificate: {tmp_path}/chain.pem, key: {tmp_path}/key.pem"
        write_files(tmp_path, text.replace("PAIR", pair).replace("FOLDER", str(tmp_path)))
        return load_guard(tmp_path, **options)

    return load


@pytest.mark.parametrize(
    ("text", "hops", "weights"),
    [
        ("smtp://a:25", ("smtp://a:25",), ()),
        ("[smtp://a, 'lmtp://b:24', 'lmtp:/run/lmtp']", ("smtp://a", "lmtp://b:24", "lmtp:/run/lmtp"), ()),
        ("{smtp://a: 3, smtp://b: 1}", ("smtp://a", "smtp://b"), (3, 1)),
    ],
)
def test_three_forms_of_a_next_hop(write: Load, text: str, hops: tuple[str, ...], weights: tuple[int, ...]) -> None:
    found = write(f"delivery: {{nextHop: {text}}}\n").delivery.next_hop
    assert found is not None
    assert list_hops(found) == (hops, weights)


# What is wrong in a section: the text there, the key in it, and words of the sentence.
FAULTS = {
    "delivery": [
        ("nextHop: []", "nextHop", "at least 1"),
        ("nextHop: {smtp://a: 0}", "nextHop", "at least 1"),
        ("nextHop: [http://a]", "nextHop[0]", "lmtp://host:port or lmtp:/path"),
        ("nextHop: ['mx:', smtp://a]", "nextHop[0]", "delivers by MX itself"),
        ("nextHop: {'mx:': 1}", "nextHop", "delivers by MX itself"),
        ("nextHop: 'mx://a'", "nextHop", "or lmtp:/path"),
        ("routes: [{domains: [x.example], nextHop: 'mx:'}]", "routes[0].nextHop", "delivers by MX itself"),
        ("nextHop: 'lmtp:/'", "nextHop", "Unix socket"),
        ("nextHop: smtp://u:p@a", "nextHop", "under auth"),
        ("routes: [{nextHop: smtp://a}]", "routes[0]", "needs domains or tenants"),
        ("routes: [{domains: [x.example]}]", "routes[0].nextHop", "required"),
        ("routes: [{domains: [co.uk], nextHop: smtp://a}]", "routes[0].domains[0]", "public suffix"),
        (
            "routes: [{domains: [x.example], nextHop: smtp://a}, {domains: [X.example], nextHop: smtp://b}]",
            "routes[1].domains",
            "x.example, whose mail takes the route before",
        ),
        ("nextHop: smtp://a, certificate: FOLDER/chain.pem", "certificate", "needs delivery.key"),
        ("auth: {user: x}", "auth.password", "required"),
        ("ca: FOLDER/key.pem", "ca", "no PEM file with certificates"),
    ],
    "domainReports": [("send: {organization: '', sender: r@x.example}", "send.organization", "not be empty")],
    "scanSources": [
        ("smtp: {maxMessageSize: 52428801}", "smtp.maxMessageSize", "at most 52428800"),
        ("smtp: {maxRecipients: 0}", "smtp.maxRecipients", "at least 1"),
        ("smtp: {maxHops: 5}", "smtp.maxHops", "at least 10"),
        ("smtp: {commandTimeout: 10}", "smtp.commandTimeout", "at least 1000"),
        ("smtp: {outbound: {}}", "smtp.outbound", "needs hosts or port"),
        ("smtp: {outbound: {port: 10587, nextHop: 'mx:'}}", "smtp.outbound.nextHop", "delivers by MX itself"),
        (
            "smtp: {outbound: {port: 1, nextHop: smtp://127.0.0.1:1}}",
            "smtp.outbound.nextHop",
            "mail would go in circles",
        ),
        ("smtp: {outbound: {port: 10025}}", "smtp.outbound.port", "is the port of scanSources.smtp as well"),
        ("smtp: {outbound: {port: 9785}}, restApi: {}", "smtp.outbound.port", "port of scanSources.restApi as well"),
    ],
    "tls": [("certificate: FOLDER/key.pem, key: FOLDER/key.pem", "certificate", "no PEM file with a certificate")],
}


@pytest.mark.parametrize(("section", "row"), [(section, row) for section, rows in FAULTS.items() for row in rows])
def test_faults(write: Load, section: str, row: tuple[str, str, str]) -> None:
    text, key, said = row
    expect_fault(write, f"{section}: {{{text}}}", f"{section}.{key}", said)


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        (
            (
                "dkim: {keys: [{domain: x.example, selector: s, file: FOLDER/chain.pem}]}\n"
                "domainReports: {send: {organization: X, sender: r@x.example}}"
            ),
            "domainReports.send",
            "needs delivery.nextHop",
        ),
        (
            "delivery: {nextHop: smtp://a}\ndomainReports: {send: {organization: X, sender: r@x.example}}",
            "domainReports.send.sender",
            "needs a key of x.example",
        ),
        (
            "scanSources: {smtp: {port: 10025}}\ndelivery: {nextHop: smtp://localhost:10025}",
            "delivery.nextHop",
            "circles",
        ),
    ],
)
def test_faults_of_two_sections(write: Load, text: str, key: str, said: str) -> None:
    expect_fault(write, text, key, said)


def expect_fault(write: Load, text: str, key: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        write(f"{text}\n", certificates=True)
    (fault,) = refused.value.faults
    assert fault.key.startswith(key)
    assert said in fault.sentence, fault.sentence


def test_warnings(write: Load, tmp_path: Path) -> None:
    write(
        "scanSources: {smtp: {}}\ndelivery: {routes: [{domains: [x.example], nextHop: smtp://a,"
        " auth: {user: gate, password: hush}}]}\n"
    )
    (warning,) = find_warnings(tmp_path)
    assert warning.key == "delivery.routes[0].auth"
    assert "verified prevents that" in warning.sentence


def test_the_password_is_shown_nowhere_and_files_stay_local(write: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOP_PASSWORD", "hush1")
    guard = write(
        "delivery: {nextHop: smtp://a, auth: {user: gate, password: '${env:HOP_PASSWORD}'},"
        " routes: [{tenants: [" + UID + "], nextHop: smtp://b, auth: {user: other, password: hush2}}]}\n"
    )
    shown = str(settings_in_force("guard.yml", guard))
    assert "gate" in shown
    assert "other" in shown
    assert "hush" not in shown
    assert guard.delivery.auth is not None
    assert guard.delivery.auth.password == "hush1"
    for key in ("tls", "tls.key", "delivery.ca", "delivery.certificate", "delivery.key"):
        assert is_local(GuardSettings, key)
    for key in ("delivery.routes", "delivery.nextHop", "delivery.auth", "scanSources.smtp.maxRecipients"):
        assert not is_local(GuardSettings, key)


def test_what_is_built(write: Load, tmp_path: Path) -> None:
    guard = write(
        "scanSources: {smtp: {maxMessageSize: 100000, maxRecipients: 7, maxHops: 11, commandTimeout: 2000,"
        " dataTimeout: 3000, messageTimeout: 40000}}\n"
        "tls: {PAIR}\n"
        "delivery: {nextHop: smtp://a, tls: verified, ca: FOLDER/chain.pem, PAIR, routes: ["
        "{domains: ['*.Deep.Example', Über.example], nextHop: {smtp://b: 2, smtp://c: 1}},"
        " {tenants: [" + UID + "], nextHop: 'lmtp:/run/lmtp'}]}\n",
        certificates=True,
    )
    limits = SmtpLimits(
        message=100_000, recipients=7, hops=11, command_wait=2.0, data_wait=3.0, data_most=40.0, per_address=50
    )
    assert guard.scan_sources.smtp is not None
    assert _build_smtp_limits(guard.scan_sources.smtp) == limits
    assert MAX_MESSAGE == MAX_BODY

    async def test() -> None:
        data = DataFolder(tmp_path)
        routing = build_routing(guard, data)
        assert routing is not None
        assert [(route.name, relay.url, relay.tls) for route, relay in routing.relays()] == [
            ("routes[0]", "smtp://b", "opportunistic"),
            ("routes[0]", "smtp://c", "opportunistic"),
            ("routes[1]", "lmtp:/run/lmtp", "opportunistic"),
            ("default", "smtp://a", "verified"),
        ]
        found = [routing.find(*each) for each in (("x.deep.example", UID), ("xn--ber-goa.example", None), ("z", UID))]
        assert [route.name if route else None for route in found] == ["routes[0]", "routes[0]", "routes[1]"]
        assert build_routing(GuardSettings()) is None
        plan = Plan(data, guard)
        pair = (tmp_path / "chain.pem", tmp_path / "key.pem")
        assert plan.smtp_certificate == plan.guard_certificate == pair
        assert list(load_certificates(plan)) == ["guard"]
        assert Plan(data, GuardSettings()).smtp_certificate == plan.own_certificate
        await _watch_files(plan, tmp_path)

    asyncio.run(test())


async def _watch_files(plan: Plan, folder: Path) -> None:
    """Files towards next hops are read again when they change; while one cannot be used, it is tried again."""
    renewed, fault = 0, OSError("half written")

    def renew() -> None:
        nonlocal renewed
        renewed += 1
        if renewed == 1:
            raise fault

    shown = 0

    async def show(_plan: Plan, _contexts: object) -> None:
        nonlocal shown
        shown += 1

    watch = CertificateWatch(plan, show, renew, lambda _ca: None)
    await watch.look()
    assert (renewed, shown) == (0, 0)
    chain, key = sign_certificate(["other.example"], datetime.now(UTC))
    for name, content in (("chain.pem", chain), ("key.pem", key)):
        (folder / f"{name}.new").write_bytes(content)
        (folder / f"{name}.new").replace(folder / name)
    for _ in range(3):
        await watch.look()
    assert (renewed, shown) == (2, 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[security@house.example]", {"*": ["security@house.example"]}),
        (f"{{{UID}: [a@house.example], '*': []}}", {UID: ["a@house.example"], "*": []}),
        ("[security]", "must be an address"),
        ("{house.example: [a@house.example]}", "house.example"),
    ],
)
def test_report_mailboxes_are_a_list_or_a_map_of_tenants(write: Load, text: str, found: object) -> None:
    if isinstance(found, dict):
        assert by_tenant(write(f"reportMailboxes: {text}\n").report_mailboxes) == found
        return
    with pytest.raises(ConfigError, match=str(found)):
        write(f"reportMailboxes: {text}\n")
