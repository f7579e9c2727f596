"""What next hops answered, kept for those who track a message: the reply, and the id in it.

A reply comes after the record of its message is on disk, and the client waits for it to be passed on. Writing it down
must not make the client wait for one more commit: replies are gathered and written once a second, all in one
transaction. A process that is killed loses those of the last second; their messages then have no delivery on record,
which is what storage says of them. The log line of each message has the reply too.

While storage is away, replies wait in memory, up to `MAX_WAITING`; the oldest are dropped first.
"""

import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MAX_REPLY, Delivery

FLUSH_SECONDS = 1.0
MAX_WAITING = 20_000
# Deliveries of one transaction: other changes wait for it.
BATCH = 500

# An id is one word; what else a reply says is not one.
_ID = r"([A-Za-z0-9][A-Za-z0-9._+/-]{3,99})"
_FORMS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"\bqueued as {_ID}",  # Postfix, amavis, rspamd
        rf"\bid={_ID}",  # Exim: OK id=1tAbCd-00000001234-5xYz
        rf"\[InternalId={_ID}",  # Exchange
        rf"\breference {_ID}",  # Gatepost
        rf"\b(?:with|queue) id:? {_ID}",  # Stalwart, MailEnable
        rf"\bqueued \({_ID}\)",  # Haraka
        rf"^{_ID} Message accepted for delivery",  # sendmail, OpenSMTPD
        rf"^<[^<>]{{1,320}}> {_ID} Saved",  # Dovecot over LMTP
        rf"^ok:? +Message {_ID} accepted",  # Cisco
        r"^ok +(\d{6,12} qp \d{1,10})\b",  # qmail
        rf"^ok +\d{{6,12}} {_ID} - gsmtp",  # Google
    )
)
_ODD = re.compile(r"[^ -~]")

log = Logger("gatepost.guard")


def render_reply(reply: SmtpReply) -> str:
    """Return the text of a reply on one line, cut, and without characters that a terminal would obey."""
    text = b" ".join(reply.lines)[: MAX_REPLY * 2].decode("utf-8", "replace")
    return _ODD.sub("?", text)[:MAX_REPLY].strip()


def find_queue_id(reply: SmtpReply) -> str:
    """Return the id that a server gave a message that it has accepted; "" if its reply names none."""
    if not reply.positive:
        return ""
    for line in reply.lines[:5]:
        text = ENHANCED_STATUS.sub(b"", line[:MAX_REPLY].strip(), count=1).decode("ascii", "replace").strip()
        for form in _FORMS:
            if found := form.search(text):
                return found[1].rstrip(".")
    return ""


class DeliveryLog:
    """Gathers replies, and writes them with `record` from `start` to `stop`. It belongs to one event loop."""

    def __init__(self, record: Callable[[Sequence[Delivery]], Awaitable[None]]) -> None:
        self._record = record
        self._waiting: deque[Delivery] = deque()
        failed = "replies of next hops could not be written"
        self._writing = PeriodicWork(self.flush, FLUSH_SECONDS, failed, log, waits_first=True)
        self._failing = False
        self.written = self.dropped = 0

    def note(self, delivery: Delivery) -> None:
        """Keep a reply; it is written within a second."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(delivery)

    def start(self) -> None:
        """Write from now on."""
        self._writing.start()

    async def stop(self) -> None:
        """Write what is left, and end."""
        await self._writing.finish()
        await self.flush()

    async def flush(self) -> None:
        """Write what was noted; what storage does not take now is tried again."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                await self._record(batch)
            except StorageError as fault:
                self._waiting.extendleft(reversed(batch))
                if not self._failing:
                    log.warning("replies of next hops wait to be written", count=len(batch), reason=str(fault))
                self._failing = True
                return
            self.written += len(batch)
            self._failing = False
