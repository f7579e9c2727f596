"""DKIM: signatures made here and verified, and the ways in which they must not be."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.auth.signatures import KEY, Bench, make_key, make_record, read_signed, sign

from gatepost.auth import signature
from gatepost.auth.dkim import READ_MAX, VERIFIED_MAX, verify
from gatepost.auth.results import Dkim
from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Field
from gatepost.mail.reader import read
from gatepost.questions import DnsAnswer

NOW = 1_700_000_000.0
MAIL = (
    b"From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: A  test\r\n of folding\r\n"
    b"Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n\r\nHello  Bob,\t\r\n\r\nsee you. \r\n\r\n\r\n"
)
FORMS = ("simple/simple", "simple/relaxed", "relaxed/simple", "relaxed/relaxed", "simple", "relaxed")
HYPOTHESIS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


class DkimBench(Bench):
    """What verifying gives."""

    def sign(self, raw: bytes = MAIL, **tags: str) -> bytes:
        return sign(raw, self.key, **tags)

    def record(self, *records: str) -> "DkimBench":
        self.zone = {KEY: DnsAnswer("found", records)}
        return self

    def results(self, raw: bytes, share: SignedMessage | None = None) -> tuple[Dkim, ...]:
        return self.run(verify(share or read_signed(raw), NOW))

    def only(self, raw: bytes) -> Dkim:
        (result,) = self.results(raw)
        return result


@pytest.fixture
def bench() -> DkimBench:
    return DkimBench()


@pytest.mark.parametrize("kind", ["rsa1024", "rsa2048", "ed25519"])
@pytest.mark.parametrize("form", FORMS)
def test_passes(kind: str, form: str) -> None:
    bench = DkimBench(kind)
    result = bench.only(bench.sign(form=form))
    algorithm = "ed25519-sha256" if kind == "ed25519" else "rsa-sha256"
    assert result == Dkim("pass", "example.org", "sel", algorithm, identity="@example.org")
    assert bench.asked == [KEY]


def test_no_signature_asks_nothing(bench: DkimBench) -> None:
    assert bench.results(MAIL) == ()
    assert bench.asked == []


@pytest.mark.parametrize("form", FORMS)
def test_line_ends_are_put_right(bench: DkimBench, form: str) -> None:
    assert bench.only(bench.sign(form=form).replace(b"\r\n", b"\n")).result == "pass"


@pytest.mark.parametrize("body", [b"", b"\r\n", b" \r\n", b"a", b"a\r\n\r\n", b"a\rb\r\n", b"\x00\xff\r\n"])
@pytest.mark.parametrize("form", FORMS)
def test_bodies(bench: DkimBench, form: str, body: bytes) -> None:
    raw = MAIL.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + body
    assert bench.only(bench.sign(raw, form=form)).result == "pass"


@pytest.mark.parametrize(
    ("tags", "result", "reason"),
    [
        ({"v": ""}, "neutral", "version"),
        ({"v": "2"}, "neutral", "version"),
        ({"a": "rsa-sha1"}, "permerror", "rsa-sha1"),
        ({"a": "rsa-md5"}, "neutral", "algorithm"),
        ({"a": "RSA-SHA256"}, "neutral", "algorithm"),
        ({"c": "odd/simple"}, "neutral", "canonicalisation"),
        ({"c": "simple/"}, "neutral", "canonicalisation"),
        ({"d": ""}, "neutral", "d="),
        ({"d": "org"}, "neutral", "d="),
        ({"d": "exa mple.org"}, "neutral", "d="),
        ({"d": ".".join(["a" * 60] * 5)}, "neutral", "d="),
        ({"s": ""}, "neutral", "s="),
        ({"s": "a..b"}, "neutral", "s="),
        ({"s": ".".join(["a" * 60] * 4)}, "neutral", "s="),  # each is a name, together they are too long
        ({"h": ""}, "neutral", "signed fields"),
        ({"bh": ""}, "neutral", "bh="),
        ({"bh": "??"}, "neutral", "bh="),
        ({"q": "http"}, "neutral", "unknown way"),
        ({"q": "http:dns/txt"}, "pass", ""),
        ({"x": "1699999800"}, "pass", ""),  # within the skew of clocks
        ({"x": "1699999000"}, "policy", "expired"),
        ({"t": "1699999999", "x": "1699999999"}, "neutral", "before"),
        ({"t": "1700050000"}, "pass", ""),
        ({"t": "1800000000"}, "policy", "future"),
        ({"t": "yesterday"}, "neutral", "t="),
        ({"x": "1" * 5000}, "neutral", "x="),
        ({"l": "x"}, "neutral", "l="),
        ({"l": "9" * 76}, "fail", "body"),
        ({"l": "9" * 5000}, "neutral", "l="),
        ({"i": "ann@example.org"}, "pass", ""),
        ({"i": "@mail.example.org"}, "pass", ""),
        ({"i": "a=40b@EXAMPLE.org"}, "pass", ""),
        ({"i": "ann@notexample.org"}, "permerror", "i="),
        ({"i": "ann"}, "permerror", "i="),
        ({"names": "to:subject"}, "permerror", "From"),
        ({"names": "from:" * 600 + "to"}, "policy", "512"),
        ({"names": "FROM: To :subject:nonexistent:from"}, "pass", ""),
        ({"z": "x" * 40_000}, "neutral", "malformed"),
        ({"unknown": "fine"}, "pass", ""),
    ],
)
def test_tags(bench: DkimBench, tags: dict[str, Any], result: str, reason: str) -> None:
    got = bench.only(bench.sign(**tags))
    assert (got.result, reason in got.reason) == (result, True), got


def test_what_is_refused_at_once_is_not_asked_for(bench: DkimBench) -> None:
    bench.results(bench.sign(a="rsa-sha1"))
    bench.results(bench.sign(x="1"))
    assert bench.asked == []


def test_identity(bench: DkimBench) -> None:
    assert bench.only(bench.sign(i="a=40b@Mail.EXAMPLE.org")).identity == "a@b@mail.example.org"


@pytest.mark.parametrize(
    ("status", "result"), [("failed", "temperror"), ("no-name", "permerror"), ("no-data", "permerror")]
)
def test_key_is_not_there(bench: DkimBench, status: Any, result: str) -> None:
    bench.zone = {KEY: DnsAnswer(status)}
    assert bench.only(bench.sign()).result == result


def test_flags_of_the_key(bench: DkimBench) -> None:
    record = make_record(bench.key)
    bench.record(f"{record}; t=s")
    assert bench.only(bench.sign(i="a@example.org")).result == "pass"
    assert bench.only(bench.sign(i="a@mail.example.org")).result == "permerror"
    assert bench.record(f"{record}; t=y").only(bench.sign()).testing


def test_one_of_several_records_is_enough(bench: DkimBench) -> None:
    other = make_record(make_key("rsa2048"))
    bench.record("v=spf1 -all", other, make_record(bench.key))
    assert bench.only(bench.sign()).result == "pass"
    assert bench.record(other).only(bench.sign()).result == "fail"


def test_a_key_of_another_type(bench: DkimBench) -> None:
    bench.record(make_record(make_key("ed25519")))
    assert bench.only(bench.sign()).result == "permerror"


def test_part_of_the_body(bench: DkimBench) -> None:
    signed = bench.sign(l="5")
    assert bench.only(signed).unsigned_bytes == len(b"Hello Bob,\r\n\r\nsee you.\r\n") - 5
    grown = bench.only(signed + b"<script>")
    assert (grown.result, grown.unsigned_bytes) == ("pass", 33)
    assert bench.only(bench.sign(l="0")).result == "pass"
    shrunk = bench.only(bench.sign(l="20").partition(b"see you")[0])
    assert shrunk.result == "fail"


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        (b"Hello", b"hello", "fail"),
        (b"see you.", b"see you!", "fail"),
        (b"see you.", b"se e you.", "fail"),
        (b"see you.", b"see you.\r\nP.S.", "fail"),
        (b"see you. ", b"see  \t you.", "pass"),
        (b"see you. \r\n", b"see you.", "pass"),
        (b"Subject: A  test", b"SUBJECT:A test ", "pass"),
        (b"Subject: A  test", b"Subject: Atest", "fail"),
        (b"To: bob", b"Cc: eve@example.com\r\nTo: bob", "pass"),  # what is not signed may change
    ],
)
def test_relaxed_takes_changes_of_white_space(bench: DkimBench, old: bytes, new: bytes, result: str) -> None:
    signed = bench.sign()
    assert signed.count(old) == 1
    assert bench.only(signed.replace(old, new)).result == result


def test_fields_are_taken_from_the_bottom(bench: DkimBench) -> None:
    two = b"Subject: first\r\n" + MAIL
    signed = bench.sign(two, names="from:subject:subject")
    assert bench.only(signed).result == "pass"
    swapped = signed.replace(b"Subject: first\r\n", b"").replace(b"Date:", b"Subject: first\r\nDate:")
    assert bench.only(swapped).result == "fail"


def test_oversigning_shuts_the_door(bench: DkimBench) -> None:
    closed = bench.sign(names="from:from:subject:subject")
    assert bench.only(closed).result == "pass"
    assert bench.only(b"Subject: Pay now\r\n" + closed).result == "fail"
    opened = bench.only(b"Subject: Pay now\r\n" + bench.sign(names="from:subject"))
    assert (opened.result, opened.uncovered) == ("pass", ("subject", "date", "to"))


def test_a_second_from_is_never_a_pass(bench: DkimBench) -> None:
    result = bench.only(b"From: The Bank <ceo@bank.example>\r\n" + bench.sign())
    assert (result.result, result.uncovered) == ("policy", ("from",))


def test_a_signature_may_sign_another(bench: DkimBench) -> None:
    twice = bench.sign(bench.sign(), names="from:dkim-signature:dkim-signature")
    assert [result.result for result in bench.results(twice)] == ["pass", "pass"]


def test_junk_in_the_header_is_not_signed_by_a_blank_name(bench: DkimBench) -> None:
    message = read(bench.sign(names="from::to"))
    fields = (*message.headers.fields, Field("", "", b"junk\r\n"))
    found = bench.results(message.raw, SignedMessage(message.raw, message.header_end, fields))
    assert [result.result for result in found] == ["pass"]


def test_unicode_names(bench: DkimBench) -> None:
    bench.zone["sel._domainkey.xn--bcher-kva.example"] = bench.zone[KEY]
    result = bench.only(bench.sign(d="Bücher.example", i="jürgen@bücher.example"))
    assert (result.result, result.domain, result.identity) == (
        "pass",
        "xn--bcher-kva.example",
        "jürgen@xn--bcher-kva.example",
    )
    assert bench.only(bench.sign(d="\u2028.example")).result == "neutral"


def test_weak_keys_are_verified_and_not_accepted() -> None:
    weak = DkimBench("weak")
    result = weak.only(weak.sign())
    assert (result.result, result.weak) == ("policy", True)
    assert weak.only(weak.sign().replace(b"Hello", b"Hallo")).result == "fail"


def test_limits(bench: DkimBench) -> None:
    raw = MAIL
    for number in range(READ_MAX + 5):
        raw = bench.sign(raw, s=f"s{number}", d="elsewhere.example" if number else "example.org")
    results = bench.results(raw)
    assert len(results) == READ_MAX + 1
    assert "5 more" in results[-1].reason
    assert len(bench.asked) == VERIFIED_MAX
    assert sum("not verified" in result.reason for result in results) == READ_MAX - VERIFIED_MAX


def test_the_authors_signature_goes_first(bench: DkimBench) -> None:
    raw = bench.sign()
    for number in range(READ_MAX - 1):
        raw = bench.sign(raw, s=f"s{number}", d="elsewhere.example")
    assert bench.results(raw)[-1].result == "pass"
    assert bench.asked[0] == KEY


def test_the_body_is_hashed_once_and_only_when_needed(bench: DkimBench) -> None:
    raw = bench.sign(bench.sign(bench.sign(), s="other"))
    share = read_signed(raw)
    assert [result.result for result in bench.results(raw, share)] == ["pass", "permerror", "pass"]
    assert share.hashed == len(b"Hello Bob,\r\n\r\nsee you.\r\n")
    for wrong in ({}, {KEY: DnsAnswer("found", (make_record(make_key("rsa2048")),))}):
        share, bench.zone = read_signed(raw), wrong
        bench.results(raw, share)
        assert share.hashed == 0


def test_many_lengths_are_not_followed(bench: DkimBench) -> None:
    raw = MAIL
    for length in range(VERIFIED_MAX):
        raw = bench.sign(raw, l=str(length))
    words = [result.result for result in bench.results(raw)]
    assert words == ["pass"] * signature.BODIES_MAX + ["policy"] * (VERIFIED_MAX - signature.BODIES_MAX)


@HYPOTHESIS
@given(st.data())
@pytest.mark.parametrize("kind", ["rsa1024", "ed25519"])
@pytest.mark.parametrize("form", ["simple/simple", "relaxed/relaxed"])
def test_a_changed_byte_never_verifies(kind: str, form: str, data: st.DataObject) -> None:
    bench = DkimBench(kind)
    names = "from:to:subject:date"
    raw = bench.sign(form=form, names=names)
    spots = _signed_spots(raw, form)
    spot = data.draw(st.sampled_from(spots))
    other = data.draw(st.integers(0, 255).filter(lambda byte: _differs(byte, raw[spot], form)))
    changed = raw[:spot] + bytes([other]) + raw[spot + 1 :]
    assert "pass" not in [result.result for result in bench.results(changed)]


def _signed_spots(raw: bytes, form: str) -> list[int]:
    """Bytes that a change must not survive: all but b=, the end and, when relaxed, white space."""
    start, end = raw.index(b"\tb=") + 3, raw.index(b"From:")
    spots = [*range(start), *range(end, len(raw))]
    text = raw.rstrip(b"\r\n \t")
    return [spot for spot in spots if spot < len(text) and not (form.startswith("relaxed") and raw[spot] in b" \t\r\n")]


def _differs(byte: int, original: int, form: str) -> bool:
    same_letter = form.startswith("relaxed") and chr(byte).lower() == chr(original).lower()
    return byte != original and not same_letter


@HYPOTHESIS
@given(
    st.binary(max_size=300),
    st.lists(st.sampled_from(["v=1", "a=rsa-sha256", "d=example.org", "s=sel", "h=from", "bh=AAAA", "b=AAAA", "l=1"])),
    st.binary(max_size=80),
    st.text(max_size=80),
)
def test_nothing_raises(bench: DkimBench, value: bytes, tags: list[str], body: bytes, record: str) -> None:
    signature = b"DKIM-Signature: " + "; ".join(tags).encode() + value
    whole = b"DKIM-Signature: v=1; a=rsa-sha256; d=example.org; s=sel; h=from; bh=AAAA; b=AAAA; x" + value
    fields = (Field("dkim-signature", "", signature), Field("dkim-signature", "", whole), Field("from", "", value))
    records = (record, f"p={record}", make_record(bench.key))
    for known in records:
        results = bench.record(known).results(b"", SignedMessage(value + body, len(value), fields))
        assert len(results) == 2
        assert not [result for result in results if result.result == "pass"]
