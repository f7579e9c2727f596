"""What a reading says of its sender: known is who proved itself on several days before, not who says so."""

import msgspec
import pytest
from tests.known_senders import NEVER, OFTEN, SELDOM, know_list, know_sender

from gatepost.auth.results import Authentication, Dkim, Dmarc
from gatepost.checks.reading import Reading
from gatepost.mail.message import Field, Headers, Message
from gatepost.mail.sender_history import SenderHistory, Standing
from gatepost.questions import FacetAge

CLAIMS = {
    "in-reply-to": "<1@house.example>",
    "references": "<1@house.example>",
    "list-id": "<l.lists.example>",
    "list-post": "<mailto:l@lists.example>",
    "list-unsubscribe": "<https://lists.example/u>",
    "list-unsubscribe-post": "List-Unsubscribe=One-Click",
    "precedence": "list",
    "mailing-list": "list l@lists.example",
    "auto-submitted": "auto-generated",
    "dkim-signature": "v=1; d=sender.example",
    "arc-seal": "i=1",
    "resent-from": "ann@house.example",
}


def claiming(**fields: str) -> Reading:
    named = ((name.replace("_", "-"), value) for name, value in fields.items())
    return Reading(Message(headers=Headers(tuple(Field(name, value, b"") for name, value in named))))


def prove(reading: Reading, *, is_company: bool) -> Reading:
    proven = know_sender(reading, NEVER)
    return msgspec.structs.replace(proven, is_company=is_company)


def list_known(reading: Reading) -> set[str]:
    names = ("is_known_sender", "is_known_list", "is_known_answer", "is_known_newsletter")
    return {name for name in names if getattr(reading, name)}


ALL_CLAIMS = claiming(**CLAIMS)


@pytest.mark.parametrize(
    "reading",
    [
        ALL_CLAIMS,
        msgspec.structs.replace(ALL_CLAIMS, sender_history=SenderHistory(ready=True)),
        msgspec.structs.replace(ALL_CLAIMS, authentication=Authentication(dkim=(Dkim("pass", "sender.example"),))),
        know_sender(ALL_CLAIMS, NEVER),
        know_sender(ALL_CLAIMS, SELDOM),
        know_sender(ALL_CLAIMS, aligned=False),
        know_list(ALL_CLAIMS, SELDOM),
        know_list(know_sender(ALL_CLAIMS, SELDOM), SELDOM),
    ],
)
def test_claims_are_no_proof(reading: Reading) -> None:
    assert list_known(reading) == set()


@pytest.mark.parametrize(
    "history",
    [
        SenderHistory(ready=True, address=Standing(claimed=FacetAge(90, 90))),  # anybody could have written those
        SenderHistory(ready=True, domain=Standing(proven=FacetAge(90, 90))),  # somebody else at the same domain
    ],
)
def test_the_address_itself_has_to_be_proven(history: SenderHistory) -> None:
    proven = Authentication(dmarc=Dmarc("pass", dkim_aligned=True, spf_aligned=True))
    assert list_known(msgspec.structs.replace(ALL_CLAIMS, authentication=proven, sender_history=history)) == set()


@pytest.mark.parametrize(
    ("reading", "known"),
    [
        (know_sender(claiming()), {"is_known_sender"}),
        (know_sender(claiming(references="<1@x>")), {"is_known_sender", "is_known_answer"}),
        (know_sender(claiming(in_reply_to="<1@x>")), {"is_known_sender", "is_known_answer"}),
        (know_sender(claiming(list_unsubscribe="<u>")), {"is_known_sender", "is_known_newsletter"}),
        (prove(claiming(list_unsubscribe="<u>"), is_company=True), {"is_known_newsletter"}),
        (prove(claiming(list_unsubscribe="<u>"), is_company=False), set()),
        (msgspec.structs.replace(claiming(list_unsubscribe="<u>"), is_company=True), set()),
        (prove(claiming(), is_company=True), set()),
        (know_list(claiming(list_post="<mailto:l@l.example>")), {"is_known_list"}),
        (
            know_list(claiming(list_post="<mailto:l@l.example>", references="<1@x>")),
            {"is_known_list"},
        ),
        (know_list(claiming(mailing_list="list x", in_reply_to="<1@x>")), {"is_known_list"}),
        (know_list(claiming(mailing_list="list x")), set()),
        (know_list(claiming(list_post="NO", list_unsubscribe="<u>")), set()),  # announcements only
        (know_list(claiming()), set()),  # names no list
    ],
)
def test_what_is_known(reading: Reading, known: set[str]) -> None:
    assert list_known(reading) == known


def test_an_aligned_spf_pass_is_proof_as_well() -> None:
    proven = Authentication(dmarc=Dmarc("none", spf_aligned=True))
    history = SenderHistory(ready=True, address=Standing(proven=OFTEN))
    assert list_known(Reading(authentication=proven, sender_history=history)) == {"is_known_sender"}
