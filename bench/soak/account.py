"""What the clients were told, and whether the node kept it."""

import threading
from collections import Counter, deque
from dataclasses import dataclass

from bench.soak.node import SoakNode


class Account:
    """What every client saw. A request that fails is sent again; `timeouts` are requests that got no answer at all on a
    connection that stood."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.timeouts: list[str] = []
        self.decisions: Counter[str] = Counter()
        self.ggrids: set[str] = set()
        self.repeated: list[str] = []
        self.to_be_held: set[str] = set()
        self.recent: deque[str] = deque(maxlen=200)
        self.unknown_records: list[str] = []
        # SMTP, by Message-ID
        self.sent: set[str] = set()
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self.cut: Counter[str] = Counter()
        # lists
        self.changes = 0
        self.comparisons = 0
        self.differences: list[str] = []
        self.latencies: list[float] = []

    def note(self, client: str, outcome: str) -> None:
        with self.lock:
            self.outcomes[client, outcome] += 1
            if outcome == "timeout":
                self.timeouts.append(client)

    def note_result(self, ggrid: str, decision: str, seconds: float) -> None:
        with self.lock:
            if ggrid in self.ggrids:
                self.repeated.append(ggrid)
            self.ggrids.add(ggrid)
            self.recent.append(ggrid)
            self.decisions[decision] += 1
            self.latencies.append(seconds)
            if decision == "quarantine":
                self.to_be_held.add(ggrid)

    @property
    def answered(self) -> int:
        return len(self.ggrids) + len(self.accepted) + len(self.refused)


@dataclass(frozen=True)
class Outcome:
    """The account against storage, quarantine and next hop."""

    account: Account
    unanswered: int
    without_record: set[str]
    without_held_row: set[str]
    without_held_bytes: set[str]
    lost: set[str]
    duplicates: int
    unexplained: set[str]
    records: int
    held: int

    @property
    def losses(self) -> dict[str, int]:
        """Everything that must be zero."""
        account = self.account
        return {
            "scans without an answer": self.unanswered,
            "requests that timed out": len(account.timeouts),
            "answers without a record": len(self.without_record) + len(account.unknown_records),
            "results to be held without a row": len(self.without_held_row),
            "rows of held mail without bytes": len(self.without_held_bytes),
            "ggrids given twice": len(account.repeated),
            "SMTP messages lost": len(self.lost),
            "duplicates that no cut reply explains": len(self.unexplained),
            "list comparisons with a difference": len(account.differences),
        }


def judge(node: SoakNode, account: Account, unanswered: int) -> Outcome:
    """Compare what clients were told with what is there."""
    records = set(node.column("SELECT ggrid FROM messages"))
    rows = set(node.column("SELECT ggrid FROM held"))
    files = (node.data / "quarantine").rglob("*.eml")
    bytes_of = {file.stem: file.read_bytes() for file in files if not file.name.startswith(".")}
    bytes_of |= dict(node.rows("SELECT ggrid, content FROM held_bytes"))
    held = Counter(_id_in(raw) for name, raw in bytes_of.items() if name in rows)
    there = Counter(node.sink.taken) + held
    duplicates = {name: there[name] - 1 for name in account.sent if there[name] > 1}
    unexplained = {name for name, extra in duplicates.items() if extra > account.cut[name]}
    unexplained |= {name for name in account.refused - account.accepted if there[name] > account.cut[name]}
    return Outcome(
        account,
        unanswered,
        account.ggrids - records,
        account.to_be_held - rows,
        rows - bytes_of.keys(),
        {name for name in account.accepted if not there[name]} | (account.sent - account.accepted - account.refused),
        sum(duplicates.values()),
        unexplained,
        len(records),
        len(rows),
    )


def _id_in(raw: bytes) -> str:
    _, _, rest = raw.partition(b"Message-ID: <")
    return rest.partition(b">")[0].decode("ascii", "replace")
