"""Outbound mail belongs to the tenant of its host or login, whatever its envelope sender says."""

from pathlib import Path
from typing import Any

import pytest
from tests.smtp.sender_counts import sender_counts

from gatepost.service.signing import write_key
from gatepost.settings.delivery import SigningKeySettings
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import GUARD_FILE, find_warnings, load_guard
from gatepost.smtp.client import NetworkTenants, OutboundTenants, SmtpClient, Tenancy
from gatepost.smtp.outbound import HourlyLimits, Outbound, SenderLimits
from gatepost.smtp.signing import Signer, SigningKeys

TENANTS = {"alpha.test": "alpha", "beta.test": "beta"}
HERE = ["127.0.0.0/8"]
UID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
OTHER_UID = "7c9e6679-7425-40de-944b-e07fc1f90ae8"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[SigningKeySettings]:
    folder = tmp_path_factory.mktemp("keys")
    write_key(folder / "k.pem", "ed25519")
    domains = (*TENANTS, "operator.test")
    return [SigningKeySettings(domain=each, selector="s", file=str(folder / "k.pem")) for each in domains]


async def submit(gate: Any, sender: str, author: str, login: str = "") -> str:
    """Send a message over SMTP; returns the first reply that is not positive, else the last one."""
    gate.guard.senders = (author,)
    client = await gate.connect()
    await client.say("EHLO c")
    if login:
        assert (await client.say(f"XCLIENT LOGIN={login.replace('@', '+40')}")).startswith("220")
        await client.say("EHLO c")
    answer = str(await client.say(f"MAIL FROM:<{sender}>"))
    if not answer.startswith("250"):
        return answer
    assert (await client.say("RCPT TO:<r@world.test>")).startswith("250")
    await client.say("DATA")
    message = f"From: {author}\r\nSubject: s\r\n\r\nhello\r\n.\r\n"
    return str(await client.say(message.encode()))


class Row:
    """A submission, and what becomes of it: the tenant that it is filed under, and who signs."""

    def __init__(self, tenants: OutboundTenants, sender: str, author: str, login: str, tenant: str | None, signed: str):
        self.tenants, self.sender, self.author, self.login = tenants, sender, author, login
        self.tenant, self.signed = tenant, signed


ALPHA = OutboundTenants({"alpha": HERE})
BOTH = OutboundTenants({"alpha": HERE, "beta": ["127.0.0.1"]})
ANY = OutboundTenants({"*": HERE})
ELSEWHERE = OutboundTenants({"alpha": ["192.0.2.1"]}, {"beta": ["ann", "@realm.test"]})
OLD = OutboundTenants(HERE)
ROWS = {
    "own": Row(ALPHA, "a@alpha.test", "a@alpha.test", "", "alpha", "alpha.test"),
    "another tenant's name": Row(ALPHA, "ceo@beta.test", "ceo@beta.test", "", "alpha", ""),
    "another tenant's author": Row(ALPHA, "a@alpha.test", "ceo@beta.test", "", "alpha", ""),
    "own author, another envelope": Row(ALPHA, "ceo@beta.test", "a@alpha.test", "", "alpha", "alpha.test"),
    "the operator's name": Row(ALPHA, "a@operator.test", "a@operator.test", "", "alpha", ""),
    "bounce": Row(ALPHA, "", "a@alpha.test", "", "alpha", "alpha.test"),
    "forwarded": Row(ALPHA, "x@world.test", "x@world.test", "", "alpha", ""),
    "shared host, first": Row(BOTH, "a@alpha.test", "a@alpha.test", "", "alpha", "alpha.test"),
    "shared host, second": Row(BOTH, "a@beta.test", "a@beta.test", "", "beta", "beta.test"),
    "shared host, mixed": Row(BOTH, "a@alpha.test", "a@beta.test", "", "alpha", ""),
    "shared host, bounce": Row(BOTH, "", "a@beta.test", "", None, "beta.test"),
    "shared host, operator": Row(BOTH, "a@operator.test", "a@operator.test", "", None, ""),
    "any": Row(ANY, "a@beta.test", "a@beta.test", "", "beta", "beta.test"),
    "any, mixed": Row(ANY, "a@alpha.test", "a@beta.test", "", "alpha", ""),
    "any, operator": Row(ANY, "a@operator.test", "a@operator.test", "", None, "operator.test"),
    "any, login of another tenant": Row(ANY, "a@beta.test", "a@beta.test", "u@alpha.test", "alpha", ""),
    "login by its domain": Row(ELSEWHERE, "a@alpha.test", "a@alpha.test", "u@alpha.test", "alpha", "alpha.test"),
    "login by its name": Row(ELSEWHERE, "a@beta.test", "a@beta.test", "ann", "beta", "beta.test"),
    "login by its realm": Row(ELSEWHERE, "a@beta.test", "a@beta.test", "x@Realm.test", "beta", "beta.test"),
    "login of another tenant": Row(ELSEWHERE, "a@alpha.test", "a@alpha.test", "ann", "beta", ""),
    "login of nobody": Row(ELSEWHERE, "a@alpha.test", "a@alpha.test", "eve", None, ""),
    "no login": Row(ELSEWHERE, "a@alpha.test", "a@alpha.test", "", None, ""),
    "host and login disagree": Row(ALPHA, "a@beta.test", "a@beta.test", "u@beta.test", None, ""),
    "old list": Row(OLD, "a@beta.test", "a@beta.test", "", "beta", ""),
    "old list, operator": Row(OLD, "a@operator.test", "a@operator.test", "", None, "operator.test"),
    "old list, login": Row(OLD, "a@beta.test", "a@beta.test", "u@beta.test", "beta", "beta.test"),
}


def outbound(gate: Any, tenants: OutboundTenants, *, refuses: bool = False, most: int = 0) -> None:
    limits = SenderLimits(HourlyLimits(messages=most), sender_counts())
    routing, port = gate.services.routing, gate.port
    gate.services.outbound = Outbound(tenants, port, routing, limits, refuses=refuses)


async def test_whose_mail_it_is_and_who_signs(keys: list[SigningKeySettings], deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop, tenants=TENANTS, listed=("127.0.0.1",)) as gate:
        gate.services.signer = Signer(SigningKeys(keys), "gate.example", gate.services.tenancy)
        found = {}
        for name, row in ROWS.items():
            outbound(gate, row.tenants)
            assert (await submit(gate, row.sender, row.author, row.login)).startswith("250"), name
            envelope = gate.guard.scanned[-1].envelope
            assert envelope.outbound
            head = next_hop.messages[-1].partition(b"\r\n\r\n")[0].decode()
            signed = head.partition("DKIM-Signature:")[2].partition(" d=")[2].partition(";")[0]
            found[name] = (envelope.tenant, signed)
        assert found == {name: (row.tenant, row.signed) for name, row in ROWS.items()}


async def test_what_does_not_fit_can_be_refused(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop, tenants=TENANTS, listed=("127.0.0.1",)) as gate:
        refusal = "550 5.7.1 This host or user may not send for the domain of the sender"
        outbound(gate, ALPHA, refuses=True)
        assert await submit(gate, "ceo@beta.test", "a@x.test") == refusal
        assert await submit(gate, "a@alpha.test", "a@x.test", "u@beta.test") == refusal
        assert (await submit(gate, "a@alpha.test", "a@x.test")).startswith("250")
        assert (await submit(gate, "x@world.test", "a@x.test")).startswith("250")
        assert (await submit(gate, "", "a@x.test")).startswith("250")
        outbound(gate, ELSEWHERE, refuses=True)
        assert await submit(gate, "a@alpha.test", "a@x.test") == refusal
        assert await submit(gate, "a@alpha.test", "a@x.test", "eve") == refusal
        assert (await submit(gate, "a@beta.test", "a@x.test", "ann")).startswith("250")
        assert len(next_hop.messages) == 4
        # A tenant that cannot be looked up is no refusal for good.
        gate.domains.broken = True
        assert (await submit(gate, "a@gamma.test", "a@x.test")).startswith("451")


async def test_nobody_uses_up_the_limit_of_another_tenant(deployment: Any, hop: Any) -> None:
    async with deployment(hop(), tenants=TENANTS) as gate:
        outbound(gate, ALPHA, most=2)
        for _ in range(2):
            assert (await submit(gate, "ceo@beta.test", "a@x.test")).startswith("250")
        assert (await submit(gate, "ceo@beta.test", "a@x.test")).startswith("451 4.7.1")
        assert (await submit(gate, "cfo@beta.test", "a@x.test")).startswith("451 4.7.1")
        gate.services.outbound._tenants = OutboundTenants({"beta": HERE})
        assert (await submit(gate, "ceo@beta.test", "a@x.test")).startswith("250")


def test_networks_of_tenants() -> None:
    found = NetworkTenants(
        {"a": ["192.0.2.0/24", "2001:db8::/32", "0.0.0.0/0"], "b": ["192.0.2.7"], "c": ["2001:db8::1"], "d": []}
    )
    assert found.find("192.0.2.7") == {"a", "b"}
    assert found.find("198.51.100.1") == {"a"}
    assert found.find("2001:db8::1") == {"a", "c"}
    assert found.find("2001:db9::1") == found.find("unix") == found.find("") == frozenset()


async def test_a_login_is_believed_from_a_client_that_says_one_only() -> None:
    async def of_domain(_domain: str) -> str | None:
        return None

    tenants = OutboundTenants({}, {"beta": ["ann"]})
    tenancy = Tenancy(TENANTS, of_domain)
    nothing = await tenants.judge(SmtpClient("192.0.2.1", xclient={"LOGIN": None}), "beta.test", tenancy)
    assert (nothing.tenant, nothing.fits) == (None, False)
    known = await tenants.judge(SmtpClient("192.0.2.1", xclient={"LOGIN": "ann"}), "beta.test", tenancy)
    assert (known.tenant, known.fits) == ("beta", True)


def write(folder: Path, text: str) -> Path:
    (folder / GUARD_FILE).parent.mkdir(parents=True, exist_ok=True)
    (folder / GUARD_FILE).write_text(
        f"scanSources:\n  smtp:\n    outbound: {text}\ndelivery: {{nextHop: smtp://h:25}}\n"
    )
    return folder


def test_settings_by_tenant(tmp_path: Path) -> None:
    text = f'{{hosts: {{{UID}: [192.0.2.1], "*": ["2001:db8::/32"]}}, logins: {{{UID}: [ann, "@Realm.TEST"]}}}}'
    smtp = load_guard(write(tmp_path, text)).scan_sources.smtp
    assert smtp is not None
    assert smtp.outbound is not None
    assert smtp.outbound.hosts == {UID: ["192.0.2.1"], "*": ["2001:db8::/32"]}
    assert smtp.outbound.logins == {UID: ["ann", "@realm.test"]}
    assert not [each for each in find_warnings(tmp_path) if "tenant" in str(each)]


@pytest.mark.parametrize("text", ["{hosts: [192.0.2.1]}", "{port: 10587}"])
def test_settings_without_tenants_are_read_with_a_warning(text: str, tmp_path: Path) -> None:
    load_guard(write(tmp_path, text))
    (warning,) = [str(each) for each in find_warnings(tmp_path) if "outbound" in str(each)]
    assert "mail of tenants' domains is not signed" in warning


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{hosts: [192.0.2.1], otherSenders: refuse}", "needs hosts by tenant"),
        ("{hosts: {alpha: [192.0.2.1]}}", "must be a tenant's uid"),
        (f"{{hosts: {{{UID}: [nonsense]}}}}", "hosts"),
        (f"{{port: 9, logins: {{{UID}: [ann], {OTHER_UID}: [ann]}}}}", f"belongs to tenant {UID} already"),
        (f'{{port: 9, logins: {{{UID}: ["@"]}}}}', "must be the name of a login"),
    ],
)
def test_faults_of_settings_by_tenant(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=fault):
        load_guard(write(tmp_path, text))
