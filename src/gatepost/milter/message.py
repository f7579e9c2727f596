"""One message as a mail server shows it to a filter: its envelope, its fields one by one, its body in pieces.

The pieces are put together to the raw message again. Mail servers give the lines of a folded field with LF alone; here
they end with CRLF, as they did on the wire. The body comes as it is. Fields that claim to be ours are noted by their
number among those of their name, which is how a mail server is told to remove them.
"""

from gatepost.mail.message import Envelope
from gatepost.milter.protocol import pack_insertion, pack_removal
from gatepost.scanning.request import ScanResult
from gatepost.smtp import replies
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.reporting import ReportAddress
from gatepost.smtp.services import Services
from gatepost.smtp.trace import AUTHENTICATION, MAX_FIELDS, MAX_HEADER, PREFIX, build_result_fields, is_claim
from gatepost.smtp.transaction import digest_message
from gatepost.store.errors import StorageError


def read_path(text: bytes, limits: SmtpLimits) -> str | None:
    """Return the address of MAIL or RCPT as the SMTP client wrote it, without brackets and source route; None for one
    that no analysis could use. What makes an address valid has been decided by the mail server."""
    path = text.strip(b" \t")
    if path.startswith(b"<") and path.endswith(b">"):
        path = path[1:-1]
    if path.startswith(b"@") and b":" in path:
        path = path.partition(b":")[2]
    try:
        address = path.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return address if len(path) <= limits.path and address.isprintable() else None


class MilterMessage:
    """From MAIL to the answer. `refusal` is the reply to a message that is refused whatever is in it; `claims` are the
    fields to remove. `tenant` is that of all recipients, `report` the reporting address that the message is for."""

    def __init__(self, sender: str, client: SmtpClient, helo: str, services: Services) -> None:
        self._sender, self._client, self._helo, self._services = sender, client, helo, services
        self._recipients: list[str] = []
        self._fields = self._results = 0
        # How often each name came that fields of ours have; only as many as a header may have fields.
        self._numbers: dict[bytes, int] = {}
        self.claims: list[tuple[bytes, int]] = []
        self.body = services.spool.new()
        self.tenants: dict[str, str | None] = {}
        self.tenant: str | None = None
        self.report: ReportAddress | None = None
        self.refusal: SmtpReply | None = None

    @property
    def recipients(self) -> int:
        """How many recipients it has."""
        return len(self._recipients)

    def fits(self, tenant: str | None, report: ReportAddress | None) -> bool:
        """Whether a recipient of that tenant can be added; a reporting address has a message of its own."""
        if not self._recipients:
            return True
        return tenant == self.tenant and report is None and self.report is None

    def add_recipient(self, address: str, tenant: str | None, report: ReportAddress | None) -> None:
        """Add a recipient who fits."""
        self._recipients.append(address)
        self.tenant, self.report = tenant, report

    def add_field(self, name: bytes, value: bytes, *, spaced: bool) -> None:
        """Add the next header field; `spaced` says that the value comes with the space behind the colon."""
        self._fields += 1
        colon = b":" if spaced or not value else b": "
        raw = (name + colon + value).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") + b"\r\n"
        if self._fields > MAX_FIELDS or self.body.size + len(raw) > MAX_HEADER:
            self.refusal = self.refusal or replies.LONG_HEADER
        self._note_claim(name.strip().lower(), raw)
        self.add(raw)

    def _note_claim(self, name: bytes, raw: bytes) -> None:
        if self.refusal or not (name == AUTHENTICATION or name.startswith(PREFIX)):
            return
        self._results += name == AUTHENTICATION
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        if is_claim(name, raw, self._results, self._services.hostname):
            self.claims.append((name, number))

    def add(self, content: bytes) -> None:
        """Add bytes of the body, or of the header as it goes to the analysis. Nothing is kept of what is refused."""
        services = self._services
        if self.refusal is None and self.body.size + len(content) > services.limits.message:
            self.refusal = replies.TOO_LARGE
        if self.refusal is None and services.spooled + len(content) > services.limits.spooled:
            self.refusal = replies.NO_ROOM
        if self.refusal is not None:
            return
        try:
            self.body.write(content)
        except StorageError:
            self.refusal = replies.NO_ROOM
        else:
            services.spooled += len(content)

    def finish(self) -> None:
        """End writing."""
        try:
            self.body.finish()
        except StorageError:
            self.refusal = self.refusal or replies.NO_ROOM

    def envelope(self) -> Envelope:
        """Return the envelope for the analysis."""
        return Envelope(
            sender=self._sender,
            recipients=tuple(self._recipients),
            remote_address=self._client.remote_address() or None,
            helo=self._client.helo(self._helo) or None,
            tenant=self.tenant,
        )

    def digest(self) -> str:
        """Return a hash that is the same for the same bytes and envelope."""
        return digest_message(self.body.sha256, self._sender, self._recipients)

    def pack_changes(self, result: ScanResult, *, spaced: bool) -> bytes:
        """Return the changes of a message that goes on: fields that claim to be ours removed, ours put on top."""
        # From the last one on: mail servers differ in whether a field that was removed still counts.
        removed = [pack_removal(name, number) for name, number in reversed(self.claims)]
        added = []
        # Each one goes above those before it.
        for field in reversed(build_result_fields(result.ggrid, result.report, self._services.hostname)):
            name, _, value = field.removesuffix(b"\r\n").replace(b"\r\n", b"\n").partition(b":")
            added.append(pack_insertion(name, value if spaced else value.removeprefix(b" ")))
        return b"".join(removed + added)

    def close(self) -> None:
        """Free what it holds."""
        self._services.spooled -= self.body.size
        self.body.close()
