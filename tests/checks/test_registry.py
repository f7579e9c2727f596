"""What checks say that they look at is something that there can be, and it is what decides whether they are called."""

from collections.abc import Iterator

import pytest

from gatepost import stages
from gatepost.analysis import analyse
from gatepost.auth.results import Authentication, Dkim
from gatepost.checks.phrases import THEMES
from gatepost.checks.registry import CHECKS
from gatepost.files.values import File, Trait
from gatepost.findings import Check, Protected, Reading
from gatepost.kinds import Finding
from gatepost.mail.message import Defect, Envelope, Link, Message
from gatepost.names import Address
from gatepost.questions import Antivirus, Reputation
from gatepost.sender_history import SenderHistory
from gatepost.stages import Context

LINK = Link("http://a.example", "http://a.example/", "a.example", "", "1", "text")
PLAIN = File("1", b"text", "text", "0")
# One reading for each sign that has it and no other.
SIGNS = {
    "link": Reading(Message(links=(LINK,))),
    "defect": Reading(Message(defects=(Defect("mime:nul", "1"),))),
    "signature": Reading(authentication=Authentication(dkim=(Dkim("pass"),))),
    "reply-to": Reading(Message(reply_to=(Address("", "ann", "a.example"),))),
    "protected": Reading(protected=Protected(own_domains=frozenset({"a.example"}))),
    "remembered": Reading(sender_history=SenderHistory(ready=True)),
    "reputation": Reading(reputation=Reputation(silent=(("block", "it does not answer"),))),
    "antivirus": Reading(antivirus=Antivirus("clean")),
    "attachment": Reading(files=(File("1", b"%PDF-", "pdf", "0"),)),
    "trait": Reading(files=(File("1", b"text", "text", "0", traits=(Trait("macro"),)),)),
    "unread": Reading(files=(File("1", b"text", "text", "0", unread=("size",)),)),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_each_sign_stands_for_one_thing(sign: str) -> None:
    assert SIGNS[sign].signs == {sign}


def test_a_file_with_a_name_is_an_attachment_and_a_body_is_not() -> None:
    assert Reading(files=(PLAIN,)).signs == set()
    assert Reading(files=(File("1/a.txt", b"text", "text", "0", ("a.txt",)),)).signs == {"attachment"}


def test_a_link_in_a_file_is_a_link_as_well() -> None:
    assert Reading(files=(File("1", b"text", "text", "0", links=(LINK,)),)).signs == {"link", "link-in-file"}


@pytest.mark.parametrize(
    "check", [check for check in CHECKS if check.needs or check.themes], ids=lambda check: check.name
)
def test_what_a_check_waits_for_exists(check: Check) -> None:
    assert check.needs <= {*SIGNS, "link-in-file"}
    assert check.themes <= THEMES


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"Hello", ["always"]),
        (b"See http://a.example/", ["always", "links"]),
        (b"Your parcel is waiting for you", ["always", "parcels"]),
    ],
)
def test_a_check_is_called_only_where_it_has_something_to_look_at(
    body: bytes, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def noting(name: str, **waits: frozenset[str]) -> Check:
        def check(_: Reading) -> Iterator[Finding]:
            called.append(name)
            return iter(())

        return Check(name, (), check, **waits)

    links, parcels = noting("links", needs=frozenset({"link"})), noting("parcels", themes=frozenset({"parcel"}))
    monkeypatch.setattr(stages, "CHECK_STAGES", stages.name_stages((noting("always"), links, parcels)))
    monkeypatch.setattr(stages, "select_checks", stages.select_checks.__wrapped__)
    with pytest.raises(StopIteration):
        next(analyse(b"Subject: x\n\n" + body, Envelope(), Context(now=0)))
    assert called == expected
