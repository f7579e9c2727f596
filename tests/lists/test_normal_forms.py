"""Normal forms: any spelling of the same entry is the same entry, what is too wide is refused, and the short way for
entries that are their own normal form leads where the long one does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.lists import addresses, entries, links
from gatepost.lists.addresses import normalise_sender, normalise_tenant_domain
from gatepost.lists.catalogue import BY_NAME, KINDS, LISTS, is_custom_name
from gatepost.lists.entries import ListRefusal, NormalForm, normalise_network
from gatepost.lists.links import _PLAIN_URL, normalise_url

HASH = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"


@pytest.mark.parametrize(
    ("name", "spellings", "normal"),
    [
        ("blocked-senders", ["Ann@Example.COM", "<ann@example.com>", " ann@example.com "], "ann@example.com"),
        ("blocked-senders", ["ann+news@example.com"], "ann+news@example.com"),
        ("blocked-senders", ["root@localhost", "Root@LOCALHOST"], "root@localhost"),
        ("blocked-senders", ["@localhost", "localhost"], "localhost"),
        ("blocked-senders", ["Jörg@BÜCHER.example", "jo\u0308rg@xn--bcher-kva.example"], "jörg@xn--bcher-kva.example"),
        ("blocked-senders", ["Example.COM.", "@example.com", "example.com"], "example.com"),
        ("blocked-senders", ["*.Example.COM", "*@*.example.com", "@*.example.com"], "*.example.com"),
        (
            "blocked-senders",
            [
                "Ann Example <ann@example.com>",
                '"Example, Ann" <ANN@example.com>',
                "Ann<ann@example.com>",
                "ann[@]example[.]com",
            ],
            "ann@example.com",
        ),
        ("blocked-senders", ["*@example.com", "<@example.com>", "example[.]com", "example(dot)com"], "example.com"),
        ("blocked-senders", ["ann@[192.0.2.1]", "Ann@[192.0.2.1]"], "ann@[192.0.2.1]"),
        ("blocked-ips", ["192[.]0[.]2[.]1", "[192.0.2.1]"], "192.0.2.1"),
        ("blocked-ips", ["[IPv6:2001:DB8::1]", "2001:db8::1/128"], "2001:db8::1"),
        (
            "blocked-urls",
            [
                "evil.example/login",
                "evil.example/%6cogin",
                "evil.example/%6Cogin",
                "evil.example//login",
                "evil.example/./login",
                "evil.example//.x/../login",
                "evil.example//.x/./../login",
                "evil.example/x/../login",
                "evil.example/x/%2e%2E/login",
                "evil.example\\\\login",
                "hxxps://evil[.]example/login",
                "hXXp[:]//evil(.)example/login",
                "hxxp[://]evil[dot]example//%6cogin",
            ],
            "evil.example/login",
        ),
        ("blocked-urls", ["a.example/caf%c3%a9", "a.example/caf%C3%A9", "a.example/café"], "a.example/caf%C3%A9"),
        ("blocked-urls", ["a.example/a|b", "a.example/a%7cb"], "a.example/a%7Cb"),
        ("blocked-urls", ["a[.]example/b[.]php", "hxxp://a(dot)example/b.php"], "a.example/b.php"),
        ("blocked-urls", ["a.example/c(at)d"], "a.example/c(at)d"),
        ("blocked-urls", ["a.example/x?q=%41%3d%7E", "a.example//x?q=A%3D~"], "a.example/x?q=A%3D~"),
        ("blocked-urls", ["a.example/%%36c", "a.example/%256c"], "a.example/%256c"),
        ("blocked-urls", ["a.example/*", "*://a.example/*", "a.example"], "a.example"),
        ("blocked-urls", ["a.example/b/*", "a.example/b/"], "a.example/b/"),
        ("blocked-urls", ["https://*.a.example/*", "*.a.example/", "*.a.example"], "*.a.example"),
        ("blocked-files", [f"sha256:{HASH}", HASH], HASH.lower()),
        ("blocked-ips", ["192.0.2.77/24", "192.0.2.0/24", "::ffff:192.0.2.9/120"], "192.0.2.0/24"),
        ("blocked-ips", ["192.0.2.1/32", "192.0.2.1", "::ffff:192.0.2.1"], "192.0.2.1"),
        ("blocked-ips", ["2001:DB8:0:0::/32", "2001:db8::/32"], "2001:db8::/32"),
        ("blocked-urls", ["https://Evil.example/", "evil.example", "http://evil.example:80/#top"], "evil.example"),
        ("blocked-urls", ["evil.example/A/../Path?q=1#frag"], "evil.example/Path?q=1"),
        ("blocked-urls", ["http://user@evil.example:8080/x"], "evil.example:8080/x"),
        ("blocked-urls", ["*.Evil.example"], "*.evil.example"),
        ("blocked-urls", ["http://0x7f.1/x", "127.0.0.1/x"], "127.0.0.1/x"),
        ("blocked-urls", ["bücher.example/ä"], "xn--bcher-kva.example/%C3%A4"),
        ("blocked-files", [HASH, HASH.lower(), f" {HASH} "], HASH.lower()),
        ("blocked-file-types", [".DOCM", "*.docm", "docm"], "docm"),
        ("blocked-file-types", ["Application/ZIP"], "application/zip"),
        (
            "blocked-file-names",
            ["Invoice*.ISO", "\u202einvoice**.iso. ", '"invoice*.iso"', "ｉnvoice＊.iso;1"],
            "invoice*.iso",
        ),
        ("blocked-file-names", ["*.PDF.exe"], "*.pdf.exe"),
        ("blocked-file-names", ["Übersicht\u00a07.xlsm"], "übersicht 7.xlsm"),
        (
            "blocked-phrases",
            ["  Überweisung   HEUTE ", "uberweisung heute", "U\u0308berweisung\theute"],
            "uberweisung heute",
        ),
        ("own-domains", ["*.Example.com", "@example.com", "example.com."], "example.com"),
        ("protected-people", ["Ann  Example <Ann@Example.com>"], "Ann  Example <ann@example.com>"),
        (
            "protected-names",
            ["Example  Bank <Example.net, *.example.com>", '"Example Bank" <example.com;example.net>'],
            "Example Bank <example.com, example.net>",
        ),
        ("protected-names", ["Example Bank", "Example Bank <>"], "Example Bank"),
        ("protected-names", ["青葉"], "青葉"),
    ],
)
def test_spellings_of_one_entry(name: str, spellings: list[str], normal: str) -> None:
    definition = BY_NAME[name]
    forms = {definition.normalise(spelling) for spelling in spellings}
    assert len(forms) == 1, forms
    form = forms.pop()
    assert isinstance(form, NormalForm), form
    assert form.shown == normal


def test_people_keep_their_spelling_and_compare_folded() -> None:
    one, two = (
        BY_NAME["protected-people"].normalise(text) for text in ("Ænn Éx <a@b.example>", "ænn ex <A@b.example>")
    )
    assert isinstance(one, NormalForm)
    assert isinstance(two, NormalForm)
    assert one.key == two.key
    assert one.shown != two.shown


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("blocked-senders", "*"),
        ("blocked-senders", ""),
        ("blocked-senders", "com"),
        ("blocked-senders", "co.uk"),
        ("blocked-senders", "*.com"),
        ("allowed-senders", "github.io"),
        ("allowed-senders", "*.github.io"),
        ("blocked-senders", "ann@"),
        ("blocked-senders", "*@*"),
        ("blocked-senders", "two words"),
        ("blocked-senders", "MAILER-DAEMON"),
        ("blocked-senders", "@ann"),
        ("blocked-ips", "11.0.0.0/7"),
        ("blocked-ips", "2a00::/15"),
        ("allowed-ips", "8.8.0.0/15"),
        ("allowed-ips", "2a00::/31"),
        ("blocked-ips", "example.com"),
        ("blocked-urls", "*"),
        ("blocked-urls", "co.uk"),
        ("allowed-urls", "*.github.io"),
        ("blocked-urls", "ftp://example.com/x"),
        ("blocked-files", HASH[:-1]),
        ("blocked-file-types", "a b"),
        ("blocked-file-names", "*"),
        ("blocked-file-names", "*.*"),
        ("blocked-file-names", "**..**"),
        ("blocked-file-names", "a*b*c*d"),
        ("blocked-file-names", "*---*"),
        ("blocked-file-names", "*.a"),
        ("blocked-file-names", "x" * 256),
        ("blocked-phrases", "ab"),
        ("blocked-phrases", "???"),
        ("own-domains", "co.uk"),
        ("protected-people", "Ann Example"),
        ("protected-people", "<ann@example.com>"),
        ("protected-names", "<example.com>"),
        ("protected-names", "Example Bank <ann@example.com>"),
        ("protected-names", "ann@example.com"),
        ("protected-names", "x" * 101),
        ("blocked-senders", "a" * 1001 + "@example.com"),
    ],
)
def test_refused(name: str, entry: str) -> None:
    assert isinstance(BY_NAME[name].normalise(entry), ListRefusal)


@pytest.mark.parametrize(
    ("name", "entry", "reason"),
    [
        ("blocked-senders", "  ", "is empty"),
        ("blocked-senders", "foo@@bar.example", "more than one @"),
        ("blocked-senders", "a@b.example,c@d.example", "more than one @"),
        ("blocked-senders", "mailto:ann@example.com", "is a link"),
        ("blocked-senders", "https://example.com/", "is a link"),
        ("blocked-senders", "192.0.2.1", "is an IP address"),
        ("blocked-senders", "*@192.0.2.1", "is an IP address"),
        ("blocked-senders", "*.192.0.2.1", "is an IP address"),
        ("blocked-senders", "example.123", "never a number"),
        ("blocked-ips", "fe80::1%eth0", "has a zone"),
        ("trusted-relays", "fe80::%1/64", "has a zone"),
        ("blocked-urls", "mailto:ann@example.com", "scheme mailto:"),
        ("blocked-urls", "ann@example.com", "is an address"),
        ("blocked-urls", "a.example/b*c", "has a * in its path"),
        ("blocked-urls", "*.a.example/login", "more behind it"),
        ("blocked-urls", "*.192.0.2.1", "is an IP address"),
        ("own-domains", "*.*.example.com", "more than one wildcard"),
        ("blocked-file-types", "../o", "neither a file extension nor a MIME type"),
        ("blocked-file-types", "text/.x", "neither a file extension nor a MIME type"),
        ("protected-names", "HP", "it needs 3 to 100 characters"),
        ("protected-names", "Example <github.io>", "has github.io, which is too wide"),
        ("protected-names", "Example <https://example.com>", "is a URL"),
        ("protected-names", f"Example <{', '.join(f'a{number}.example' for number in range(31))}>", "more than 30"),
        ("blocked-file-names", "*.*", "is too wide"),
        ("blocked-file-names", "folder/invoice*.iso", "is a path"),
        ("blocked-file-names", "C:\\temp\\*.exe", "is a path"),
        ("blocked-file-names", "invoice?.iso", "only * stands for other characters"),
        ("blocked-file-names", "a*b*c*d*e*f*g*h*i*invoice", "more than 8 *"),
        ("blocked-file-names", "invoice" * 40, "longer than 255 characters"),
        ("own-domains", "ann@example.com", "is an address"),
        ("own-domains", "https://example.com", "is a URL"),
        ("partner-domains", "192.0.2.1", "is an IP address"),
    ],
)
def test_what_could_never_match_is_refused_with_the_reason(name: str, entry: str, reason: str) -> None:
    refused = BY_NAME[name].normalise(entry)
    assert isinstance(refused, ListRefusal), refused
    assert reason in refused.reason


@pytest.mark.parametrize("domain", ["Example.COM.", "@example.com", "example[.]com", "bücher.example", "corp"])
def test_domains_of_tenants(domain: str) -> None:
    assert isinstance(normalise_tenant_domain(domain), NormalForm)


@pytest.mark.parametrize(
    "domain",
    ["com", "co.uk", "github.io", "*.example.com", "*", "ann@example.com", "192.0.2.1", "", "https://a.example"],
)
def test_no_domains_of_tenants(domain: str) -> None:
    assert isinstance(normalise_tenant_domain(domain), ListRefusal)


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("blocked-senders", "github.io"),  # a suffix of a company, which may be blocked but not allowed
        ("allowed-senders", "example.github.io"),
        ("blocked-ips", "8.0.0.0/8"),
        ("allowed-ips", "10.0.0.0/8"),  # private
        ("allowed-ips", "fd00::/8"),  # private
        ("allowed-ips", "8.8.0.0/16"),
        ("allowed-urls", "sites.example.com/team"),
        ("blocked-urls", "github.io/path"),
    ],
)
def test_wide_but_fine(name: str, entry: str) -> None:
    assert isinstance(BY_NAME[name].normalise(entry), NormalForm)


@pytest.mark.parametrize("definition", LISTS, ids=lambda definition: definition.name)
def test_the_example_of_each_kind_is_an_entry(definition: object) -> None:
    from gatepost.lists.catalogue import ListDefinition

    assert isinstance(definition, ListDefinition)
    assert isinstance(definition.normalise(KINDS[definition.kind].example), NormalForm)


def test_an_entry_to_delete_is_never_refused() -> None:
    assert BY_NAME["blocked-senders"].key("*") == "*"
    assert BY_NAME["blocked-senders"].key("COM") == "com"
    assert BY_NAME["blocked-files"].key("not a hash") == "not a hash"


def test_sizes() -> None:
    assert {d.name for d in LISTS if d.max_size == 10_000_000} == {
        d.name for d in LISTS if d.category in ("block", "allow")
    }
    small = {d.name: d.max_size for d in LISTS if d.category not in ("block", "allow")}
    assert small.pop("protected-names") == 10_000
    assert set(small.values()) == {100_000}


@pytest.mark.parametrize(
    ("name", "fine"),
    [("my-list", True), ("1x", True), ("-x", False), ("Big", False), ("a" * 64, False), ("own-domains", False)],
)
def test_custom_names(name: str, fine: bool) -> None:
    assert is_custom_name(name) is fine


@given(st.sampled_from(LISTS), st.text(max_size=60))
def test_a_normal_form_is_its_own_normal_form(definition: object, text: str) -> None:
    from gatepost.lists.catalogue import ListDefinition

    assert isinstance(definition, ListDefinition)
    form = definition.normalise(text)
    if isinstance(form, NormalForm):
        again = definition.normalise(form.shown)
        assert isinstance(again, NormalForm)
        assert again.key == form.key


HOST = st.text(alphabet="axn0123-._XÄ*", min_size=1, max_size=20)
PATHS = st.text(alphabet="/ab.~-_?%#\\ A:é", max_size=20)


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is plain."""
    never = re.compile(r"(?!)")
    monkeypatch.setattr(addresses, "_PLAIN_SENDER", never)
    monkeypatch.setattr(links, "_PLAIN_URL", never)
    monkeypatch.setattr(entries, "_is_plain", lambda _text: False)


@given(HOST, PATHS)
def test_links(host: str, path: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = normalise_url(host + path)
        slow(patch)
        assert normalise_url(host + path) == quick


@given(st.text(alphabet="ab0.+_=-'\"<@ Ä", max_size=10), HOST)
def test_senders(local: str, host: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = normalise_sender(f"{local}@{host}")
        slow(patch)
        assert normalise_sender(f"{local}@{host}") == quick


@given(st.from_regex(r"[0-9]{1,3}(\.0?[0-9]{1,3}){0,4}(/[0-9]{1,2})?[ :a\x00]?", fullmatch=True))
def test_networks(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = normalise_network(text)
        slow(patch)
        assert normalise_network(text) == quick


@pytest.mark.parametrize("text", ["example.com", "a.b-c.example/Path/x.html", "a.example/b/"])
def test_the_usual_links_are_plain(text: str) -> None:
    assert _PLAIN_URL.match(text)
    assert normalise_url(text) == NormalForm(text, text)


@pytest.mark.parametrize(
    "text",
    ["1.2.3.4", "a.0x7f", "host.1", "xn--a.example", "a..example", "a.example/../b", "a.example/", "a.example//b"],
)
def test_what_has_to_be_parsed_is_not_plain(text: str) -> None:
    assert not _PLAIN_URL.match(text)
