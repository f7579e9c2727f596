"""What guard and a worker tell each other: frames on a socket, and a page of memory.

A frame is length, kind, job, then msgpack (a raw message goes as it is). guard treats a worker as hostile, as hostile
bytes are parsed there: each kind that may come from a worker has a maximum size, each body a type, and a step a maximum
of questions. Whatever breaks one of these is a `FrameError`, and guard ends the worker that sent it.

guard must also know which snapshots a worker still has. Both see the same jobs in the same order, so both keep a
`RecentSnapshots` of the same size: what falls out on one side falls out on the other.

`Spawn`, `Loaded`, `NotLoaded` and `WorkerStarted` are the messages between guard and the loader, which has seen no
mail.

A worker that hangs in native code can say nothing on its socket. So before each stage it writes one 64-bit word into
memory that guard maps too (`StatusPage`). A single aligned word is never seen half written. A count of changes is part
of it, so that guard can tell "still there" from "there again". guard does not believe a worker blindly: whatever number
stands there, `WorkerProcess.state` accepts it only for a job whose turn it is. Stages are numbered. guard's event loop
loads no analysis, so the loader tells it their names.
"""

import fcntl
import mmap
import os
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from gatepost.analysis.report import Line, Outcome, PreparedRecord, Report, undecided
from gatepost.findings.kinds import TITLES
from gatepost.mail.message import Envelope
from gatepost.policy.rules import title_of_list
from gatepost.process.cpu_account import UNLIMITED
from gatepost.questions import MAX_SIGNATURE, Answer, Question
from gatepost.scanning.request import Cuts, first_received_id, is_queue_id
from gatepost.store.evidence import are_digests, index_evidence
from gatepost.store.record_packing import Detail, compress, cut_header, is_packed_header, is_packed_report, pack_report
from gatepost.view.values import MAX_NAME, HtmlView, NotShown, Picture, View

SIZE = mmap.PAGESIZE
IDLE = "idle"
RECEIVE = "receive"
LOAD_POLICY = "load policy"
LOAD_LISTS = "load lists"
LOAD_MODELS = "load models"


class StageNames(msgspec.Struct, frozen=True):
    """The stages of an analysis in the order of their numbers, and those that no attempt can do without."""

    names: tuple[str, ...] = ()
    indispensable: frozenset[str] = frozenset()

    def can_skip(self, stage: str) -> bool:
        """Whether a message can be judged without this stage."""
        return stage in self.names and stage not in self.indispensable


NO_STAGES = StageNames()


class WorkerState(msgspec.Struct, frozen=True):
    """The job that a worker executes and its stage; job 0 means that the worker waits."""

    job: int
    stage: str


class StatusPage:
    """One shared page. Only the worker writes. `stages` may be set later, before the first job."""

    def __init__(self, descriptor: int, stages: StageNames = NO_STAGES) -> None:
        self._map = mmap.mmap(descriptor, SIZE)
        self._words = memoryview(self._map).cast("Q")
        self._changes = 0
        self.stages = stages

    @property
    def stages(self) -> StageNames:
        """The stages whose numbers the page holds."""
        return self._stages

    @stages.setter
    def stages(self, stages: StageNames) -> None:
        self._stages = stages
        self._names = (IDLE, RECEIVE, LOAD_POLICY, LOAD_LISTS, LOAD_MODELS, *stages.names)
        self._numbers = {name: number for number, name in enumerate(self._names)}

    @property
    def word(self) -> int:
        """The word as it stands, for comparison with an earlier one."""
        return self._words[0]

    @property
    def state(self) -> WorkerState:
        """The word, decoded; an unknown stage reads as idle."""
        word = self._words[0]
        number = word & 0xFFFF
        return WorkerState(word >> 32, self._names[number] if number < len(self._names) else IDLE)

    @property
    def out_of_memory(self) -> bool:
        """Whether the worker has said that it ends for lack of memory."""
        return self._words[1] != 0

    def enter(self, job: int, stage: str) -> None:
        """Say that `job` now executes `stage`."""
        self._changes = (self._changes + 1) & 0xFFFF
        self._words[0] = job << 32 | self._changes << 16 | self._numbers.get(stage, 0)

    def marker(self, job: int) -> Callable[[str], None]:
        """Return `enter` for the many stages of one job, without a call inside the call."""
        words, numbers, high = self._words, self._numbers, job << 32

        def mark(stage: str) -> None:
            self._changes = changes = (self._changes + 1) & 0xFFFF
            words[0] = high | changes << 16 | numbers.get(stage, 0)

        return mark

    def say_out_of_memory(self) -> None:
        """Say why this worker is about to end; needs no memory itself."""
        self._words[1] = 1

    @property
    def children_cpu(self) -> float:
        """The CPU seconds of all children that have worked for the worker."""
        return self._words[2] / 1e6

    def tell_children_cpu(self, seconds: float) -> None:
        """Say what CPU time its children have taken, which the clock of its process does not count."""
        self._words[2] = int(seconds * 1e6)

    def close(self) -> None:
        self._words.release()
        self._map.close()


def new_status_page() -> int:
    """Return a descriptor of a fresh page whose size is sealed: reading a page that was cut short would kill guard."""
    descriptor = os.memfd_create("gatepost-page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


T = TypeVar("T")
PurposeName = Literal["judge", "view", "picture", "page", "features", "report", "strip"]

# Bytes above which a message has its worker alone.
LARGE = 1 << 20
MAX_STEPS = 64
MAX_QUESTIONS = 64
MAX_REPORT = 4 << 20
MAX_LOADED = 64 << 10
MAX_REASON = 2_000
# Far more than a feature row has.
MAX_ROW = 4096
MAX_ATTACHED = 10
PNG = b"\x89PNG\r\n\x1a\n"

HEADER = struct.Struct("<IBI")
_HEADER_SIZE = HEADER.size
_KEY_SIZE = struct.Struct("<H")


class Frame(IntEnum):
    """Kinds of frame; those of a worker start at 16."""

    SNAPSHOT = 1
    JOB = 2
    RAW = 3
    ANSWERS = 4
    CANCEL = 5
    READY = 16
    ASK = 17
    DONE = 18
    FAILED = 19


FROM_WORKER = {Frame.READY: 4096, Frame.ASK: 4 << 20, Frame.DONE: MAX_REPORT, Frame.FAILED: 4096}


class Extracted(msgspec.Struct, frozen=True, tag=True):
    """What a text model sees of a message, packed by `textmodel.features`. guard does not load that. `row` is its
    feature row, `signature` that of its text, and `sender` the domain in From: what a report on the message teaches."""

    data: bytes
    row: Annotated[bytes, msgspec.Meta(max_length=MAX_ROW)] = b""
    signature: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_SIGNATURE)] = ()
    sender: Annotated[str, msgspec.Meta(max_length=255)] = ""


class Attached(msgspec.Struct, frozen=True):
    """What a report by mail teaches with one message that is attached to it; `sha256` is that of its bytes."""

    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    row: Annotated[bytes, msgspec.Meta(max_length=MAX_ROW)] = b""
    signature: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_SIGNATURE)] = ()
    sender: Annotated[str, msgspec.Meta(max_length=255)] = ""


class AttachedMessages(msgspec.Struct, frozen=True, tag=True):
    """The messages that are attached to a report by mail."""

    messages: Annotated[tuple[Attached, ...], msgspec.Meta(max_length=MAX_ATTACHED)] = ()


_Short = Annotated[str, msgspec.Meta(max_length=200)]


class JobHeader(msgspec.Struct, frozen=True, array_like=True):
    """What a worker has to know of a job (`workers.jobs.Job`) beside its bytes, which follow in a frame of their own.

    `lists`, `policy` and `learnt` name the snapshots to use; `skip` are stages that broke a worker; `known` are answers
    that an attempt before this one was given; `antivirus` says whether there is one to ask, `reputation` what zones are
    asked about. With another `purpose` the message is not judged but shown, or the picture with that `index` in it, or
    read for the training of a model, or the places are found of `parts` that are to go. `own_networks` are those of
    the tenant of the message and of all; `for_mailboxes` says that every recipient takes reports. `cpu` is how many
    seconds of it this attempt may take.
    """

    envelope: Envelope
    now: float
    lists: str = ""
    skip: dict[str, str] = {}
    known: tuple[tuple[Question, Answer], ...] = ()
    antivirus: bool = False
    policy: str = "policy"
    purpose: PurposeName = "judge"
    index: int = 0
    reputation: tuple[str, ...] = ()
    learnt: str = ""
    parts: tuple[str, ...] = ()
    own_networks: tuple[str, ...] = ()
    for_mailboxes: bool = False
    cpu: float = UNLIMITED


class StepAnswers(msgspec.Struct, frozen=True, array_like=True):
    """The answers to one step."""

    step: int
    answers: tuple[Answer, ...]


class Ready(msgspec.Struct, frozen=True, array_like=True):
    """A worker is sealed: what with, and what could nevertheless be done."""

    layers: Annotated[tuple[_Short, ...], msgspec.Meta(max_length=16)]
    leaks: Annotated[tuple[_Short, ...], msgspec.Meta(max_length=16)]


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A job waits for the answers to these."""

    step: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)]
    questions: Annotated[tuple[Question, ...], msgspec.Meta(min_length=1, max_length=MAX_QUESTIONS)]


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """An analysis ended without a report; the worker is well."""

    stage: _Short
    reason: _Short


class Judged(msgspec.Struct, frozen=True, array_like=True):
    """A report, and what the worker has prepared of the record."""

    report: Report
    prepared: PreparedRecord | None = None


# Tags that are no kind of finding: the list that decided, by the name that its owner gave it (`lists.catalogue`), and
# the operator's own rule (`policy.layers`).
_LIST_TAG = re.compile(r"list:[a-z0-9][a-z0-9-]{0,62}\Z")
_RULE_TAG = re.compile(r"rule:[a-z][a-z0-9-]{0,62}\Z")
_MAX_TITLE = 200
_MAX_NUMBER = 1 << 53
_MAX_STAGE = 60


class FrameError(ValueError):
    """A worker has sent what no sound worker sends."""


_encoder = msgspec.msgpack.Encoder()


def _make_reader(kind: object) -> Callable[[bytes], Any]:
    """Return what decodes the body of a frame that a worker sent; it raises `FrameError`."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def read(body: bytes) -> Any:
        try:
            return decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError) as fault:
            raise FrameError(f"a frame could not be read: {type(fault).__name__}") from None

    return read


read_ready: Callable[[bytes], Ready] = _make_reader(Ready)
read_ask: Callable[[bytes], Ask] = _make_reader(Ask)
read_failed: Callable[[bytes], Failed] = _make_reader(Failed)
read_view: Callable[[bytes], View | NotShown] = _make_reader(View | NotShown)
_read_judged: Callable[[bytes], Judged] = _make_reader(Judged)
_read_picture: Callable[[bytes], Picture | NotShown] = _make_reader(Picture | NotShown)
_read_page: Callable[[bytes], HtmlView | NotShown] = _make_reader(HtmlView | NotShown)
# guard is believed.
read_job = msgspec.msgpack.Decoder(JobHeader).decode
read_answers = msgspec.msgpack.Decoder(StepAnswers).decode


def raw_frame(kind: Frame, job: int, body: bytes) -> bytes:
    return HEADER.pack(len(body), kind, job) + body


def pack_frame(kind: Frame, job: int, body: msgspec.Struct) -> bytes:
    encoded = _encoder.encode(body)
    return HEADER.pack(len(encoded), kind, job) + encoded


def raw_header(job: int, size: int) -> bytes:
    """Return the header of a frame that holds a raw message, whose bytes follow."""
    return HEADER.pack(size, Frame.RAW, job)


def encode_judged(encoded: bytes, report: Report, envelope: Envelope, head: bytes) -> bytes:
    """Return the body of a DONE frame of a judged job, from a report, its MessagePack, and the message's start."""
    header, evidence = cut_header(head), index_evidence(Detail(envelope, report))
    prepared = PreparedRecord(pack_report(encoded), compress(header), first_received_id(header), evidence)
    body = _encoder.encode((msgspec.Raw(encoded), prepared))
    return body if len(body) <= MAX_REPORT else _encoder.encode((msgspec.Raw(encoded),))


def read_report(body: bytes, titles: Mapping[str, str] = TITLES) -> Report:
    """Decode the body of a DONE frame. No worker may leave a message undecided or choose an action: that is guard's.

    Tags become a header field of delivered mail and stand in answers of the API, and titles are shown as ours: both are
    of a closed set, `titles`, which has those of plug-ins where there are any. Numbers must fit into the columns of
    storage. Texts of the message are as hostile as the message was, and whoever shows them escapes them.
    """
    judged = _read_judged(body)
    result = judged.report
    if (prepared := judged.prepared) is not None:
        _check_prepared(prepared)
        result.remember(prepared)
    if result.decision == "undecided" or result.action is not None:
        raise FrameError("a worker left its message undecided, or chose an action")
    for tag in result.tags:
        if tag not in titles and not (_LIST_TAG.match(tag) or _RULE_TAG.match(tag)):
            raise FrameError("a tag that is not in the registry")
    for line in result.lines:
        if titles.get(line.kind) != line.title and not _is_named_finding(line, titles):
            raise FrameError("a finding that is not in the registry")
        # NaN is in no bounds.
        in_bounds = -_MAX_NUMBER < line.weight < _MAX_NUMBER and -_MAX_NUMBER < line.counted < _MAX_NUMBER
        if not (in_bounds and -_MAX_NUMBER < line.strength < _MAX_NUMBER):
            raise FrameError("a number out of bounds")
    for outcome in result.outcomes:
        if len(outcome.stage) > _MAX_STAGE or not outcome.stage.isprintable():
            raise FrameError("a stage with a name that no stage has")
    for number in [result.score, *[file.size for file in result.files]]:
        if not -_MAX_NUMBER < number < _MAX_NUMBER:
            raise FrameError("a number out of bounds")
    return result


def _check_prepared(prepared: PreparedRecord) -> None:
    """Refuse what cannot go into a row; whatever else a worker prepares spoils the record of its own message alone."""
    if prepared.report and not is_packed_report(prepared.report, MAX_REPORT):
        raise FrameError("a report that is packed in another way")
    if not is_packed_header(prepared.header):
        raise FrameError("a header section that is packed in another way")
    if prepared.queue_id and not is_queue_id(prepared.queue_id):
        raise FrameError("a queue id that is none")
    if prepared.evidence is not None and not are_digests(prepared.evidence):
        raise FrameError("evidence that has no such digests")


def _is_named_finding(line: Line, titles: Mapping[str, str]) -> bool:
    if line.kind in titles:
        return False
    if _RULE_TAG.match(line.kind):
        return len(line.title) <= _MAX_TITLE
    return _LIST_TAG.match(line.kind) is not None and line.title == title_of_list(line.kind.partition(":")[2])


def read_picture(body: bytes) -> Picture | NotShown:
    """Decode the body of a DONE frame of a job that shows a picture; nothing but PNG goes on from here."""
    result = _read_picture(body)
    if isinstance(result, Picture) and not result.png.startswith(PNG):
        raise FrameError("a picture that is no PNG")
    return result


def read_page(body: bytes) -> HtmlView | NotShown:
    """Decode the body of a DONE frame of a job that shows the HTML of a message; its pictures are PNG."""
    result = _read_page(body)
    if isinstance(result, HtmlView) and not all(png.startswith(PNG) for png in result.pictures):
        raise FrameError("a picture that is no PNG")
    return result


class Purpose(Generic[T]):
    """What a message is handed to a worker for. `read` decodes what a worker answers then; `fail` makes the result of a
    job that came to no end, from the reason and the stages that failed."""

    def __init__(
        self, name: PurposeName, read: Callable[[bytes], T], fail: Callable[[str, Iterable[Outcome]], T]
    ) -> None:
        self.name, self.read, self.fail = name, read, fail

    def read_result(self, kind: Frame, body: bytes) -> T:
        """Decode the body of a DONE or FAILED frame."""
        if kind is Frame.DONE:
            return self.read(body)
        failed = read_failed(body)
        reason = f"{failed.stage} broke the analysis: {failed.reason}" if self.name == "judge" else failed.reason
        return self.fail(reason, [Outcome(failed.stage, "failed", failed.reason)])


def _not_shown(reason: str, _outcomes: Iterable[Outcome]) -> NotShown:
    return NotShown(reason[:MAX_NAME])


def judge_with(titles: Mapping[str, str]) -> Purpose[Report]:
    """Return the purpose of judging where these kinds can be found, each with its title."""
    return Purpose("judge", partial(read_report, titles=titles), undecided)


JUDGE = judge_with(TITLES)
VIEW: Purpose[View | NotShown] = Purpose("view", read_view, _not_shown)
PICTURE: Purpose[Picture | NotShown] = Purpose("picture", read_picture, _not_shown)
PAGE: Purpose[HtmlView | NotShown] = Purpose("page", read_page, _not_shown)
FEATURES: Purpose[Extracted | NotShown] = Purpose("features", _make_reader(Extracted | NotShown), _not_shown)
ATTACHED: Purpose[AttachedMessages | NotShown] = Purpose(
    "report", _make_reader(AttachedMessages | NotShown), _not_shown
)
STRIP: Purpose[Cuts | NotShown] = Purpose("strip", _make_reader(Cuts | NotShown), _not_shown)


def snapshot_header(job: int, key: str, size: int) -> bytes:
    """Return the start of a frame that holds a snapshot, whose bytes follow: data that analyses need and that changes
    now and then, by its key. It is sent once for each worker and version, before the first job that needs it."""
    name = key.encode()
    return HEADER.pack(_KEY_SIZE.size + len(name) + size, Frame.SNAPSHOT, job) + _KEY_SIZE.pack(len(name)) + name


def read_snapshot(body: bytes) -> tuple[str, memoryview]:
    """Decode the body of a SNAPSHOT frame: key and data."""
    (size,) = _KEY_SIZE.unpack_from(body)
    start = _KEY_SIZE.size + size
    return body[_KEY_SIZE.size : start].decode(), memoryview(body)[start:]


_FRAMES = {frame.value: frame for frame in Frame}


class FrameReader:
    """Cuts a worker's stream of bytes into frames, as far as they have come."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[Frame, int, bytes]]:
        """The frames that are complete with these bytes; `FrameError` if one may not be."""
        self._buffer += data
        found = []
        start, size = 0, len(self._buffer)
        while size - start >= _HEADER_SIZE:
            length, kind, job = HEADER.unpack_from(self._buffer, start)
            if length > FROM_WORKER.get(kind, -1):
                raise FrameError(f"a frame of kind {kind} and {length} bytes")
            body = start + _HEADER_SIZE
            if body + length > size:
                break
            start = body + length
            found.append((_FRAMES[kind], job, bytes(self._buffer[body:start])))
        del self._buffer[:start]
        return found


class Spawn(msgspec.Struct, frozen=True, tag=True):
    """guard to loader, with the worker's socket and status page: fork a worker."""

    number: int
    memory: int


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """Loader to guard: everything is imported and warm; these are the stages of an analysis."""

    stages: StageNames


class NotLoaded(msgspec.Struct, frozen=True, tag=True):
    """Loader to guard: what it was to load has a fault, which a person can mend; it ends."""

    reason: str


class WorkerStarted(msgspec.Struct, frozen=True, tag=True):
    """Loader to guard, with a pidfd: this worker runs."""

    number: int
    pid: int


MAX_SNAPSHOTS = 32
# Packed; what a worker makes of them takes several times as much. Those of one tenant always fit: two scopes of 8 MiB.
MAX_SNAPSHOT_BYTES = 32 << 20


class RecentSnapshots(Generic[T]):
    """Values by name: at most `MAX_SNAPSHOTS` with at most `MAX_SNAPSHOT_BYTES`, of which the one that was used longest
    ago goes first. The latest is kept whatever its size."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[T, int]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> T | None:
        """The value, which thereby is the latest used."""
        if name not in self._values:
            return None
        found = self._values[name] = self._values.pop(name)
        return found[0]

    def put(self, name: str, value: T, size: int) -> None:
        """Keep a value that was packed into so many bytes, as the latest used."""
        self._drop(name)
        self._values[name] = (value, size)
        self._bytes += size
        while len(self._values) > 1 and (len(self._values) > MAX_SNAPSHOTS or self._bytes > MAX_SNAPSHOT_BYTES):
            self._drop(next(iter(self._values)))

    def _drop(self, name: str) -> None:
        self._bytes -= self._values.pop(name, (None, 0))[1]
