"""Letters as services send them: the same each time, readable, and proven by the DNS that comes with them."""

import json
from collections import Counter
from email import message_from_bytes
from pathlib import Path

import pytest
from tools.layouts import lay_out
from tools.letters import NOTICES, list_books, read_letters
from tools.wanted_mail import judge_folder

from gatepost.mail.reader import read

TEXT = """Hi Dana <3,

[Pay now](https://shop.example/pay?x=1)

Cup: 12.00
Total: 12.00

• one
• two

See [our help](https://help.shop.example/).

Shop Ltd, 1 High Street
"""
LANGUAGES = (
    "ar bg ca cs da de el en es et fa fi fr he hi hr hu id it ja ko lt nb nl pl pt ro ru sk sv th tr uk vi zh zht"
).split()


def test_a_notice_looks_the_same_each_time_and_others_look_different() -> None:
    first, again = (lay_out("Shop", "a@mail.shop.example", "Your order", TEXT) for _ in range(2))
    assert first == again
    looks = [read(lay_out("Shop", "a@shop.example", "x", f"{TEXT}\n{number}").raw) for number in range(60)]
    assert {len(look.texts) for look in looks} == {1, 2}, "some have a plain half, some have not"
    pages = [part.content for look in looks for part in look.parts if part.content_type == "text/html"]
    marks = {b'id="wrapper"': 0, b"mj-column": 0, b'class="wrap"': 0, b"max-width:560px": 0, b"utm_source": 0}
    marks |= {b'width="1" height="1"': 0, b"<li>one</li>": 0, b"Hi Dana &lt;3": 0, b"display:inline-block": 0}
    found = Counter(mark for page in pages for mark in marks if mark in page)
    assert set(found) == set(marks), "every layout, a pixel, a list, a button, a counter of clicks"
    assert found[b"Hi Dana &lt;3"] == len(pages), "what a letter says is no markup"


def test_links_lead_where_the_letter_says_or_through_a_host_of_the_same_site() -> None:
    for number in range(40):
        message = read(lay_out("Shop", "a@shop.example", "x", f"{TEXT}\n{number}").raw)
        assert {link.host.split(".")[-2] for link in message.links if link.host} == {"shop"}


@pytest.mark.parametrize("kind", ["ham", "phish"])
def test_dns_proves_the_sender(kind: str, tmp_path: Path) -> None:
    letter = next(each for each in read_letters("en-notices") if each.kind == kind)
    notice = lay_out(*letter.split_sender(), letter.subject, letter.text)
    (tmp_path / "a.eml").write_bytes(notice.raw)
    (tmp_path / "zone.json").write_text(json.dumps(notice.records))
    names = "path corpus label class language client_ip helo mail_from".split()
    row = ["a.eml", "x", letter.label, letter.theme, "en", notice.client, notice.helo, notice.mail_from]
    (tmp_path / "INDEX.tsv").write_text("\t".join(names) + "\n" + "\t".join(row) + "\n")
    (found,) = judge_folder(tmp_path)
    assert found.is_good == (kind == "ham")
    assert not any(kind.startswith(("auth:", "host:", "helo:")) for kind in found.kinds), found.kinds


def test_every_language_has_notices_and_lures_of_every_class() -> None:
    books = {book.removesuffix(NOTICES): read_letters(book) for book in list_books() if book.endswith(NOTICES)}
    assert sorted(books) == sorted(LANGUAGES)
    for language, letters in books.items():
        good = Counter(letter.theme for letter in letters if letter.kind == "ham")
        assert good.total() >= 42, language
        assert len(letters) - good.total() >= 30, language
        assert {"order", "shipping", "invoice", "refund", "reset", "confirm", "reminder"} <= set(good), language


def test_a_notice_names_the_service_that_sends_it() -> None:
    fields = Counter(
        name for number in range(60) for name in message_from_bytes(lay_out("S", "a@s.example", "x", f"{number}").raw)
    )
    assert {"X-SG-EID", "X-Mailgun-Sid", "Feedback-ID", "X-Mailer", "List-Unsubscribe"} <= set(fields)
