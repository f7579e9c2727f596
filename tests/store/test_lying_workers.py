"""A worker that was taken over lies in every field of its reports: types are right, values are not.

What guard accepts of it is written beside honest records, found, searched for and shown in fields of delivered mail. It
spoils nothing but its own message, and often not even that.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from gatepost.abby.scan import _describe_result
from gatepost.analysis.report import PreparedRecord, Report
from gatepost.api.scanning import encode_scanning
from gatepost.findings.kinds import TITLES
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import ScanResult
from gatepost.smtp.trace import Arrival, build_trace_fields, split_header
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MessageRecord
from gatepost.store.record_packing import PLAIN, ZSTANDARD, pack_report
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.store import Store
from gatepost.workers.protocol import FrameError, Judged, read_report

REPORTS = 150
TEXTS = (
    *(
        "",
        "x",
        "a\r\nX-Injected: yes",
        "a\nb",
        "\0",
        "\x1b[31m",
        "\u202egnp.exe",
        "<script>alert(1)</script>",
        "%s%n{0}",
        "'; --",
    ),
    *(
        "é" * 300,
        "x" * 70_000,
        "\ufffd",
        "\U0010ffff",
        "a@b" * 50,
        "..",
        "../../etc/passwd",
        "list:x",
        "rule:a",
        "=cmd()",
    ),
)
INTEGERS = (0, 1, -1, 2**31, -(2**31) - 1, 2**53, -(2**53), 2**63 - 1, -(2**63), 2**64 - 1)
FLOATS = (0.0, -1.0, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 5e-324)
SIMPLE: dict[type[inspect.Type], tuple[Any, ...]] = {
    inspect.StrType: TEXTS,
    inspect.IntType: INTEGERS,
    inspect.FloatType: FLOATS,
    inspect.BoolType: (True, False),
    inspect.NoneType: (None,),
    inspect.BytesType: (b"", b"\0", b"\xff" * 100, b"x" * 10_000, b"\x28\xb5\x2f\xfd"),
}
TITLED = tuple(TITLES.items())
ARRIVAL = Arrival(helo="h", address="192.0.2.1", protocol="ESMTP", recipient="", now=1e9)


class Liar:
    """Makes a value of any type, as wrong as the type allows."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make(self, kind: inspect.Type, depth: int = 0) -> Any:
        pick = self._random.choice
        if type(kind) in SIMPLE:
            return self._bound(kind, pick(SIMPLE[type(kind)]))
        if isinstance(kind, inspect.Metadata):
            return self.make(kind.type, depth)
        if isinstance(kind, inspect.LiteralType):
            return pick(kind.values)
        if isinstance(kind, inspect.UnionType):
            return self.make(pick(kind.types), depth)
        if isinstance(kind, inspect.VarTupleType | inspect.ListType):
            number = min(self._number(depth), kind.max_length or 50)
            return tuple(self.make(kind.item_type, depth + 1) for _ in range(number))
        if isinstance(kind, inspect.TupleType):
            return tuple(self.make(item, depth + 1) for item in kind.item_types)
        if isinstance(kind, inspect.DictType):
            pairs = [(self.make(kind.key_type, 9), self.make(kind.value_type, 9)) for _ in range(self._number(depth))]
            return dict(pairs)
        assert isinstance(kind, inspect.StructType), f"no value for {kind}"
        return kind.cls(*(self.make(field.type, depth + 1) for field in kind.fields))

    @staticmethod
    def _bound(kind: inspect.Type, value: Any) -> Any:
        """Bring a value into the bounds that are part of its type."""
        if isinstance(kind, inspect.IntType | inspect.FloatType):
            low, high = kind.ge, kind.le
            value = value if low is None or value >= low else low
            return value if high is None or value <= high else high
        return value[: getattr(kind, "max_length", None)] if isinstance(value, str | bytes) else value

    def report(self) -> Report:
        """A report that has a chance to be accepted: tags and titles of the registry, an action of guard's only."""
        made: Report = self.make(inspect.type_info(Report))
        choose = self._random.choice
        tags = tuple(choice[0] for choice in (choose(TITLED) for _ in range(3)))
        lines = []
        for line in made.lines:
            kind, title = choose(TITLED)
            lines.append(msgspec.structs.replace(line, kind=kind, title=title))
        if self._random.random() < 0.8:
            numbers: dict[str, Any] = {"weight": 1, "counted": 2, "strength": 0.5}
            lines = [msgspec.structs.replace(line, **numbers) for line in lines]
            files = tuple(msgspec.structs.replace(file, size=1) for file in made.files)
            outcomes = tuple(msgspec.structs.replace(each, stage="s") for each in made.outcomes)
            made = msgspec.structs.replace(made, score=1, files=files, outcomes=outcomes)
        decision = "deliver" if made.decision == "undecided" else made.decision
        return msgspec.structs.replace(made, tags=tags, lines=tuple(lines), action=None, decision=decision)

    def prepared(self) -> PreparedRecord:
        """What goes into the row as it is: frames that begin as they should and go on as they like."""
        choose, noise = self._random.choice, self._random.randbytes
        whole = zstandard.ZstdCompressor(level=1).compress(noise(900) + bytes(2_000))
        honest = pack_report(msgspec.msgpack.encode(Report("clean", "deliver", (), 1, "x" * 3_000)))
        report = choose((b"", whole, whole[:40], whole[:-9] + noise(9), honest[:-3], honest + noise(50), honest))
        header = choose((b"", PLAIN + noise(9), ZSTANDARD + whole, ZSTANDARD + whole[:30] + noise(40)))
        return PreparedRecord(report, header, choose(("", "4XyZ", "a-b")), choose((None, "", "0" * 9, "z" * 450)))

    def body(self) -> bytes:
        """A DONE frame of it."""
        return msgspec.msgpack.encode(Judged(self.report(), choose_one(self._random, self.prepared)))

    def _number(self, depth: int) -> int:
        return self._random.choice((0, 1, 3, 50)) if depth < 2 else self._random.choice((0, 1, 2))


def choose_one(dice: random.Random, make: Callable[[], PreparedRecord]) -> PreparedRecord | None:
    return make() if dice.random() < 0.5 else None


def accepted() -> list[Report]:
    """What guard takes of all lies."""
    found = []
    for seed in range(REPORTS):
        try:
            found.append(read_report(Liar(seed).body()))
        except FrameError:
            continue
    return found


async def test_a_liar_spoils_its_own_message_alone(store: Store) -> None:
    lies = accepted()
    assert len(lies) > REPORTS // 3, "the liar is believed often enough to be a test"

    honest = [_record(Report("clean", "deliver", (), 1, "it is fine", subject=f"Honest q{n:02}z")) for n in range(30)]
    told = [_record(lie) for lie in lies]
    mixed = [record for pair in zip(told, honest * 5, strict=False) for record in pair]
    mixed = list({record.ggrid: record for record in mixed}.values())
    outcomes = await asyncio.gather(*(store.messages.record(each) for each in mixed), return_exceptions=True)
    failed = {record.ggrid for record, said in zip(mixed, outcomes, strict=True) if isinstance(said, Exception)}
    assert all(isinstance(said, StorageError | MessageRecord) for said in outcomes)
    written = [record for record in honest if record in mixed]
    assert not failed & {record.ggrid for record in written}
    for record in written:
        found = await store.messages.find(record.ggrid)
        assert found is not None
        assert (found.report.subject, found.report.verdict) == (record.report.subject, "clean")
    for record in told:
        if record.ggrid not in failed:
            await store.messages.find(record.ggrid)
    page = await store.messages.search(MessageFilter(subject="q07z"))
    assert [each.ggrid for each in page.rows] == [written[7].ggrid]
    newest = await store.messages.search(MessageFilter(), limit=200)
    assert len(newest.rows) == len(mixed) - len(failed)


@given(st.integers(0, 1 << 64))
def test_every_lie_is_refused_or_can_be_answered(seed: int) -> None:
    try:
        lie = read_report(Liar(seed).body())
    except FrameError:
        return
    answer = msgspec.json.decode(encode_scanning(_describe_result(ScanResult(new_id(), 0, 0, lie))))
    assert set(answer["tags"]) <= set(TITLES)
    assert build_trace_fields(ScanResult(new_id(), 0, 0, lie), "gate.example", ARRIVAL).isascii()


def test_fields_of_delivered_mail_are_ours_whatever_a_worker_says() -> None:
    names = set()
    for lie in accepted():
        head = build_trace_fields(ScanResult(new_id(), 0, 0, lie), "gate.example", ARRIVAL)
        assert head.endswith(b"\r\n")
        assert b"\r\n\r\n" not in head
        assert head.count(b"\r") == head.count(b"\n") == head.count(b"\r\n")
        assert head.isascii()
        assert not [byte for byte in head if byte < 32 and byte not in b"\r\n\t"]
        assert max(map(len, head.split(b"\r\n"))) <= 998
        names |= {part[1] for part in split_header(head, 1_000)}
    assert names <= {
        *(b"Authentication-Results", b"Received", b"X-Gatepost-Id", b"X-Gatepost-Verdict", b"X-Gatepost-Decision"),
        *(b"X-Gatepost-Score", b"X-Gatepost-Tags", b"X-Gatepost-Reason"),
    }


def _record(report: Report) -> MessageRecord:
    envelope = Envelope("a@sender.example", ("b@rcpt.example",), "192.0.2.1", "mx")
    return MessageRecord(new_id(), 1_000, 2_000, envelope, 1_234, "ab" * 32, report)
