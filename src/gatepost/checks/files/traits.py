"""What the readers of files note about a document, page, invitation or encrypted part, and what they could not read:
archives, containers of rare formats, and files that are not what their name says.
"""

import re
from collections.abc import Iterator

import msgspec

from gatepost.checks.reading import Reading, check
from gatepost.files.documents.page_scripts import STALLED
from gatepost.files.file_types import (
    ARCHIVE_EXTENSIONS,
    ARCHIVE_MIME_TYPES,
    CONTAINERS,
    DOCUMENT_EXTENSIONS,
    EXTENSIONS,
    find_last_extensions,
    identify,
    promises_archive,
)
from gatepost.files.values import UnreadReason
from gatepost.findings import kinds
from gatepost.findings.kinds import BY_ID, Finding, Kind
from gatepost.findings.strengths import coefficients
from gatepost.mail.message import Part
from gatepost.mail.reader import SMIME_TYPES
from gatepost.names import org_domain


class Stated(msgspec.Struct, frozen=True):
    """How a trait is stated: the name of its detail among the facts, and whether several of a file are `joined`."""

    kind: Kind
    fact: str = "seen"
    joined: bool = True


(_INSIDE,) = coefficients(kinds.FILE_REMOTE_TEMPLATE, "inside")
(_SHARE,) = coefficients(kinds.FILE_REMOTE_OBJECT, "share")
(_CUT_SHORT,) = coefficients(kinds.FILE_HTML_UNFINISHED, "library")
(_OF_ONE_KNOWN,) = coefficients(kinds.FILE_MACRO_AUTORUN, "known")
_TEXT_INPUT, _OWN_SERVER = coefficients(kinds.FILE_HTML_SENDS_INPUT, "text", "own")
_HOST = re.compile(r"\s*(?:file:)?[\\/]{2,6}([^\\/\s]{1,255})[\\/]", re.IGNORECASE)
BY_TRAIT: dict[str, Stated] = {
    "macro": Stated(kinds.FILE_MACRO),
    "macro-autorun": Stated(kinds.FILE_MACRO_AUTORUN),
    "macro-call": Stated(kinds.FILE_MACRO_CALL),
    "macro-cells": Stated(kinds.FILE_EXCEL4_MACRO),
    "program-action": Stated(kinds.FILE_PROGRAM_ACTION, "command", joined=False),
    "embedded-command": Stated(kinds.FILE_PROGRAM_ACTION, "command", joined=False),
    "page-system-link": Stated(kinds.FILE_PROGRAM_ACTION, "command", joined=False),
    "connection-settings": Stated(kinds.FILE_CONNECTION_SETTINGS, "server"),
    "installer": Stated(kinds.FILE_INSTALLER, "command", joined=False),
    "remote-template": Stated(kinds.FILE_REMOTE_TEMPLATE, "target", joined=False),
    "remote-object": Stated(kinds.FILE_REMOTE_OBJECT, "target", joined=False),
    "embedded-object": Stated(kinds.FILE_EMBEDDED_OBJECT),
    "equation-editor": Stated(kinds.FILE_EQUATION_EDITOR),
    "pdf-javascript": Stated(kinds.FILE_PDF_JAVASCRIPT),
    "pdf-launch": Stated(kinds.FILE_PDF_LAUNCH),
    "pdf-embedded-file": Stated(kinds.FILE_PDF_EMBEDDED_FILE),
    "pdf-open-action": Stated(kinds.FILE_PDF_OPEN_ACTION),
    "pdf-submit-form": Stated(kinds.FILE_PDF_SUBMIT_FORM),
    "smuggling": Stated(kinds.FILE_HTML_SMUGGLING),
    "clipboard-command": Stated(kinds.FILE_HTML_CLIPBOARD_COMMAND, "command", joined=False),
    "sends-input": Stated(kinds.FILE_HTML_SENDS_INPUT, joined=False),
    "hides-source": Stated(kinds.FILE_HTML_HIDES_SOURCE),
    "script-unfinished": Stated(kinds.FILE_HTML_UNFINISHED, "reason"),
    "written-page": Stated(kinds.FILE_HTML_WRITTEN_PAGE),
    "hidden-redirect": Stated(kinds.FILE_HTML_HIDDEN_REDIRECT, "target", joined=False),
    "obfuscated-script": Stated(kinds.FILE_HTML_OBFUSCATED),
    "page-password-field": Stated(kinds.FILE_HTML_PASSWORD_FORM, joined=False),
    "page-form": Stated(kinds.FILE_HTML_FORM, joined=False),
    "page-script": Stated(kinds.FILE_HTML_SCRIPT, joined=False),
    "page-svg-script": Stated(kinds.FILE_SVG_SCRIPT, joined=False),
    "xml-script": Stated(kinds.FILE_XML_SCRIPT),
    "xml-transform": Stated(kinds.FILE_XML_TRANSFORM, "target", joined=False),
    "xml-entity-markup": Stated(kinds.FILE_XML_ENTITY_MARKUP, "entities"),
    "page-meta-refresh": Stated(kinds.FILE_HTML_REDIRECT, joined=False),
}


@check(*dict.fromkeys(stated.kind for stated in BY_TRAIT.values()), needs={"trait"})
def traits(reading: Reading) -> Iterator[Finding]:
    """What a document, page or package can do by itself: one kind for each trait that the readers of files note.

    - Macros: companies do mail each other spreadsheets with macros, so a macro alone is a fact. One that starts by
      itself, and one that reaches out of its document (a shell, a download, foreign memory), makes a document a
      program; one that starts by itself is held unless its sender is known.
    - Actions: a slide runs a program when the mouse moves over a shape; a packaged object is a command line under the
      icon of a letter. An installer runs as a program does.
    - Connections: a profile of a private network or a remote desktop sends all that its reader does through the server
      that it names. Administrators mail them, so it is a fact; one that starts a program is an action.
    - Remote parts: the mailed document is harmless; its template or object comes from the attacker's server
      (CVE-2017-0199, CVE-2021-40444, CVE-2022-30190). Templates on the author's own disk are left out by the readers.
    - Embedded objects: a chart in a letter is an embedded spreadsheet, and what is embedded is judged as a file of its
      own. Nothing new is written with the old equation editor; what brings an object for it is mostly CVE-2017-11882.
    - PDF (ISO 32000-1 section 12.6): forms calculate with JavaScript and electronic invoices embed their data; a PDF
      that starts a program is not ordinary, and a script that runs at once is rarely a form's.
    - HTML smuggling (ATT&CK T1027.006): a page holds a file as a literal and saves it by script, behind every scanner.
      An honest sender attaches the file.
    - Attached pages: the browser runs what the mail program would not. A page that asks for a password brings the
      phishing site along, so that no link gives it away. An address in pieces, and code that is made unreadable, are
      written for scanners: an honest page has nothing to hide from them. A page that puts a command on the clipboard
      without showing it lets its reader start a program (ClickFix, FileFix; ATT&CK T1204.004). What a script sends of
      what is typed was seen by typing it; surveys do that with text, and to the server of their sender. A script that
      was not followed to its end is a fact: libraries ask for more of a browser than the stand-in has. A single script
      that computes without an end waits for an analysis to give up.
    - Pictures and XML: a drawing needs no script, and an invoice in XML is for programs. Style sheets (XSLT) that turn
      one into a page lie beside it in the folder of its reader; one inside the file, or on a server, makes a page that
      no reader of HTML has seen. Entities are for letters and addresses of vocabularies, not for elements.
    """
    for file in reading.files:
        for name in dict.fromkeys(trait.name for trait in file.traits):
            stated = BY_TRAIT.get(name)
            if stated is None:
                continue
            details = dict.fromkeys(file.seen(name)) if stated.joined else file.seen(name)
            for detail in [", ".join(details)] if stated.joined else details:
                facts = {stated.fact: detail}
                strength = 1.0
                if name.startswith("remote-"):
                    strength = _weigh_remote(stated.kind, detail)
                elif name == "sends-input":
                    strength = _weigh_input(detail, reading)
                elif name == "macro-autorun" and _is_met(reading):
                    strength = _OF_ONE_KNOWN
                elif name == "script-unfinished" and STALLED not in detail:
                    strength = _CUT_SHORT
                yield stated.kind.at(file.path, strength=strength, about=file.document, **facts)


def _weigh_remote(kind: Kind, target: str) -> float:
    """Return less for a template on a computer without a domain: documents of a company name its own file server, and
    nobody outside can answer under such a name. Return more for an object on a share that anybody can own."""
    host = _HOST.match(target)
    if host is None:
        return 1.0
    is_inside = "." not in host[1] and ":" not in host[1] and "@" not in host[1]
    if kind is kinds.FILE_REMOTE_TEMPLATE:
        return _INSIDE if is_inside else 1.0
    return 1.0 if is_inside else _SHARE


def _is_met(reading: Reading) -> bool:
    """Return whether the tenant knows the sender: by proof before and now, or as its own host."""
    is_proven = reading.authentication.aligned and reading.sender_history.address.proven.days > 1
    return is_proven or reading.protected.host_trusted


def _weigh_input(detail: str, reading: Reading) -> float:
    """Return less for input that is no password, and for a server of the sender: surveys are sent as pages, too."""
    carried, _, host = detail.partition(" to ")
    own = {org_domain(address.domain) for address in reading.message.senders if address.domain}
    strength = 1.0 if carried == "password" else _TEXT_INPUT
    return strength * (_OWN_SERVER if org_domain(host) in own else 1.0)


# The object identifiers id-envelopedData and id-ct-authEnvelopedData, as they stand in the first bytes.
_ENVELOPED_IDENTIFIERS = (bytes.fromhex("06092a864886f70d010703"), bytes.fromhex("060b2a864886f70d0109100117"))


@check(
    kinds.LIMIT_ENCRYPTED,
    kinds.FILE_ENCRYPTED_DOCUMENT,
    kinds.FILE_DEFAULT_PASSWORD,
    kinds.FILE_DOCUMENT_PASSWORD,
    needs={"trait", "smime"},
)
def protected_document(reading: Reading) -> Iterator[Finding]:
    """Content that only its recipient can read: password-protected documents, S/MIME (RFC 8551) and OpenPGP (RFC 9580).

    Doctors, lawyers and banks send such mail every day, so it is stated and weighs nothing; a document that no password
    in the mail opens adds a little to other signs. (An encrypted archive is another matter: it is how programs travel.)
    A workbook under the password that Excel tries by itself is hidden from
    scanners only; old write-protected ones look the same. So is a document whose password stands beside it.
    """
    for part in reading.message.parts:
        if form := _find_encryption(part):
            yield kinds.LIMIT_ENCRYPTED.at(part.path, form=form)
    for file in reading.files:
        for form in dict.fromkeys(file.seen("encrypted")):
            yield kinds.LIMIT_ENCRYPTED.at(file.path, about=file.document, form=form)
            if form not in ("S/MIME", "OpenPGP"):
                yield kinds.FILE_ENCRYPTED_DOCUMENT.at(file.path, about=file.document, form=form)
        if file.seen("default-password"):
            yield kinds.FILE_DEFAULT_PASSWORD.at(file.path, about=file.document, type=file.type)
        for password in file.seen("document-password"):
            yield kinds.FILE_DOCUMENT_PASSWORD.at(file.path, about=file.document, type=file.type, password=password)


def _find_encryption(part: Part) -> str:
    """Return how a part is encrypted, "" where it is not: signed S/MIME looks the same from outside."""
    if part.content_type in SMIME_TYPES and any(mark in part.content[:64] for mark in _ENVELOPED_IDENTIFIERS):
        return "S/MIME"
    return ""


_INVITING_METHODS = (("REQUEST",), ("PUBLISH",))


@check(kinds.FILE_CALENDAR_ORGANIZER, needs={"trait"})
def calendar_invitation(reading: Reading) -> Iterator[Finding]:
    """Invitations in another's name (RFC 5546): the calendar shows the organiser that the file names, not who sent it.

    Calendar services and assistants do send for others, so it weighs little. A calendar program enters the invitation
    by itself, with its links, even where the mail itself was moved to junk.
    """
    invitations = [file for file in reading.files if file.traits and file.seen("calendar-method") in _INVITING_METHODS]
    if not invitations:
        return
    message = reading.message
    own = {org_domain(address.domain) for address in (*message.senders, *message.reply_to)}
    # Invitations of one's own come back as answers of those who were invited.
    own |= {org_domain(recipient.domain) for recipient in message.recipients}
    for file in invitations:
        for organiser in file.seen("calendar-organizer"):
            if org_domain(organiser.rpartition("@")[2]) not in own:
                yield kinds.FILE_CALENDAR_ORGANIZER.at(file.path, about=file.document, organiser=organiser)


_KIND_BY_REASON: dict[UnreadReason, Kind] = {
    "encrypted": kinds.FILE_ENCRYPTED_ARCHIVE,
    "depth": kinds.LIMIT_ARCHIVE_DEPTH,
    "count": kinds.LIMIT_ARCHIVE_FILES,
    "size": kinds.LIMIT_ARCHIVE_SIZE,
    "ratio": kinds.LIMIT_ARCHIVE_RATIO,
    "damaged": kinds.FILE_DAMAGED_ARCHIVE,
    "unsupported": kinds.LIMIT_ARCHIVE_METHOD,
    "pixels": kinds.LIMIT_IMAGE_SIZE,
    "text": kinds.LIMIT_TEXT_FILE,
}


@check(
    *(*_KIND_BY_REASON.values(), kinds.FILE_DAMAGED_DOCUMENT, kinds.FILE_ENCRYPTED_ARCHIVE_OPENED),
    needs={"trait", "unread"},
)
def archives(reading: Reading) -> Iterator[Finding]:
    """Archives that could not be read whole, and those that took a password.

    An encrypted archive with its password in the mail is the oldest way past a scanner; an archive that unfolds without
    end is a way to stop one, and one that is cut short or of a rare format opens in a program that is more patient than
    this one. What was not read is said here, so that nothing unread passes as clean. A document that is damaged is
    shown as far as it goes, and has been read as far; that is a sign and no more. Some honest senders do write the
    password under the archive; theirs are opened, looked at, and let through.
    """
    for file in reading.files:
        for reason in file.unread:
            kind = _KIND_BY_REASON[reason]
            if kind is kinds.FILE_DAMAGED_ARCHIVE and file.type not in CONTAINERS and file.type != "pgp":
                kind = kinds.FILE_DAMAGED_DOCUMENT
            untried = file.seen("untried-passwords") if reason == "encrypted" else ()
            if untried:
                yield kind.at(file.path, about=file.sha256, type=file.type, untried=untried[0])
            else:
                yield kind.at(file.path, about=file.sha256, type=file.type)
        for trait in file.traits:
            if trait.name == "opened-with-password":
                yield kinds.FILE_ENCRYPTED_ARCHIVE_OPENED.at(
                    file.path, about=file.sha256, type=file.type, password=trait.detail
                )


_BROKEN_ENCODINGS = frozenset(BY_ID).intersection(
    f"mime:broken-{encoding}" for encoding in "base64 binhex quoted-printable uuencode yenc".split()
)


@check(kinds.FILE_UNREADABLE, needs={"attachment", "defect"})
def unreadable_files(reading: Reading) -> Iterator[Finding]:
    """Files that nothing here could open, under a name that promises a program which would.

    `invoice.zip` whose content has no mark of an archive is either a format that is not known here, or was damaged on
    its way, or is put together by something that the recipient is told to run. An attachment whose transfer encoding
    (RFC 2045 section 6) is broken may be repaired by a mail program that is more patient; where what came out is not
    what the name says, the true content was not seen. An honest sender's archive opens.
    """
    broken = {defect.where for defect in reading.message.defects if defect.kind in _BROKEN_ENCODINGS}
    for part in reading.message.parts:
        if part.path in broken and part.names and _is_lost(part, reading):
            yield kinds.FILE_UNREADABLE.at(part.path, name=part.names[0], content=identify(part.content))
    for file in reading.files:
        if file.type not in ("data", "text"):
            continue
        name = next(filter(promises_archive, file.names), "")
        if name or file.declared.lower() in ARCHIVE_MIME_TYPES:
            yield kinds.FILE_UNREADABLE.at(file.path, about=file.sha256, name=name or file.declared, content=file.type)


def _is_lost(part: Part, reading: Reading) -> bool:
    """Return whether no reading of a part is what its name says, though the name says something definite."""
    extensions = {extension for name in part.names for extension in find_last_extensions(name)}
    if not extensions & (ARCHIVE_EXTENSIONS | DOCUMENT_EXTENSIONS):
        return False
    types = {identify(part.content)}
    types |= {identify(other.content) for other in reading.message.parts if other.path.startswith(f"{part.path}~")}
    return not any(kind in EXTENSIONS and extensions & EXTENSIONS[kind] for kind in types)
