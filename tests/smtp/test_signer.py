"""Which mail is signed by whom, with keys from files that change while the service runs."""

import asyncio
from pathlib import Path
from typing import Any

import dkim as independent  # type: ignore[import-untyped]
import pytest
from tests.smtp.sender_counts import sender_counts

from gatepost.analysis.report import Report
from gatepost.auth.results import Arc, Authentication, Dmarc
from gatepost.mail.message import Envelope
from gatepost.policy.rules import MessageAction
from gatepost.service.signing import make_record, write_key
from gatepost.settings.delivery import SigningKeySettings
from gatepost.smtp.client import OutboundTenants, SenderClaim, Tenancy
from gatepost.smtp.outbound import HourlyLimits, Outbound, SenderLimits
from gatepost.smtp.signing import KeyFileError, Signer, SigningKeys, UnsignedError, read_private_key

MESSAGE = b"From: a@mail.example.com\r\nSubject: s\r\n\r\nhello\r\n"


def domains(**of: str) -> Tenancy:
    async def of_domain(_domain: str) -> str | None:
        return None

    return Tenancy({name.replace("_", "."): tenant for name, tenant in of.items()}, of_domain)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[SigningKeySettings]:
    folder = tmp_path_factory.mktemp("keys")
    write_key(folder / "rsa.pem", "rsa")
    write_key(folder / "ed.pem", "ed25519")
    return [
        SigningKeySettings(domain="example.com", selector="r", file=str(folder / "rsa.pem")),
        SigningKeySettings(domain="example.com", selector="e", file=str(folder / "ed.pem")),
    ]


def fields(signer: Signer, report: Report, envelope: Envelope, *, changed: bool = False) -> bytes:
    claim = SenderClaim(envelope.tenant, frozenset({envelope.tenant} if envelope.tenant else ()))
    signing = asyncio.run(signer.choose(report, envelope, claim if envelope.outbound else None, changed=changed))
    return signing.make_fields([MESSAGE[:20], MESSAGE[20:]]) if signing else b""


def report(*senders: str, aligned: bool = False) -> Report:
    proven = Authentication(dmarc=Dmarc("pass", spf_aligned=True)) if aligned else Authentication()
    return Report("clean", "deliver", (), 0, "", senders=senders or ("a@mail.example.com",), authentication=proven)


OUT = Envelope("a@mail.example.com", outbound=True)


def test_outbound_mail_is_signed_by_the_nearest_domain_with_all_of_its_keys(keys: list[SigningKeySettings]) -> None:
    signer = Signer(SigningKeys(keys), "gate.example", domains())
    made = fields(signer, report(), OUT)
    assert made.count(b"DKIM-Signature:") == 2
    records = {
        f"{each.selector}._domainkey.example.com": make_record(read_private_key(Path(each.file))) for each in keys
    }
    for index in range(2):
        found = independent.DKIM(made + MESSAGE).verify(
            idx=index, dnsfunc=lambda name, timeout=5: records[name.decode().rstrip(".")].encode()
        )
        assert found
    assert fields(signer, report("a@other.example"), OUT) == b""
    assert fields(signer, report("a@example.com", "b@other.example"), OUT) == b""
    assert fields(signer, report("a@com"), OUT) == b""
    assert signer.signed == 1


def test_a_tenant_does_not_sign_as_another(keys: list[SigningKeySettings]) -> None:
    signer = Signer(SigningKeys(keys), "gate.example", domains(example_com="t1"))
    assert fields(signer, report("a@example.com"), Envelope("x@other.example", tenant="t2", outbound=True)) == b""
    assert fields(signer, report("a@example.com"), Envelope("x@example.com", tenant="t1", outbound=True))


def test_inbound_mail_is_signed_where_it_was_changed_and_its_author_proven(keys: list[SigningKeySettings]) -> None:
    signer = Signer(SigningKeys(keys), "gate.example", domains(), signs_changed=True)
    assert fields(signer, report(aligned=True), Envelope(), changed=True).count(b"DKIM-Signature:") == 2
    assert fields(signer, report(aligned=False), Envelope(), changed=True) == b""
    assert fields(signer, report(aligned=True), Envelope(), changed=False) == b""
    plain = Signer(SigningKeys(keys), "gate.example", domains())
    assert fields(plain, report(aligned=True), Envelope(), changed=True) == b""


@pytest.mark.parametrize(
    ("seals_all", "changed", "outbound", "sealed"),
    [(False, False, False, 0), (False, True, False, 1), (True, False, False, 1), (True, True, True, 0)],
)
def test_which_mail_is_sealed(
    keys: list[SigningKeySettings], seals_all: bool, changed: bool, outbound: bool, sealed: int
) -> None:
    signer = Signer(SigningKeys([]), "gate.example", domains(), seal_key=keys[0], seals_all=seals_all)
    made = fields(signer, report(), Envelope(outbound=outbound), changed=changed)
    assert made.count(b"ARC-Seal:") == sealed
    assert made.count(b"ARC-Authentication-Results: i=1; gate.example;") == sealed


def test_a_chain_that_could_not_be_validated_for_now_is_left_alone(keys: list[SigningKeySettings]) -> None:
    signer = Signer(SigningKeys([]), "gate.example", domains(), seal_key=keys[0], seals_all=True)
    lost = Report("clean", "deliver", (), 0, "", authentication=Authentication(arc=Arc("temperror")))
    assert fields(signer, lost, Envelope()) == b""


def test_keys_are_read_again_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "k.pem"
    keys = SigningKeys([SigningKeySettings(domain="example.com", selector="k", file=str(path))])
    with pytest.raises(KeyFileError):
        keys.of("example.com")
    write_key(path, "ed25519")
    (first,) = keys.of("example.com")
    assert keys.of("example.com")[0].private is first.private
    path.write_bytes(b"no key")
    assert keys.of("example.com")[0].private is first.private
    path.unlink()
    assert keys.of("example.com")[0].private is first.private
    write_key(path, "ed25519")
    assert keys.of("example.com")[0].private is not first.private
    with pytest.raises(FileExistsError):
        write_key(path, "rsa")


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o666])
def test_a_key_that_others_can_read_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "k.pem"
    write_key(path, "ed25519")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)
    if mode == 0o640:  # the group of the service may read it
        read_private_key(path)
        return
    with pytest.raises(KeyFileError, match="chmod 0600"):
        read_private_key(path)


def test_mail_that_cannot_be_signed_stays_with_its_sender(tmp_path: Path) -> None:
    signer = Signer(
        SigningKeys([SigningKeySettings(domain="example.com", selector="k", file=str(tmp_path / "none"))]),
        "gate.example",
        domains(),
    )
    with pytest.raises(UnsignedError):
        fields(signer, report("a@example.com"), OUT)


async def test_signatures_over_smtp(keys: list[SigningKeySettings], deployment: Any, hop: Any) -> None:
    """A message that was marked is sealed over what leaves; an outbound one is signed, or not sent."""
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.senders = ("a@example.com",)
        signer = Signer(SigningKeys(keys), "gate.example", domains(), seal_key=keys[0])
        gate.services.signer = signer
        gate.guard.decision, gate.guard.action = "quarantine", MessageAction("tag", "[S] ")
        client = await gate.connect()
        await client.up_to_data()
        assert (await client.say(MESSAGE + b".\r\n")).startswith("250")
        record = make_record(read_private_key(Path(keys[0].file)))
        found = independent.arc_verify(next_hop.messages[0], dnsfunc=lambda *_a, **_k: record.encode())
        assert found[0] == b"pass"
        assert b"Subject: [S] s\r\n" in next_hop.messages[0]
        gate.guard.decision, gate.guard.action = "deliver", None
        limits = SenderLimits(HourlyLimits(), sender_counts())
        gate.services.outbound = Outbound(OutboundTenants(["127.0.0.0/8"]), None, gate.services.routing, limits)
        client = await gate.connect()
        await client.up_to_data()
        assert (await client.say(MESSAGE + b".\r\n")).startswith("250")
        assert next_hop.messages[1].count(b"DKIM-Signature:") == 2
        assert b"ARC-Seal" not in next_hop.messages[1]
        gate.services.signer = Signer(
            SigningKeys([SigningKeySettings(domain="example.com", selector="k", file="/none")]), "g", domains()
        )
        await client.up_to_data()
        assert (await client.say(MESSAGE + b".\r\n")).startswith("451")
        assert len(next_hop.messages) == 2
