"""Authentication-Results: what is written for each result, that nobody can inject into it, and whose fields go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.auth import results
from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Iprev, Spf, format_header, is_forged

WHOLE = Authentication(
    host="192.0.2.1",
    host_source="border",
    spf=Spf("pass", "example.com"),
    dkim=(Dkim("pass", "example.com", "s1", "rsa-sha256"), Dkim("fail", "list.example", "k", reason="body changed")),
    dmarc=Dmarc("pass", "example.com", "example.com", "reject", dkim_aligned=True),
    arc=Arc("pass", 1, ("list.example",)),
    iprev=Iprev("pass", "mx.example.com"),
)


def unfolded(field: bytes) -> str:
    return field.decode("ascii").replace("\r\n\t", " ").removesuffix("\r\n")


def test_the_whole_field() -> None:
    assert unfolded(format_header("mx.ours.example", WHOLE)) == (
        "Authentication-Results: mx.ours.example; spf=pass smtp.mailfrom=example.com;"
        " dkim=pass header.d=example.com header.s=s1 header.a=rsa-sha256;"
        ' dkim=fail reason="body changed" header.d=list.example header.s=k;'
        " dmarc=pass header.from=example.com policy.dmarc=reject;"
        " arc=pass smtp.remote-ip=192.0.2.1; iprev=pass policy.iprev=192.0.2.1"
    )


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (Authentication(), "spf=none; dkim=none; dmarc=none"),
        (Authentication(spf=Spf("pass", "mx.example", "helo")), "spf=pass smtp.helo=mx.example;"),
        (Authentication(helo=Spf("fail", "mx.example", "helo")), "spf=none; spf=fail smtp.helo=mx.example;"),
        (Authentication(spf=Spf("temperror", "a.example", reason="DNS failed")), 'spf=temperror reason="DNS failed"'),
        (Authentication(host="2001:db8::1", iprev=Iprev("permerror")), 'iprev=permerror policy.iprev="2001:db8::1"'),
        (Authentication(dmarc=Dmarc("fail", "a.example", policy="none")), "dmarc=fail header.from=a.example policy"),
        (Authentication(arc=Arc("temperror", 1, reason="no key")), 'arc=fail reason="no key"'),
        (Authentication(dkim=(Dkim("pass", "a.example", identity="@a.example"),)), 'header.i="@a.example"'),
    ],
)
def test_parts(found: Authentication, part: str) -> None:
    assert part in unfolded(format_header("mx", found))


@pytest.mark.parametrize(
    "evil",
    [
        "example.com; dmarc=pass header.from=bank.example",
        'example.com"; dmarc=pass header.from=bank.example; x="',
        'a\\"; dmarc=pass x="',
        "example.com\r\nSubject: injected",
        "example.com\r\n\r\nbody",
        "example.com (comment) dmarc=pass",
        "bücher.example\u2028x",
        "\x00\x1b[31m",
        "x" * 5_000,
    ],
)
def test_nothing_can_be_injected(evil: str) -> None:
    found = Authentication(spf=Spf("fail", evil, reason=evil), dkim=(Dkim("fail", evil, evil, evil, evil, evil),))
    _safe(format_header("mx", found), ("spf", "dkim", "dmarc"))


@given(st.text(), st.text(), st.text())
def test_nothing_can_be_injected_by_anything(domain: str, reason: str, selector: str) -> None:
    dkim = Dkim("fail", domain, selector, reason=reason)
    found = Authentication(spf=Spf("fail", domain, reason=reason), dkim=(dkim,), dmarc=Dmarc("fail", domain))
    _safe(format_header("mx", found), ("spf", "dkim", "dmarc"))


def _safe(field: bytes, methods: tuple[str, ...]) -> None:
    """One field, every line folded and short enough, and outside quotes exactly the methods that were written."""
    assert field.endswith(b"\r\n")
    lines = field[:-2].split(b"\r\n")
    assert all(line.startswith(b"\t") and len(line) < 998 for line in lines[1:])
    assert all(32 <= octet < 127 for line in lines for octet in line.removeprefix(b"\t"))
    bare, quoted = [], False
    text = iter(unfolded(field))
    for char in text:
        if quoted and char == "\\":
            next(text)
        elif char == '"':
            quoted = not quoted
        elif not quoted:
            bare.append(char)
    assert not quoted
    results = "".join(bare).split(";")[1:]
    assert tuple(result.strip().partition("=")[0] for result in results) == methods


def test_signatures_are_bounded() -> None:
    many = Authentication(dkim=(Dkim("fail", "a.example"),) * 500)
    assert format_header("mx", many).count(b"dkim=") == results.MAX_SIGNATURES


def test_lines_are_folded() -> None:
    assert max(map(len, format_header("mx.ours.example", WHOLE).split(b"\r\n"))) <= results.WIDTH + 3


@pytest.mark.parametrize(
    ("value", "claimed"),
    [
        ("mx.ours.example; spf=pass", "mx.ours.example"),
        (" MX.Ours.Example 1; spf=pass", "mx.ours.example"),
        ("mx.ours.example", "mx.ours.example"),
        ('"mx.ours.example"; spf=pass', "mx.ours.example"),
        ('"mx\\.ours.example"; spf=pass', "mx.ours.example"),
        ("(a (nested \\) comment)) mx.ours.example; none", "mx.ours.example"),
        ("\r\n\tmx.ours.example(x); none", "mx.ours.example"),
        ("mx.theirs.example; spf=pass", "mx.theirs.example"),
        ("", ""),
        ("; spf=pass", ""),
        ('"open; spf=pass', ""),
        ("(open mx.ours.example; spf=pass", ""),
        (") mx.ours.example", ""),
        ("(" * 100_000, ""),
    ],
)
def test_claimed_id(value: str, claimed: str) -> None:
    assert results.read_authserv_id(value) == claimed


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("mx.theirs.example; spf=pass", False),
        ("mx.ours.example; spf=pass", True),
        ("; spf=pass", True),
        ("=?utf-8?q?mx.ours.example?=; dmarc=pass", True),
        ("MX.ours.example; dmarc=pass", True),
    ],
)
def test_forged_fields(value: str, expected: bool) -> None:
    assert is_forged(f"Authentication-Results: {value}\r\n".encode(), "mx.OURS.example") is expected


@pytest.mark.parametrize(
    "claim",
    [
        *("gw.example.; spf=pass", "gw(x).example; spf=pass", "gw . example; spf=pass", "gw.example/1; spf=pass"),
        *(
            "=?utf-8?q?gw.example?=; spf=pass",
            "ｇｗ.example; spf=pass",
            "gw.exam(unclosed; spf=pass",
            '"gw".example; x',
        ),
        *("(;) gw.example; spf=pass", "gw.example=1; spf=pass", '"gw.example; spf=pass', ".gw.example; spf=pass"),
    ],
)
def test_what_another_reader_could_take_for_ours_is_stripped(claim: str) -> None:
    assert is_forged(f"Authentication-Results: {claim}\r\n".encode(), "gw.example")


@pytest.mark.parametrize(
    "claim",
    [
        *("mx.gw.example; spf=pass", "gw.example.com; spf=pass", "gw-example; spf=pass", "other; x=(gw.example)"),
        *("mx.theirs.example 1; spf=pass (a (b) c; d)", "theirs; reason=gw.example", "xgw.example; spf=pass"),
    ],
)
def test_claims_of_others_stay(claim: str) -> None:
    assert not is_forged(f"Authentication-Results: {claim}\r\n".encode(), "gw.example")


@given(st.text())
def test_any_claim_is_read(value: str) -> None:
    assert isinstance(results.read_authserv_id(value), str)
