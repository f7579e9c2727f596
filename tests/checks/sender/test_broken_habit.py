"""Habits that are broken, and habits that never were."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.checks.sender.broken_habit import check
from gatepost.findings import Protected, Reading
from gatepost.kinds import SENDER_BROKEN_HABIT, SENDER_NEW_REPLY_TO, Finding
from gatepost.questions import FacetAge
from gatepost.sender_history import SenderHistory, Standing

Letter = Callable[..., Reading]

HOST = "192.0.2.1"
FAILS = Authentication(HOST, spf=Spf("softfail"), dmarc=Dmarc("fail"))
ALWAYS = Standing(proven=FacetAge(40, 90))


def found(reading: Reading, met: SenderHistory, authentication: Authentication = FAILS, **more: Any) -> list[Finding]:
    return list(check(msgspec.structs.replace(reading, sender_history=met, authentication=authentication, **more)))


@pytest.mark.parametrize(
    ("standing", "broken"),
    [
        (ALWAYS, True),
        (
            Standing(FacetAge(40, 90), FacetAge(4, 80)),
            True,
        ),  # now and then through somebody who breaks signatures
        (Standing(FacetAge(40, 90), FacetAge(5, 80)), False),
        (Standing(FacetAge(4, 90)), False),
        (Standing(FacetAge(8, 13)), False),
        (Standing(claimed=FacetAge(40, 90)), False),  # never proved anything
        (Standing(), False),
    ],
)
def test_a_domain_that_always_proved_itself(letter: Letter, standing: Standing, broken: bool) -> None:
    findings = found(letter("Hello"), SenderHistory(ready=True, domain=standing))
    assert [finding.kind for finding in findings] == [SENDER_BROKEN_HABIT.id] * broken


@pytest.mark.parametrize(
    "authentication",
    [
        Authentication(HOST, dmarc=Dmarc("pass", dkim_aligned=True)),
        Authentication(HOST, dmarc=Dmarc("none", spf_aligned=True)),
        Authentication(HOST, arc=Arc("pass", 1)),
        Authentication(HOST, spf=Spf("temperror")),
        Authentication(HOST, dkim=(Dkim("fail"), Dkim("temperror"))),
        Authentication(HOST, dmarc=Dmarc("temperror")),
        Authentication(),  # nobody knows who sent it
    ],
)
def test_proof_is_proof_and_no_answer_is_none(letter: Letter, authentication: Authentication) -> None:
    assert not found(letter("Hello"), SenderHistory(ready=True, domain=ALWAYS), authentication)


def test_lists_break_signatures(letter: Letter) -> None:
    met = SenderHistory(ready=True, domain=ALWAYS)
    for field in ("List-Id: <l.lists.example>\n", "List-Post: <mailto:l@lists.example>\n"):
        (finding,) = found(letter("Hello", fields=field), met)
        assert finding.strength == 0.3
    assert not found(letter("Hello"), met, protected=Protected(host_trusted=True))


@pytest.mark.parametrize(
    ("address", "redirection", "broken"),
    [
        (ALWAYS, FacetAge(), True),
        (Standing(claimed=FacetAge(9, 30)), FacetAge(), True),
        (ALWAYS, FacetAge(1, 3), False),  # it did so before
        (ALWAYS, None, False),  # answers go to the sender
        (Standing(proven=FacetAge(2, 30)), FacetAge(), False),  # hardly known
        (Standing(), FacetAge(), False),
    ],
)
def test_answers_that_never_went_elsewhere(
    letter: Letter, address: Standing, redirection: FacetAge | None, broken: bool
) -> None:
    reading = letter("Hello", fields="Reply-To: me@elsewhere.example\n")
    met = SenderHistory(ready=True, address=address, redirection=redirection)
    findings = found(reading, met, Authentication(HOST, dmarc=Dmarc("pass", dkim_aligned=True)))
    assert [finding.kind for finding in findings] == [SENDER_NEW_REPLY_TO.id] * broken


def test_a_young_memory_has_no_habits(letter: Letter) -> None:
    assert not found(letter("Hello"), SenderHistory(domain=ALWAYS))
    assert not found(Reading(), SenderHistory(ready=True, domain=ALWAYS))
