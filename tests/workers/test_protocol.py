"""The wire: whatever a worker sends, guard reads frames or says why not."""

import zlib
from itertools import pairwise
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gatepost.analysis.report import FileSeen, Line, Outcome, PreparedRecord, Report, undecided
from gatepost.findings.kinds import TITLES
from gatepost.mail.message import Envelope, Receipt
from gatepost.policy.rules import title_of_list
from gatepost.questions import Dns, DnsAnswer
from gatepost.store.evidence import add_queue_id, index_evidence
from gatepost.store.record_packing import Detail, compress, pack, unpack, unpack_header
from gatepost.workers import protocol
from gatepost.workers.protocol import (
    FROM_WORKER,
    HEADER,
    MAX_QUESTIONS,
    MAX_SNAPSHOT_BYTES,
    MAX_SNAPSHOTS,
    MAX_STEPS,
    Ask,
    Failed,
    Frame,
    FrameError,
    FrameReader,
    Judged,
    Ready,
    RecentSnapshots,
)

REPORT = Report("clean", "deliver", (), 0, "nothing")
WORKER_FRAMES = st.builds(
    protocol.raw_frame,
    st.sampled_from(list(FROM_WORKER)),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=200),
)


def read(pieces: list[bytes]) -> list[tuple[Frame, int, bytes]]:
    reader = FrameReader()
    return [frame for piece in pieces for frame in reader.feed(piece)]


@given(st.lists(WORKER_FRAMES, max_size=6), st.lists(st.integers(0, 1400), max_size=8))
def test_frames_do_not_depend_on_how_they_arrive(sent: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(sent)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    got = read(pieces)
    assert [protocol.raw_frame(*one) for one in got] == sent


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_are_frames_or_an_error(pieces: list[bytes]) -> None:
    try:
        got = read(pieces)
    except FrameError:
        return
    assert all(kind in FROM_WORKER and len(body) <= FROM_WORKER[kind] for kind, _job, body in got)


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 5, 20, 255])
def test_kinds_that_no_worker_sends(kind: int) -> None:
    with pytest.raises(FrameError):
        read([HEADER.pack(0, kind, 1)])


@pytest.mark.parametrize("kind", list(FROM_WORKER))
def test_the_announcement_of_too_much_is_enough(kind: Frame) -> None:
    assert read([HEADER.pack(FROM_WORKER[kind], kind, 1)]) == []
    with pytest.raises(FrameError):
        read([HEADER.pack(FROM_WORKER[kind] + 1, kind, 1)])


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.binary(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    ).map(msgspec.msgpack.encode)
)
def test_any_body_is_a_value_or_an_error(body: bytes) -> None:
    for decode in (protocol.read_ready, protocol.read_ask, protocol.read_report, protocol.read_failed):
        try:
            decode(body)
        except FrameError:
            pass


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(FrameError):
        protocol.read_report(b"\x91" * 50_000)


def test_a_report_comes_with_what_storage_keeps_of_it() -> None:
    long = msgspec.structs.replace(REPORT, subject="word " * 500)
    envelope = Envelope("a@b.example", remote_address="192.0.2.1")
    header = b"Received: by x id 4XyZ; now\r\nSubject: y\r\n"
    found = _judge(long, envelope, header + b"\r\nReceived: by y id Other;\r\n")
    assert found == long
    assert unpack(pack(Detail(envelope, found, "smtp"))) == Detail(envelope, long, "smtp")
    prepared = found.prepared
    assert prepared
    assert unpack_header(prepared.header) == header
    assert prepared.queue_id == "4XyZ"
    assert prepared.evidence == index_evidence(Detail(envelope, long))
    complete = index_evidence(Detail(envelope, long, "rest", Receipt(queue_id="4XyZ")))
    assert sorted((add_queue_id(prepared.evidence, "4XyZ") or "").split()) == sorted((complete or "").split())
    short = _judge(REPORT, envelope, b"\n\nbody").prepared
    assert short
    assert (short.report, unpack_header(short.header), short.queue_id) == (b"", b"", "")
    assert msgspec.structs.replace(found, decision="quarantine").prepared is None, "a changed report is packed anew"


def _judge(report: Report, envelope: Envelope, head: bytes) -> Report:
    return protocol.read_report(protocol.encode_judged(msgspec.msgpack.encode(report), report, envelope, head))


SOUND = PreparedRecord(header=compress(b"Subject: x\r\n"), evidence="AAAAAAAA BBBBBB+/")


@pytest.mark.parametrize(
    "change",
    [
        {"header": b""},
        {"header": b"\x00" + b"x" * 600},
        {"header": b"\x01x"},
        {"header": b"\x02x"},
        {"header": b"\x02" + zstandard.ZstdCompressor().compress(bytes(20_000))},
        {"queue_id": "a b"},
        {"queue_id": "x" * 101},
        {"queue_id": "a\0"},
        {"evidence": "AAAAAAAA "},
        {"evidence": "AAAAAAA"},
        {"evidence": "AAAAAAA\0"},
        {"evidence": " ".join(["AAAAAAAA"] * 55)},
    ],
)
def test_what_cannot_go_into_a_row_is_refused(change: dict[str, Any]) -> None:
    assert protocol.read_report(msgspec.msgpack.encode(Judged(REPORT, SOUND))).prepared == SOUND
    with pytest.raises(FrameError):
        protocol.read_report(msgspec.msgpack.encode(Judged(REPORT, msgspec.structs.replace(SOUND, **change))))


@pytest.mark.parametrize(
    "packed",
    [
        b"x",
        b"\x28\xb5\x2f\xfd",
        zlib.compress(b"a" * 1_000),
        zstandard.ZstdCompressor(write_content_size=False).compress(b"a" * 1_000),
        zstandard.ZstdCompressor(write_checksum=True).compress(b"a" * 1_000),
        zstandard.ZstdCompressor().compress(bytes(protocol.MAX_REPORT + 1)),
        zstandard.ZstdCompressor(dict_data=zstandard.ZstdCompressionDict(b"abc" * 100)).compress(b"") + b"more",
        b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd",
    ],
)
def test_what_is_packed_in_another_way_is_refused(packed: bytes) -> None:
    with pytest.raises(FrameError):
        protocol.read_report(msgspec.msgpack.encode(Judged(REPORT, msgspec.structs.replace(SOUND, report=packed))))


def packed_ask(step: int, count: int) -> bytes:
    return msgspec.msgpack.encode(Ask(step, (Dns("a.example", "A"),) * count))


def test_steps_and_questions_have_their_most() -> None:
    assert len(protocol.read_ask(packed_ask(MAX_STEPS, MAX_QUESTIONS)).questions) == MAX_QUESTIONS
    for step, count in ((0, 1), (MAX_STEPS + 1, 1), (1, 0), (1, MAX_QUESTIONS + 1)):
        with pytest.raises(FrameError):
            protocol.read_ask(packed_ask(step, count))


def test_only_guard_leaves_a_message_undecided() -> None:
    assert protocol.read_report(msgspec.msgpack.encode(Judged(REPORT))) == REPORT
    with pytest.raises(FrameError):
        protocol.read_report(msgspec.msgpack.encode(Judged(undecided("because I say so"))))


LINE = Line("text:urgency", TITLES["text:urgency"], "1", {}, 1, 1, "spam")


@pytest.mark.parametrize(
    "tag", ["x:y\r\nX-Injected: 1", "", "text:unheard-of", "list:A", "list:a b", "list:" + "b" * 64, "text:Urgency"]
)
def test_a_tag_that_nothing_can_give(tag: str) -> None:
    for report in (
        msgspec.structs.replace(REPORT, tags=(tag,)),
        msgspec.structs.replace(REPORT, lines=(msgspec.structs.replace(LINE, kind=tag),)),
    ):
        with pytest.raises(FrameError, match="not in the registry"):
            protocol.read_report(msgspec.msgpack.encode(Judged(report)))


def test_findings_of_a_closed_set() -> None:
    listed = Line("list:blocked-senders", title_of_list("blocked-senders"), "From", {}, 1, 1, "spam")
    sound = msgspec.structs.replace(REPORT, tags=("list:blocked-senders", "text:urgency"), lines=(LINE, listed))
    assert protocol.read_report(msgspec.msgpack.encode(Judged(sound))) == sound


@pytest.mark.parametrize(
    "change",
    [
        {"lines": (msgspec.structs.replace(LINE, title="Trust this message"),)},
        {"lines": (msgspec.structs.replace(LINE, kind="list:x", title="Trust this message"),)},
        {"lines": (msgspec.structs.replace(LINE, strength=float("nan")),)},
        {"lines": (msgspec.structs.replace(LINE, weight=1 << 63),)},
        {"score": 1 << 63},
        {"files": (FileSeen("1", "zip", 1 << 63, ""),)},
        {"outcomes": (Outcome("parse\r\nX-Injected: 1", "failed"),)},
        {"outcomes": (Outcome("x" * 61, "failed"),)},
    ],
)
def test_titles_numbers_and_stages_that_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        protocol.read_report(msgspec.msgpack.encode(Judged(msgspec.structs.replace(REPORT, **change))))


def test_a_snapshot_comes_back_as_it_went() -> None:
    start = protocol.snapshot_header(7, "lists:ä", 3)
    assert HEADER.unpack_from(start) == (len(start) - HEADER.size + 3, Frame.SNAPSHOT, 7)
    key, data = protocol.read_snapshot(start[HEADER.size :] + b"abc")
    assert (key, bytes(data)) == ("lists:ä", b"abc")


def test_snapshots_are_bounded_in_number_and_in_bytes() -> None:
    held: RecentSnapshots[int] = RecentSnapshots()
    for number in range(MAX_SNAPSHOTS + 1):
        held.put(str(number), number, 1)
    assert (len(held), held.get("0"), held.get("1")) == (MAX_SNAPSHOTS, None, 1)
    held.put("large", 0, MAX_SNAPSHOT_BYTES - 2)
    assert (len(held), held.get("1"), held.get("large")) == (3, 1, 0), "what was used last stays"
    held.put("large", 1, 10)
    held.put("other", 2, MAX_SNAPSHOT_BYTES - 20)
    assert (len(held), held.get("large")) == (4, 1), "a new version replaces the old one"
    held.put("larger than all", 3, MAX_SNAPSHOT_BYTES + 1)
    assert (len(held), held.get("larger than all")) == (1, 3)


def test_bodies_come_back_as_they_went() -> None:
    job = protocol.JobHeader(
        Envelope("a@b", ("c@d",)), 1.5, "lists:t", {"files": "x"}, ((Dns("a", "A"), DnsAnswer("found", ("1",))),)
    )
    assert protocol.read_job(msgspec.msgpack.encode(job)) == job
    for decode, value in (
        (protocol.read_ready, Ready(("seccomp",), ())),
        (protocol.read_failed, Failed("parse", "it crashed")),
        (protocol.read_answers, protocol.StepAnswers(1, (DnsAnswer("no-name"),))),
    ):
        assert decode(msgspec.msgpack.encode(value)) == value
