"""The mail of a digest: what a reader sees, and what hostile mail cannot do in it."""

import re
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import msgspec
import pytest

from gatepost.analysis.report import Report
from gatepost.digests.mail import (
    DigestPlan,
    _read_all,
    build_digest,
    choose_texts,
    find_plural,
    find_texts,
    list_languages,
)
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import VERDICTS
from gatepost.store.digests import Digest, DigestKey, DigestPreferences
from gatepost.store.message_records import MessageRecord
from gatepost.store.quarantine import HeldMessage

NOW = 1_800_000_000_000
PLAN = DigestPlan("filter@gw.example", "https://mail.example", DigestKey(1, bytes(32), 0), NOW + 86_400_000)
DIGEST = Digest(new_id(), None, "bob@example.com", NOW - 1, NOW)
LINK = re.compile(r"https://mail\.example/digest/[A-Za-z0-9_-]+")


def held(
    subject: str = "Offer", verdict: Any = "spam", name: str = "", sender: str = "ann@shop.example"
) -> HeldMessage:
    report = Report(
        verdict, "quarantine", (), 700, "it adds up", subject=subject, senders=(sender,), sender_names=(name,)
    )
    record = MessageRecord(new_id(), NOW, NOW, Envelope(sender, ("bob@example.com",)), 9, "ab" * 32, report)
    return HeldMessage(record, NOW, "held")


def built(*messages: HeldMessage, left_out: int = 0, **preferences: Any) -> tuple[EmailMessage, str, str]:
    """The message as a reader's program parses it, its text and its page."""
    mail = build_digest(DIGEST, messages, left_out, DigestPreferences(enabled=True, **preferences), PLAN)
    raw = mail.as_bytes()
    assert raw.isascii()
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    parsed = message_from_bytes(raw, policy=default)
    assert isinstance(parsed, EmailMessage)
    text, page = parsed.get_body(("plain",)), parsed.get_body(("html",))
    assert text
    assert page
    return parsed, text.get_content(), page.get_content()


def test_headers_say_what_it_is() -> None:
    mail, _, _ = built(held())
    assert mail.get_content_type() == "multipart/alternative"
    assert (mail["From"], mail["To"]) == ("filter@gw.example", "bob@example.com")
    assert mail["Message-ID"] == f"<digest-{DIGEST.id}@gw.example>", "the same digest is the same message"
    assert (mail["Auto-Submitted"], mail["Precedence"]) == ("auto-generated", "bulk")
    assert mail["List-Id"] == "<digest.gw.example>"
    assert mail["Subject"] == "1 message held for you"


def test_both_forms_have_the_same_links_and_nothing_else_to_click_on() -> None:
    hostile = held("See https://evil.example/x and www.evil.example or HTTP://a.b.example", name="bank.example")
    _, text, page = built(held(), hostile, own_entries=True)
    assert len(LINK.findall(text)) == 3
    assert set(LINK.findall(page)) == set(LINK.findall(text))
    for form in (text, page):
        rest = LINK.sub("", form)
        assert "://" not in rest.replace("hxxps://", "").replace("hxxp://", "").replace("hxxP://", "")
        assert "evil.example" not in rest
        assert "hxxps://evil[.]example/x" in rest
        assert "bank[.]example" in rest


@pytest.mark.parametrize(
    "nasty",
    [
        "\u202egpj.exe",
        "a\r\nBcc: x@evil.example\r\n\r\nbody",
        "<script>alert(1)</script>",
        "</td></table><a href='https://evil.example'>here",
        "x" * 900,
        "e" + "\u0301" * 900,
        "\u05e9\u05dc\u05d5\u05dd",
        "\0\x1b[31m\u2066\u2029",
        "{count}{address}{0}",
        "\ud83d",
        "&lt;b&gt;",
    ],
)
def test_hostile_text_is_text(nasty: str) -> None:
    mail, text, page = built(held(nasty, name=nasty, sender=f"{nasty[:50]}@evil.example"), intro=nasty[:800])
    assert set(mail.keys()) >= {"From", "To", "Subject"}
    assert mail["Bcc"] is None
    for form in (text, page):
        shown = form.replace("\u2068", "").replace("\u2069", "")
        assert not re.search("[\0\x1b\u202a-\u202e\u2066-\u2067\u2029]", shown)
    assert page.count("<a ") == 1
    assert "<script" not in page
    assert len(text) < 6_000


def test_what_a_recipient_may_do_follows_from_the_verdict() -> None:
    for verdict in VERDICTS:
        _, text, _ = built(held(verdict=verdict))
        assert ("Request release: https" in text) is (verdict not in ("spam", "bulk"))


def test_words_of_the_tenant_and_its_language() -> None:
    mail, text, page = built(held(), held(), left_out=7, language="de", zone="Europe/Berlin", intro="Fragen: 4711\nIT")
    assert mail["Subject"] == "9 Nachrichten für Sie zurückgehalten"
    assert "Fragen: 4711\r\nIT" in text
    assert '<html lang="de" dir="ltr">' in page
    assert mail["Content-Language"] == "de"
    assert "7 weitere Nachrichten" in text
    assert "Europe/Berlin" in text
    assert find_texts("xx").code == "en"


LANGUAGES = ["en", "ar", "de", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh-Hans"]
# Which numbers show every form that a language has, with the form of each.
FORMS = {
    "en": {0: "other", 1: "one", 2: "other"},
    "fr": {0: "one", 1: "one", 2: "other"},
    "ja": {1: "other", 7: "other"},
    "pl": {1: "one", 2: "few", 5: "many", 12: "many", 21: "many", 22: "few", 112: "many"},
    "ru": {1: "one", 2: "few", 5: "many", 11: "many", 21: "one", 24: "few", 111: "many"},
    "ar": {1: "one", 2: "two", 3: "few", 10: "few", 11: "many", 99: "many", 100: "other", 103: "few"},
}
COUNTED = re.compile(r"(subject|more)_(one|two|few|many|other)")


def stated_texts(code: str) -> dict[str, str]:
    """The texts of a language's own file."""
    return _read_all()[code]


def test_every_language_has_every_text() -> None:
    english, fields = stated_texts("en"), re.compile(r"\{\w+\}")
    keys = {key for key in english if not COUNTED.fullmatch(key)} - {"direction"}
    assert [code for code, _ in list_languages()] == LANGUAGES
    for code in LANGUAGES:
        texts = stated_texts(code)
        assert {key for key in texts if not COUNTED.fullmatch(key)} - {"direction"} == keys, code
        assert len(texts["months"].split(",")) == 12
        for key in keys - {"months", "date"}:
            assert texts[key].strip(), (code, key)
            assert sorted(fields.findall(texts[key])) == sorted(fields.findall(english[key])), (code, key)
        forms = {find_plural(code, number) for number in range(200)} | {"other"}
        for key in ("subject", "more"):
            assert {f"{key}_{form}" for form in forms if f"{key}_{form}" not in texts} <= {f"{key}_one"}, code
            for form in forms - {"one", "two"}:
                assert "{count}" in texts[f"{key}_{form}"], (code, key, form)
    assert {f"reason_{verdict}" for verdict in VERDICTS} <= keys


@pytest.mark.parametrize("code", FORMS)
def test_numbers_have_the_form_of_the_language(code: str) -> None:
    assert {number: find_plural(code, number) for number in FORMS[code]} == FORMS[code]


def test_a_number_and_a_day_in_words() -> None:
    russian = find_texts("ru")
    assert [russian.say_count("subject", number) for number in (1, 3, 5, 21)] == [
        "Для вас задержано 1 письмо",
        "Для вас задержано 3 письма",
        "Для вас задержано 5 писем",
        "Для вас задержано 21 письмо",
    ]
    day = datetime(2026, 5, 7, tzinfo=UTC)
    said = {code: find_texts(code).write_date(day) for code in ("en", "de", "es", "pl", "ja", "ar")}
    assert said == {
        "en": "7 May 2026",
        "de": "7. Mai 2026",
        "es": "7 de mayo de 2026",
        "pl": "7 maja 2026",
        "ja": "2026年5月7日",
        "ar": "7 مايو 2026",
    }


def test_a_digest_from_right_to_left() -> None:
    mail, text, page = built(held(), held(), language="ar")
    assert mail["Subject"] == "رسالتان محتجزتان لك"
    assert '<html lang="ar" dir="rtl">' in page
    assert '<body dir="rtl"' in page
    assert mail.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]
    assert "السبب" in text


@pytest.mark.parametrize(
    ("preferred", "accepted", "code"),
    [
        ("fr", "de", "fr"),
        ("", "de-AT, en;q=0.5", "de"),
        ("", "en;q=0.3, ja;q=0.9", "ja"),
        ("", "zh-CN,zh;q=0.9", "zh-Hans"),
        ("", "zh-TW, fr;q=0.2", "fr"),
        ("", "sv, ru;q=0.1", "ru"),
        ("", "de;q=0", "en"),
        ("", "", "en"),
        ("", "x" * 10_000 + ";q=9,,;q,*", "en"),
        ("xx", "de", "en"),
    ],
)
def test_the_language_of_a_page(preferred: str, accepted: str, code: str) -> None:
    assert choose_texts(preferred, accepted).code == code


def test_an_address_that_no_header_takes_stands_in_the_envelope_alone() -> None:
    odd = msgspec.structs.replace(DIGEST, address="ü\u202e(x)@example.com")
    mail = build_digest(odd, [held()], 0, DigestPreferences(), PLAN)
    assert mail["To"] == "undisclosed-recipients:;"
