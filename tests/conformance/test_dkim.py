"""DKIM against the messages that older verifiers were tested with, 62 of which are signed with DKIM.

The suite is of 2006 and later: most of it is signed with rsa-sha1, with keys of 512 or 768 bits, or after drafts of the
standard. So it is read twice: with the rules of its own day, where its expectations must come true, and with today's,
where what is out of date must be refused and nothing may pass that the suite says is bad.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.auth.dkim import verify
from gatepost.auth.results import Dkim
from gatepost.auth.signature import TODAY, SignatureRules, SignedMessage
from gatepost.mail.message import Field
from gatepost.questions import Dns, DnsAnswer

CASES = 62
NOW = 1_700_000_000.0
OF_ITS_DAY = SignatureRules(
    algorithms=frozenset({"rsa-sha1", "rsa-sha256", "ed25519-sha256"}),
    versions=frozenset({"", "0.5", "1"}),
    queries=frozenset({"dns", "dns/txt"}),
    least_bits=512,
)
INVALID = {"neutral", "policy", "permerror", "temperror"}
NO_BODY_HASH = "draft-ietf-dkim-base-00 had no bh= and hashed the body with the header; RFC 6376 requires bh="
GRANULARITY = "RFC 6376 took g= out of key records, and unknown tags are ignored"
DEVIATIONS = {
    **{f"good_ietf00_{number}.txt": NO_BODY_HASH for number in range(1, 6)},
    **{f"badkey_{number}.txt": GRANULARITY for number in (8, 9, 12, 13)},
}
OURS = {NO_BODY_HASH: ("neutral", "bh= is missing or is not base64"), GRANULARITY: ("pass", "")}
STANDARDS = Path(__file__).parents[2] / "docs" / "standards.md"
NAMES = (
    *(f"bad_{name}" for name in ("1", "1878954", "ietf01_1", "ietf01_2", "ietf01_3")),
    *(f"badkey{number}_ed25519" for number in range(1, 6)),
    *(f"badkey_{number}" for number in range(1, 16)),
    *(f"good_{name}" for name in ("1878523", "83176", "ietf01_1", "ietf01_2", "rfc4871_3", "rfc4871_4")),
    *(f"good_ietf00_{number}" for number in range(1, 6)),
    *(f"good_qp_{number}" for number in range(1, 4)),
    *(f"goodkey_{name}" for name in ("1", "2", "3", "4", "ed25519")),
    *(f"ignore_{number}" for number in range(1, 9)),
    *(f"mine_ietf01_{number}" for number in range(1, 5)),
    "mine_ietf05_1",
    *(f"multiple_{number}" for number in (1, 2)),
    *(f"no_body_{number}" for number in range(1, 4)),
)
FILES = tuple(f"{name}.txt" for name in NAMES)


def split(raw: bytes) -> tuple[int, tuple[Field, ...]]:
    """The header fields of a well-behaved message, and where its body starts."""
    fields: list[bytes] = []
    end = 0
    for line in raw.splitlines(keepends=True):
        end += len(line)
        if not line.strip(b"\r\n"):
            break
        if line[:1] in b" \t" and fields:
            fields[-1] += line
        else:
            fields.append(line)
    named = (Field(line.partition(b":")[0].strip().decode("latin-1").lower(), "", line) for line in fields)
    return end, tuple(named)


def zone_of(folder: Path) -> dict[str, DnsAnswer]:
    zone = {}
    for line in (folder / "dkim" / "FAKE_DNS.dat").read_text("utf-8").splitlines():
        name, _, record = line.partition(" ")
        if name and not name.startswith("#"):
            zone[name] = _answer(record.strip())
    return zone


def _answer(record: str) -> DnsAnswer:
    if record.startswith("~~"):
        return DnsAnswer("failed")
    if record == "NXDOMAIN":
        return DnsAnswer("no-name")
    return DnsAnswer("found", (record.strip('"'),))


def verified(raw: bytes, zone: dict[str, DnsAnswer], rules: SignatureRules) -> tuple[Dkim, ...]:
    end, fields = split(raw)
    asking = verify(SignedMessage(raw, end, fields), NOW, rules)
    try:
        questions = next(asking)
        while True:
            questions = asking.send(_answers(questions, zone))
    except StopIteration as stop:
        result: tuple[Dkim, ...] = stop.value
        return result


def _answers(questions: tuple[Dns, ...], zone: dict[str, DnsAnswer]) -> tuple[DnsAnswer, ...]:
    return tuple(zone.get(question.name, DnsAnswer("no-name")) for question in questions)


def overall(results: tuple[Dkim, ...]) -> str:
    """The suite knows one word for a message: the best that one of its signatures reached."""
    words = {result.result for result in results}
    return next((word for word in ("pass", "fail") if word in words), "invalid" if words <= INVALID else "unknown")


def expected_of(folder: Path) -> dict[str, str]:
    lines = (folder / "dkim" / "expected.tsv").read_text("utf-8").splitlines()[1:]
    pairs = (line.split("\t") for line in lines)
    return {name: result for name, result in pairs if "_dk_" not in name and not name.startswith("dk_")}


@pytest.mark.shared
def test_the_list_is_the_whole_suite(shared: Callable[[str], Path]) -> None:
    assert sorted(expected_of(shared("conformance"))) == sorted(FILES)
    assert len(FILES) == CASES


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason=DEVIATIONS[name]))
        if name in DEVIATIONS
        else name
        for name in FILES
    ],
)
def test_with_the_rules_of_its_day(shared: Callable[[str], Path], name: str) -> None:
    folder = shared("conformance")
    raw = (folder / "dkim" / "dkim_corpus" / name).read_bytes()
    results = verified(raw, zone_of(folder), OF_ITS_DAY)
    assert overall(results) == expected_of(folder)[name], results


@pytest.mark.shared
@pytest.mark.parametrize("name", DEVIATIONS)
def test_where_we_deviate_the_answer_is_ours(shared: Callable[[str], Path], name: str) -> None:
    """An expected failure says only that the answers differ: this says which is ours."""
    folder = shared("conformance")
    (result,) = verified((folder / "dkim" / "dkim_corpus" / name).read_bytes(), zone_of(folder), OF_ITS_DAY)
    assert (result.result, result.reason) == OURS[DEVIATIONS[name]]


def test_every_deviation_is_documented() -> None:
    documented = STANDARDS.read_text("utf-8")
    assert [name for name in DEVIATIONS if f"`{name.removesuffix('.txt')}`" not in documented] == []


@pytest.mark.shared
def test_with_the_rules_of_today(shared: Callable[[str], Path]) -> None:
    folder = shared("conformance")
    zone, expected = zone_of(folder), expected_of(folder)
    corpus = folder / "dkim" / "dkim_corpus"
    got = {name: overall(verified((corpus / name).read_bytes(), zone, TODAY)) for name in FILES}
    assert [name for name in FILES if got[name] == "pass"] == ["goodkey_ed25519.txt"]
    assert not [name for name in FILES if expected[name] == "invalid" and got[name] == "fail"]
    assert {got[name] for name in FILES if expected[name] == "pass"} == {"pass", "invalid"}
