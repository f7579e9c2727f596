"""Names that an operator protects: found wherever well-known brands are, and never held against those who own them."""

import msgspec
import pytest
from tests.checks.readings import find_kinds, letter, links_to, mail_from

from gatepost.checks.known_names import MAX_PROTECTED_NAMES, find_imitated, index_protected
from gatepost.checks.links.urls import brand_in_path
from gatepost.checks.reading import Protected, Reading
from gatepost.checks.sender.lookalikes import lookalike
from gatepost.checks.sender.mailboxes import brand_name
from gatepost.checks.text.lures import brand_mention
from gatepost.lists.addresses import ProtectedName
from gatepost.mail.message import Link, Message

NAMES = frozenset(
    {
        ProtectedName("Quillhaven", ("quillhaven.example", "quillhaven-shop.example")),
        ProtectedName("Quillhaven Orbit"),
        ProtectedName("青葉銀行", ("aoba.example",)),
    }
)
PROTECTED = Protected(own_domains=frozenset({"house.example"}), names=NAMES)
IMPERSONATED = ["sender:brand-impersonation"]


def sent(name: str, domain: str, *hosts: str) -> Reading:
    return mail_from(f"info@{domain}", name, links=links_to(*hosts), protected=PROTECTED)


@pytest.mark.parametrize(
    ("name", "domain", "kinds"),
    [
        ("Quillhaven", "evil.test", IMPERSONATED),
        ("Quillhaven IT Support", "evil.test", IMPERSONATED),
        ("QUILLHAVEN Orbit", "evil.test", IMPERSONATED),
        ("Quillhaven", "gmail.com", IMPERSONATED),
        ("Quillhaven", "quillhaven.test", IMPERSONATED),  # the operator has named its domains: this is none of them
        ("Quіllhаven", "evil.test", ["sender:disguised-name", *IMPERSONATED]),  # Cyrillic letters
        ("青葉銀行カスタマーセンター", "evil.test", IMPERSONATED),
        ("Quillhaven", "quillhaven.example", []),
        ("Quillhaven", "mail.quillhaven-shop.example", []),
        ("Quillhaven Orbit", "house.example", []),  # an own domain uses every name
        ("青葉銀行", "aoba.example", []),
        ("Ann Example", "evil.test", []),
        ("Quill Haven", "evil.test", []),
        ("Quillhavens", "evil.test", []),
    ],
)
def test_display_names(name: str, domain: str, kinds: list[str]) -> None:
    assert find_kinds(brand_name, sent(name, domain)) == kinds


def test_what_the_operator_says_of_a_well_known_brand_is_true_of_it() -> None:
    """A subsidiary that is not in the shipped list of domains."""
    reading = sent("PayPal", "wallet.example")
    assert find_kinds(brand_name, reading) == IMPERSONATED
    names = frozenset({ProtectedName("PayPal", ("wallet.example",))})
    assert not list(brand_name(msgspec.structs.replace(reading, protected=Protected(names=names))))


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("quillhaven-login.test", True),
        ("quillhavn.test", True),
        ("quil1haven.test", True),
        ("secure.quillhavenorbit.evil.test", True),
        ("quillhaven-orbit-login.test", True),
        ("quillhaven.example", False),
        ("www.quillhaven-shop.example", False),
        ("quill.test", False),
        ("haven.test", False),
        ("house.example", False),
    ],
)
def test_hosts_that_look_like_a_name(host: str, found: bool) -> None:
    kinds = find_kinds(lookalike, sent("", host, host))
    assert kinds == (["sender:lookalike-domain", "url:lookalike-domain"] if found else [])


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://broken.test/quillhaven/login.php", True),
        ("https://broken.test/quillhaven-signin/a", True),
        ("https://broken.test/x/www.quillhaven.example/login", True),
        ("https://broken.test/news/quillhaven-opens-a-third-shop-with-login-desk", False),
        ("https://broken.test/quillhaven/minutes", False),
        ("https://quillhaven.example/quillhaven/login", False),
    ],
)
def test_paths_with_a_name(url: str, found: bool) -> None:
    link = Link(url, url, url.partition("://")[2].partition("/")[0], "", "1", "html")
    reading = Reading(Message(links=(link,)), protected=PROTECTED)
    assert find_kinds(brand_in_path, reading) == (["url:brand-in-path"] if found else [])


@pytest.mark.parametrize(
    ("subject", "text", "link", "sender", "found"),
    [
        ("Quillhaven mailbox", "Your mailbox is full. Verify your account.", "https://evil.test/", "a@b.test", True),
        ("Mailbox", "Quillhaven IT: your password expires today. Sign in to keep it.", "https://evil.test/",
         "a@b.test", True),
        # A supplier names its customer.
        ("Invoice for Quillhaven", "Your payment of 12.00 has been charged.", "https://evil.test/", "a@b.test", False),
        ("Quillhaven mailbox", "Your mailbox is full. Verify your account.", "https://quillhaven.example/",
         "a@b.test", False),
        ("Quillhaven mailbox", "Your mailbox is full. Verify your account.", "https://evil.test/",
         "it@house.example", False),
        ("Mailbox", "Your mailbox is full. Verify your account.", "https://evil.test/", "a@b.test", False),
    ],
)  # fmt: skip
def test_texts_that_speak_for_a_name(subject: str, text: str, link: str, sender: str, found: bool) -> None:
    reading = letter(text, subject, link=link, sender=sender, envelope=sender)
    kinds = find_kinds(brand_mention, msgspec.structs.replace(reading, protected=PROTECTED))
    assert kinds == (["text:brand-without-link"] if found else [])


def test_nothing_is_protected_by_default() -> None:
    assert not list(brand_name(mail_from("x@evil.test", "Quillhaven")))


@pytest.mark.variant
def test_entries_of_one_name_add_up_and_the_longest_of_too_many_are_left_out() -> None:
    one, two = ProtectedName("Quillhaven", ("a.example",)), ProtectedName("quillhaven", ("b.example",))
    (mention,) = find_imitated("Quillhaven", frozenset({one, two}))
    assert mention.brand.domains == {"a.example", "b.example"}
    many = frozenset(ProtectedName(f"Product {number:06d}") for number in range(MAX_PROTECTED_NAMES))
    long = ProtectedName("Product with a longer name than all others")
    assert find_imitated(long.name, many | {long}) == ()
    assert [each.brand.name for each in find_imitated("product 000017", many)] == ["Product 000017"]


def test_names_that_begin_alike_cost_no_more_than_one() -> None:
    """Whoever writes both the list and the mail: at each place of a text one piece is looked up for each length."""
    names = frozenset(ProtectedName("青葉" + chr(0x4E00 + number // 90) * (1 + number % 90)) for number in range(9_000))
    index = index_protected(names)
    assert len(index._lengths["青葉"]) == 90
    assert index.find("青葉" * 100) == ()
