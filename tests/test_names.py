"""Addresses, domains and look-alikes: each attack beside what honest senders write."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from publicsuffixlist import PublicSuffixList

from gatepost import names
from gatepost.mail.headers import parse_addresses
from gatepost.mail.links import parse_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Example.COM.", "example.com"),
        (" example.com ", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("faß.de", "xn--fa-hia.de"),  # nontransitional processing, as browsers do
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),  # an ideographic full stop is a dot
        ("ｅｘａｍｐｌｅ．com", "example.com"),
        ("аррle.com", "xn--le-6kc8da.com"),
        ("XN--LE-6KC8DA.com", "xn--le-6kc8da.com"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("a..b", "a..b"),  # refused by IDNA, kept
        ("\ud800.com", "\ud800.com"),
        ("", ""),
        (".", ""),
    ],
)
def test_normal_domain(text: str, expected: str) -> None:
    assert names.normal_domain(text) == expected


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("xn--bcher-kva.example", "bücher.example"),
        ("xn--le-6kc8da.com", "аррle.com"),
        ("example.com", "example.com"),
        ("xn--999999999.com", "xn--999999999.com"),  # no punycode
        ("xn--.com", "xn--.com"),
    ],
)
def test_unicode_domain(domain: str, expected: str) -> None:
    assert names.unicode_domain(domain) == expected


@pytest.mark.parametrize(
    ("domain", "suffix", "owner"),
    [
        ("mail.example.com", "com", "example.com"),
        ("a.b.example.co.uk", "co.uk", "example.co.uk"),
        ("alice.github.io", "github.io", "alice.github.io"),  # private section: every user is an owner
        ("x.y.s3.amazonaws.com", "s3.amazonaws.com", "y.s3.amazonaws.com"),
        ("co.uk", "co.uk", "co.uk"),
        ("com", "com", "com"),
        ("host.unknowntld", "unknowntld", "host.unknowntld"),
        ("EXAMPLE.Com.", "com", "example.com"),
        ("xn--bcher-kva.example.de", "de", "example.de"),
        ("192.0.2.1", "", "192.0.2.1"),
        ("[2001:db8::1]", "", "[2001:db8::1]"),
        ("", "", ""),
    ],
)
def test_owner(domain: str, suffix: str, owner: str) -> None:
    names.preload_suffixes()
    assert (names.public_suffix(domain), names.org_domain(domain)) == (suffix, owner)


SUFFIX_LISTS = (
    (names._load_suffixes(), PublicSuffixList()),
    (names._load_icann_suffixes(), PublicSuffixList(only_icann=True, accept_unknown=False)),
)


def test_the_list_is_read_as_its_package_reads_it() -> None:
    for ours, theirs in SUFFIX_LISTS:
        assert ours._rules == theirs._publicsuffix
        assert ours._most == theirs._maxlabel + 1


LABELS = st.sampled_from(
    "com co uk ck www kobe jp city github io sch kawasaki example xn--bcher-kva * !www *.ck a mm s3".split()
)


@given(st.lists(LABELS | st.text("aZ.é*!", max_size=3), max_size=12), st.sampled_from(("", ".", "..")))
def test_the_same_suffixes_as_the_package(labels: list[str], end: str) -> None:
    domain = ".".join(labels) + end
    for ours, theirs in SUFFIX_LISTS:
        expected = theirs.publicsuffix(domain) or "", theirs.privatesuffix(domain) or ""
        assert ours.split(domain) == expected, domain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<Ann+News@EXAMPLE.com>", "ann+news@example.com"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("<>", ""),
        ("", ""),
        ('"ann"@example.com', "ann@example.com"),
        ('"ann smith"@example.com', '"ann smith"@example.com'),
        ("<@relay.example,@b.example:ann@example.com>", "ann@example.com"),
        ("Stra\u00dfe@example.com", "strasse@example.com"),
        ("e\u0301@example.com", "\u00e9@example.com"),  # NFC
        ("postmaster", "postmaster"),
        ("a@b@example.com", "a@b@example.com"),
        ("ann@example.com.", "ann@example.com"),
    ],
)
def test_normal_address(text: str, expected: str) -> None:
    assert names.normal_address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("billing@bank.example", ["billing@bank.example"]),
        ("Bank (billing@Bank.Example) via list", ["billing@bank.example"]),
        ("billing＠bank.example", ["billing@bank.example"]),
        ("a@x.example, b@y.example; a@x.example", ["a@x.example", "b@y.example"]),
        ("'o'neil@bank.example'", ["'o'neil@bank.example"]),
        ("Ann Example", []),
        ("sold @ market", []),
        ("user@localhost", []),
        ("@@@", []),
        ("", []),
    ],
)
def test_addresses_in(text: str, expected: list[str]) -> None:
    assert [str(address) for address in names.find_shown_addresses(text)] == expected


def test_addresses_are_bounded() -> None:
    many = " ".join(f"a{number}@x.example" for number in range(10_000))
    assert len(names.find_shown_addresses(many)) == names.MAX_SHOWN
    assert names.find_shown_addresses("a@" * 1_000_000) == ()


@pytest.mark.parametrize(
    ("fake", "real"),
    [
        ("раураl", "paypal"),  # Cyrillic
        ("ΡΑΥΡΑL", "PAYPAL"),  # Greek capitals
        ("ραyραl", "paypal"),
        ("ᏢᎪᎩᏢᎪᏞ".replace("Ꭹ", "Ꮍ"), "paypal"),  # Cherokee
        ("ｐａｙｐａｌ", "paypal"),
        ("𝐩𝗮𝓎𝚙𝖆𝕝", "paypal"),
        ("ⓟaypal", "paypal"),
        ("PayPaI", "paypal"),
        ("paypa1", "paypal"),
        ("g00gle", "google"),
        ("rnicrosoft", "microsoft"),
        ("vvells", "wells"),
        ("àmázón", "amazon"),
        ("pay\u200bpal", "paypal"),
        ("օutlook", "outlook"),  # Armenian
        ("ꓮmazon", "amazon"),  # Lisu
        ("łinkedin", "linkedin"),
    ],
)
def test_look_alikes_share_a_skeleton(fake: str, real: str) -> None:
    assert names.skeleton(fake) == names.skeleton(real)


@pytest.mark.parametrize(
    ("one", "other"),
    [("paypal", "payroll"), ("Ian", "lan"), ("amazon", "amazing"), ("bank", "tank"), ("google", "goggle")],
)
def test_others_do_not(one: str, other: str) -> None:
    assert names.skeleton(one) != names.skeleton(other)


@pytest.mark.parametrize(
    ("text", "is_mixed"),
    [
        ("раypal", True),
        ("gооgle.com", True),
        ("Αmazon", True),
        ("paypal", False),
        ("Иван Ivanov", False),  # two words, two scripts
        ("россия.example.com", False),
        ("日本語ドメインabc", False),
        ("한국LG", False),
        ("Müller", False),
        ("123-456", False),
        ("", False),
    ],
)
def test_mixed_scripts(text: str, is_mixed: bool) -> None:
    assert names.is_mixed_script(text) is is_mixed


def test_scripts() -> None:
    assert names.scripts("abc 123") == {"LATIN"}
    assert names.scripts("ｆullwidth") == {"LATIN"}
    assert names.scripts("абв где") == {"CYRILLIC"}
    assert names.scripts("раypal") == {"CYRILLIC", "LATIN"}
    assert names.scripts("42 %") == frozenset()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("192.0.2.1", True), ("[::1]", True), ("::1", True), ("1.2.3", False), ("1and1.example", False), ("", False)],
)
def test_is_ip(host: str, expected: bool) -> None:
    assert names.is_ip(host) is expected


@given(st.text())
def test_names_are_total(text: str) -> None:
    domain = names.normal_domain(text)
    assert names.normal_domain(domain) == domain
    assert names.normal_address(f"<{text.strip()}>") == names.normal_address(text) or text.strip()[:1] in ("<", "@")
    assert names.skeleton(text).lower() == names.skeleton(text)
    assert names.org_domain(text).endswith(names.public_suffix(text))
    assert isinstance(names.unicode_domain(text), str)
    assert isinstance(names.is_mixed_script(text), bool)
    assert all(isinstance(found, names.Address) for found in names.find_shown_addresses(text))


MARKS = re.compile(r"[\u0300-\u036f\u200b-\u200f\u2060\u00ad\ufe00-\ufe0f\ufeff]+")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Crème brûlée", "Creme brulee"),
        ("Größe\xa0Ærø, 5 £ © º", "Große Ærø, 5 £ © o"),
        ("", ""),
        ("½ cup", None),
        ("soft\xadhyphen", None),
        ("\0", None),
        ("Привет", None),
        ("e\u0301", None),
    ],
)
def test_accents_go_and_the_rest_stays(text: str, plain: str | None) -> None:
    assert names.remove_accents(text) == plain


@given(st.text(st.characters(max_codepoint=0x17F)))
def test_it_never_disagrees_with_the_normal_form(text: str) -> None:
    assert names.remove_accents(text) in (None, MARKS.sub("", unicodedata.normalize("NFKD", text)))


def test_answers_are_kept_and_bounded() -> None:
    asked: list[str] = []

    def answer(text: str) -> int:
        asked.append(text)
        return len(text)

    known = names.KnownAnswers(answer, most=3)
    ask = known.__getitem__
    assert [ask(each) for each in ("a", "bb", "a", "ccc", "dddd", "a")] == [1, 2, 1, 3, 4, 1]
    assert asked == ["a", "bb", "ccc", "dddd"]  # the first one was asked for before the last three, and is still known
    for number in range(100):
        ask(str(number))
    assert len(known) <= 3
    assert ask("a") == 1
    assert asked.count("a") == 2


def test_long_texts_are_not_kept() -> None:
    known = names.KnownAnswers(str.upper)
    assert known["x" * 256] == "X" * 256
    assert not known


@pytest.mark.parametrize("name", ["a." * 127 + "example.com", "www." * 60_000 + "example.com", "a" * 254])
def test_a_name_that_is_too_long_is_no_host(name: str) -> None:
    """Nothing resolves it, so that no check needs to look at it."""
    assert (names.normal_domain(name), names.org_domain(name), names.public_suffix(name)) == ("", "", "")
    assert names._load_suffixes().split(name) == ("", "")
    assert parse_url(f"https://{name}/x").host == ""
    (address,), _ = parse_addresses(f"Ann <ann@{name}>", 9)
    assert (address.name, address.domain) == ("Ann", "")
    assert address.local.startswith("ann@")


def test_the_longest_name_is_a_host() -> None:
    name = "a." * 121 + "example.com"
    assert len(name) == names.MAX_HOST
    assert names.org_domain(name) == "example.com"
    assert parse_url(f"https://{name}/x").host == name
    assert str(parse_addresses(f"ann@{name}", 9)[0][0]) == f"ann@{name}"
