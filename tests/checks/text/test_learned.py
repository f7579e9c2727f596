"""The checks of `text/learned`: the tricks, and what looks like them."""

import msgspec
import pytest
from tests.checks.readings import find_kinds
from tests.known_senders import SELDOM, know_list, know_sender

from gatepost.auth.results import Authentication, Dkim, Dmarc, Result
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.text.learned import (
    MANY_RECIPIENTS,
    WANTED_MOST,
    campaign,
    find_lowering,
    learnt_model,
    text_model,
)
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.policy.rules import shipped_policy
from gatepost.questions import Campaign, CampaignMarkedAs
from gatepost.textmodel.learnt import LearntModels, ModelScope, PoolRow, train_pool
from gatepost.textmodel.model import DeployedModels, ModelBlend

# The model speaks with degrees, for and against a mail, and not about returned mail.
OFFER = (
    "Buy cheap viagra and cialis now! Save 80% on all pills, no prescription needed! We ship worldwide, best price"
    " guaranteed or your money back. Click here and order today! http://pills.test/buy"
)
LETTER = (
    "Hi Bob,\n\nthanks for the patch. I think the second hunk needs a test; can you look at it before the meeting?\n"
)
NIGERIA = (
    "Dear friend, I am a barrister. My late client died and left the sum of ten million dollars. I want you to stand as"
    " the next of kin and beneficiary of the inheritance. This is strictly confidential. Reply with your bank details."
)
BANK = (
    "Dear customer, unusual activity: your account has been suspended. Please verify your account and confirm your"
    " password within 24 hours: log in at http://bank.test/login and update your billing information, or your account"
    " will be closed."
)


def model_reading(body: str, *fields: str, subject: str = "hello", envelope: str = "a@b.example") -> Reading:
    head = "\r\n".join(["From: A <a@b.example>", "To: c@d.example", f"Subject: {subject}", *fields])
    return Reading(read(f"{head}\r\n\r\n{body}\r\n".encode()), Envelope(envelope))


def model_strength(given: Reading) -> float:
    return max((finding.strength for finding in text_model(given)), default=0.0)


@pytest.mark.parametrize(
    ("body", "fields", "kinds"),
    [
        (OFFER, [], {"text:model-spam", "text:model-sure"}),
        (BANK, [], {"text:model-spam", "text:model-phishing", "text:model-sure"}),
        (NIGERIA, [], {"text:model-spam", "text:model-fraud", "text:model-sure"}),
        (LETTER, [], {"text:model-wanted"}),
        ("See you at noon.", [], set()),
        ("", [], set()),
    ],
)
def test_what_is_said(body: str, fields: list[str], kinds: set[str]) -> None:
    found = [finding for finding in text_model(model_reading(body, *fields)) if finding.strength > 0.3]
    assert {finding.kind for finding in found} == kinds


# What a sender can write, or have signed by a domain that it bought.
@pytest.mark.parametrize("body", [OFFER, BANK, NIGERIA, LETTER])
@pytest.mark.parametrize(
    "fields",
    [
        ["In-Reply-To: <1@d.example>", "References: <1@d.example>"],
        ["List-Post: <mailto:l@b.example>", "List-Id: <l.b.example>"],
        ["List-Unsubscribe: <https://b.example/u>", "List-Unsubscribe-Post: List-Unsubscribe=One-Click"],
        ["Precedence: bulk", "Auto-Submitted: auto-generated"],
        ["DKIM-Signature: v=1; a=rsa-sha256; d=b.example; s=s; h=from; bh=x; b=x"],
    ],
)
def test_fields_that_the_sender_writes_change_nothing(body: str, fields: list[str]) -> None:
    assert list(text_model(model_reading(body, *fields))) == list(text_model(model_reading(body)))


@pytest.mark.parametrize("domain", ["b.example", "mail.b.example", "other.example"])
@pytest.mark.parametrize("result", ["pass", "permerror", "fail"])
def test_a_signature_changes_nothing(domain: str, result: Result) -> None:
    plain = model_reading(OFFER)
    signed = msgspec.structs.replace(plain, authentication=Authentication(dkim=(Dkim(result, domain),)))
    assert list(text_model(signed)) == list(text_model(plain))


def test_links_to_the_sender_s_own_site_change_nothing() -> None:
    here, there = (
        Reading(read(f"From: A <a@{domain}>\r\nSubject: hello\r\n\r\n{OFFER}\r\n".encode()), Envelope(f"a@{domain}"))
        for domain in ("pills.test", "b.example")
    )
    assert list(text_model(here)) == list(text_model(there))


def test_it_decides_alone_only_where_it_is_sure_of_a_lure_of_a_proven_sender() -> None:
    policy = shipped_policy()
    most = policy.groups["model"].cap + policy.kinds["text:model-sure"].weight
    least = min(rule.threshold for rule in policy.verdicts.values() if rule.threshold)
    assert most < least <= most + policy.kinds["text:notice-lure"].weight
    assert "text:notice-lure" not in kinds_of(notice(LURE, result="fail"))


RECEIPT = (
    "Hi Dana, thank you for your order 20418. We received your payment of 24.90 and will send the parcel tomorrow."
    " You can follow it here: https://{site}/orders/20418 If you have questions, just answer this mail. Your Lamp Shop"
)
CONFIRM = (
    "Welcome to the Lamp Shop! Please confirm your e-mail address to activate your account. Click the link below:"
    " https://{site}/confirm/8f2 The link works for 24 hours. You get this mail because somebody signed up with it."
)
QUIET_LURE = (
    "Dear colleague, the holiday plan of the company was changed. Please open the list below, sign in with your mail"
    " account and confirm your days until tonight: https://{site}/plan Human resources thanks you for your help"
)
LURE = (
    "Dear customer, we could not process your last payment and your account will be closed today. Confirm your card"
    " number and your password within 24 hours to avoid the loss of all data: https://{site}/confirm Support team"
)


def notice(text: str, site: str = "lamps.example", result: Result = "pass") -> Reading:
    """A notice whose sender DMARC proves or not, with a link to a site."""
    raw = f"From: Lamp Shop <shop@lamps.example>\r\nSubject: Your order\r\n\r\n{text.format(site=site)}\r\n"
    authentication = Authentication(dmarc=Dmarc(result, "lamps.example"))
    return msgspec.structs.replace(
        Reading(read(raw.encode()), Envelope("shop@lamps.example")), authentication=authentication
    )


def kinds_of(reading: Reading) -> set[str]:
    return {finding.kind for finding in text_model(reading)}


def test_the_second_reader_is_believed_where_dmarc_proves_the_sender() -> None:
    """It adds to what reads like a lure; an honest notice is believed only where all links lead to the sender."""
    assert "text:notice-lure" in kinds_of(notice(LURE))
    assert "text:notice-lure" not in kinds_of(notice(LURE, result="fail"))
    assert model_strength(notice(QUIET_LURE)) > model_strength(notice(QUIET_LURE, result="fail")) > 0
    home, away, forged = notice(CONFIRM), notice(CONFIRM, "x.example"), notice(CONFIRM, result="fail")
    assert model_strength(home) < model_strength(away) == model_strength(forged) > 0
    assert kinds_of(notice(RECEIPT)) <= {"text:model-wanted"}


def test_it_says_less_on_a_few_words() -> None:
    short, long = (model_reading(text) for text in ("Buy cheap viagra now! " * times for times in (3, 10)))
    assert 0 < model_strength(short) < model_strength(long)


def test_the_finding_shows_what_weighed() -> None:
    first = next(iter(text_model(model_reading(OFFER))))
    assert float(first.facts["probability"]) > 0.8
    assert first.facts["weighed"]


GERMAN_BANK = (
    "Sehr geehrter Kunde, wir haben ungewöhnliche Aktivitäten festgestellt, Ihr Konto wurde gesperrt. Bitte bestätigen"
    " Sie umgehend Ihre Daten über den folgenden Link, sonst wird das Konto gelöscht: http://bank.test/login"
)


def test_a_second_reader_adds_to_texts_that_are_not_english() -> None:
    reading = model_reading(GERMAN_BANK)
    (blend,) = reading.models.all_tenants.models
    alone = DeployedModels(ModelBlend((msgspec.structs.replace(blend, letters=None),)))
    first, without = (
        next(iter(text_model(each))) for each in (reading, msgspec.structs.replace(reading, models=alone))
    )
    assert float(first.facts.pop("letters_classifier")) > 0.5
    assert first.facts == without.facts
    assert without.strength < first.strength <= 1
    assert "letters_classifier" not in next(iter(text_model(model_reading(BANK)))).facts


@pytest.mark.parametrize("sender", ["MAILER-DAEMON@b.example", "postmaster@b.example"])
def test_the_name_of_a_mail_system_is_no_proof_of_returned_mail(sender: str) -> None:
    assert list(text_model(model_reading(OFFER, envelope=sender))) == list(text_model(model_reading(OFFER)))
    raw = f"From: A <{sender}>\r\nTo: c@d.example\r\nSubject: hello\r\n\r\n{OFFER}\r\n"
    assert list(text_model(Reading(read(raw.encode()), Envelope("")))) == list(text_model(model_reading(OFFER)))


def report(envelope: str) -> Reading:
    raw = f"From: x@b.example\r\nContent-Type: multipart/report; boundary=b\r\n\r\n--b\r\n\r\n{OFFER}\r\n--b--\r\n"
    return Reading(read(raw.encode()), Envelope(envelope))


def test_the_form_of_a_report_excuses_nothing() -> None:
    assert model_strength(report("")) == model_strength(report("a@b.example")) > 0


# Near-copies of what people reported, and bursts; lists, newsletters and the own domain make none.
OFFERED_WORK = (
    "Our company looks for a representative in your region who works from home for a few hours each week and receives "
    "payments of our customers for us. No experience is needed, you keep ten percent of every transfer as your wage. "
    "Please answer with your name, your address and your age, and our manager will call you at once, dear {}."
)


UNSUBSCRIBE, LIST = "List-Unsubscribe: <https://b.example/u>", "List-Post: <mailto:l@b.example>"


def work_mail(name: str = "Ann", *fields: str) -> bytes:
    head = "\r\n".join(["From: A <a@b.example>", "Subject: work", *fields])
    return f"{head}\r\n\r\n{OFFERED_WORK.format(name)}\r\n".encode()


def campaign_kinds(raw: bytes, burst: Campaign = Campaign(), **more: object) -> list[str]:  # noqa: B008
    reading = Reading(read(raw), Envelope("a@b.example"), campaign=burst, **more)  # type: ignore[arg-type]
    return find_kinds(campaign, reading)


@pytest.mark.parametrize(
    ("fields", "recipients", "found"),
    [
        ([], MANY_RECIPIENTS, ["campaign:burst"]),
        ([], MANY_RECIPIENTS - 1, []),
        ([UNSUBSCRIBE], MANY_RECIPIENTS, ["campaign:burst"]),
        (["List-Id: <dev.b.example>", LIST], MANY_RECIPIENTS, ["campaign:burst"]),
    ],
)
def test_a_burst(fields: list[str], recipients: int, found: list[str]) -> None:
    assert campaign_kinds(work_mail("Ann", *fields), Campaign(30, recipients)) == found


def test_newsletters_and_lists_that_are_known_make_no_burst() -> None:
    burst = Campaign(30, MANY_RECIPIENTS)
    newsletter, post = (Reading(read(work_mail("Ann", each)), campaign=burst) for each in (UNSUBSCRIBE, LIST))
    assert not list(campaign(know_sender(newsletter)))
    assert not list(campaign(know_list(post)))
    for claimed in (know_sender(newsletter, SELDOM), know_sender(newsletter, aligned=False), know_list(post, SELDOM)):
        assert find_kinds(campaign, claimed) == ["campaign:burst"]
    assert list(campaign(know_sender(Reading(read(work_mail()), campaign=burst)))), "does not say that it is bulk mail"


def test_a_note_to_all_staff_is_no_burst() -> None:
    own = Protected(own_domains=frozenset({"b.example"}))
    proven = Authentication(dmarc=Dmarc("pass", spf_aligned=True))
    assert campaign_kinds(work_mail(), Campaign(30, 500), protected=own, authentication=proven) == []
    assert campaign_kinds(work_mail(), Campaign(30, 500), protected=own) == ["campaign:burst"]


@pytest.mark.parametrize(
    ("marked", "found"),
    [
        ("unwanted", ["campaign:marked", "campaign:burst"]),
        ("held", ["campaign:held", "campaign:burst"]),
        ("wanted", []),
        ("", ["campaign:burst"]),
    ],
)
def test_what_people_said_of_a_copy(marked: CampaignMarkedAs, found: list[str]) -> None:
    assert campaign_kinds(work_mail(), Campaign(30, 500, marked)) == found


def learnt(scope: ModelScope = "tenant") -> LearntModels:
    """A model that was taught that offers are unwanted and letters are wanted."""
    rows = [
        PoolRow(f"{number}{unwanted}", unwanted, model_reading(f"{body} {number}").row)
        for number in range(40)
        for unwanted, body in ((True, OFFER), (False, LETTER))
    ]
    model = train_pool(rows)
    assert model is not None
    return LearntModels((msgspec.structs.replace(model, version=3, scope=scope),))


def test_a_learnt_model_names_what_was_reported() -> None:
    taught = learnt()
    (found,) = learnt_model(msgspec.structs.replace(model_reading(OFFER), learnt=taught))
    assert found.kind == "text:learnt-unwanted"
    assert 0 < found.strength <= 1
    assert found.facts["taught_by"] == "80 reports of the tenant (model 3)"


def test_what_people_want_quietens_the_text_model_and_nothing_else() -> None:
    letter = model_reading(LETTER)
    wanted = msgspec.structs.replace(letter, learnt=learnt())
    (found,) = learnt_model(wanted)
    assert found.kind == "text:learnt-wanted"
    assert 0 < find_lowering(wanted) <= WANTED_MOST
    assert "more softly" in found.facts["effect"]
    assert find_lowering(letter) == 0.0
    mixed = model_reading(f"{OFFER} {LETTER * 3}")
    loud = model_strength(mixed)
    assert model_strength(msgspec.structs.replace(mixed, learnt=learnt())) <= loud


@pytest.mark.parametrize("body", ["", "Hello", "Zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich"])
def test_without_models_or_words_nothing_is_learnt(body: str) -> None:
    assert list(learnt_model(model_reading(body))) == []
    assert list(learnt_model(msgspec.structs.replace(model_reading(body), learnt=LearntModels()))) == []


def test_a_bounce_is_judged_by_what_was_reported() -> None:
    taught = learnt("deployment")
    for given in (report(""), model_reading(OFFER, envelope="MAILER-DAEMON@b.example")):
        found = find_kinds(learnt_model, msgspec.structs.replace(given, learnt=taught))
        assert found == ["text:learnt-unwanted"]
