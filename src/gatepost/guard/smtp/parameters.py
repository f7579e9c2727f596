"""Parameters of MAIL and RCPT: which of them the client may use, and whether they make sense.

SIZE (RFC 1870), BODY (RFC 6152), SMTPUTF8 (RFC 6531); RET, ENVID, NOTIFY and ORCPT (RFC 3461) if the next hop has DSN.
"""

from gatepost.guard.smtp import replies
from gatepost.guard.smtp.commands import Path
from gatepost.guard.smtp.replies import Reply

_MAIL = frozenset({"SIZE", "BODY", "SMTPUTF8"})
_MAIL_DSN = frozenset({"RET", "ENVID"})
_RCPT_DSN = frozenset({"NOTIFY", "ORCPT"})


def sender_fault(mail: Path, theirs: dict[str, str], size_limit: int, *, extended: bool) -> Reply | None:
    """What is wrong with MAIL, if anything. `theirs` is what the next hop can; after HELO there are no parameters."""
    parameters = mail.parameters
    known = _MAIL | _MAIL_DSN if "DSN" in theirs else _MAIL
    if not parameters.keys() <= known or (parameters and not extended):
        return replies.UNKNOWN_PARAMETER
    if not _well_formed(parameters):
        return replies.SYNTAX
    if "SMTPUTF8" in parameters and "SMTPUTF8" not in theirs:
        return replies.UNKNOWN_PARAMETER
    if not mail.address.isascii() and "SMTPUTF8" not in parameters:
        return replies.NEEDS_UTF8
    return replies.TOO_LARGE if int(parameters.get("SIZE", "0")) > size_limit else None


def recipient_fault(rcpt: Path, theirs: dict[str, str], *, international: bool) -> Reply | None:
    """What is wrong with RCPT, if anything."""
    if not rcpt.parameters.keys() <= (_RCPT_DSN if "DSN" in theirs else frozenset()):
        return replies.UNKNOWN_PARAMETER
    return None if rcpt.address.isascii() or international else replies.NEEDS_UTF8


def _well_formed(parameters: dict[str, str]) -> bool:
    size, body, ret = parameters.get("SIZE", "0"), parameters.get("BODY", "7BIT"), parameters.get("RET", "HDRS")
    return (
        size.isdigit()
        and len(size) <= 20
        and body.upper() in ("7BIT", "8BITMIME")
        and parameters.get("SMTPUTF8", "") == ""
        and ret.upper() in ("HDRS", "FULL")
        and len(parameters.get("ENVID", "x")) <= 100
    )
