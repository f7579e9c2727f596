"""Near-copies of what an operator marked, and bursts; lists, newsletters and the own domain make none."""

import pytest

from gatepost.auth.results import Authentication, Dmarc
from gatepost.checks.text.campaign import MANY, check
from gatepost.findings import Protected, Reading
from gatepost.kinds import CAMPAIGN_BURST, CAMPAIGN_MARKED
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.near_duplicates import compute_signature, index_marked
from gatepost.questions import Campaign
from gatepost.textmodel.deployed import DeployedModels, load_shipped_models
from gatepost.textmodel.features import body_words

TEXT = (
    "Our company looks for a representative in your region who works from home for a few hours each week and receives "
    "payments of our customers for us. No experience is needed, you keep ten percent of every transfer as your wage. "
    "Please answer with your name, your address and your age, and our manager will call you at once, dear {}."
)


def mail(name: str = "Ann", *fields: str) -> bytes:
    head = "\r\n".join(["From: A <a@b.example>", "Subject: work", *fields])
    return f"{head}\r\n\r\n{TEXT.format(name)}\r\n".encode()


def kinds(raw: bytes, campaign: Campaign = Campaign(), **more: object) -> list[str]:  # noqa: B008
    reading = Reading(read(raw), Envelope("a@b.example"), campaign=campaign, **more)  # type: ignore[arg-type]
    return [finding.kind for finding in check(reading)]


@pytest.fixture(scope="module")
def models() -> DeployedModels:
    known = index_marked([compute_signature(body_words(read(mail()).texts))])
    return DeployedModels(load_shipped_models().all_tenants, marked=known)


def test_a_near_copy_of_marked_mail_is_found(models: DeployedModels) -> None:
    assert kinds(mail("Bob"), models=models) == [CAMPAIGN_MARKED.id]
    assert kinds(mail("Bob")) == []


def test_other_mail_is_not(models: DeployedModels) -> None:
    assert kinds(b"From: a@b.example\r\n\r\nSee you at noon.\r\n", models=models) == []


@pytest.mark.parametrize(
    ("fields", "recipients", "found"),
    [
        ([], MANY, [CAMPAIGN_BURST.id]),
        ([], MANY - 1, []),
        (["List-Unsubscribe: <https://b.example/u>"], MANY, []),
        (["List-Id: <dev.b.example>"], MANY, []),
    ],
)
def test_a_burst(fields: list[str], recipients: int, found: list[str]) -> None:
    assert kinds(mail("Ann", *fields), Campaign(30, recipients)) == found


def test_a_note_to_all_staff_is_no_burst() -> None:
    own = Protected(own_domains=frozenset({"b.example"}))
    proven = Authentication(dmarc=Dmarc("pass", spf_aligned=True))
    assert kinds(mail(), Campaign(30, 500), protected=own, authentication=proven) == []
    assert kinds(mail(), Campaign(30, 500), protected=own) == [CAMPAIGN_BURST.id]
