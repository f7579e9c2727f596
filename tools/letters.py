"""Make a corpus of the letters that the authors wrote: honest ones and lures, in twenty languages.

    python -m tools.letters OUT [--as-mail CORPUS]

writes one message for each letter of the folder `letters`, and the `INDEX.tsv` that training and evaluation read.
Nobody ever sent these letters: they stand for the languages of which no collection of real mail is at hand. All of them
have the same plain header, so that nothing but what they say and where they lead tells honest ones from lures.

Each letter belongs to one of four collections, by a digest of its text, so that an evaluation which leaves out whole
collections judges every letter with a model that has read three quarters of the others.

With `--as-mail`, letters come as mail does: each gets the way of one real message of the labelled mail in CORPUS, drawn
by a digest of its text. A lure takes from an unwanted message the sending host and its name, the envelope, the Received
and other fields, the sender's address and the site of the first link; it keeps its words and the name that it shows. An
honest letter takes host and Received fields from wanted mail, and keeps its own sender and links.

Books of notices (`de-notices.toml`) come as services send them, with HTML and a host of their own (`tools.layouts`).
`zone.json` has the DNS records that prove their senders; `python -m tools.wanted_mail OUT` judges them with it.
"""

import argparse
import csv
import json
import re
from collections.abc import Iterable, Sequence
from email import message_from_bytes
from email.header import Header
from email.mime.application import MIMEApplication
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formataddr, parseaddr
from html import escape
from pathlib import Path
from zlib import crc32

import msgspec

from tools.labelled_mail import LabelledMail, read_labelled
from tools.layouts import lay_out

LETTERS = Path(__file__).parents[1] / "letters"
COLLECTIONS = "abcd"
# How the names of books of notices end.
NOTICES = "-notices"
READER = "reader@recipient.example"
DATE = "Tue, 14 Oct 2025 09:12:00 +0000"
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\((https?://[^)\s]{1,500})\)")
# A file that every reader opens and that says nothing.
_FILE = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    b"trailer<</Root 1 0 R>>\n"
)


class Letter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """One letter. A link in its text stands as `[words](address)`; `file` is the name of a file that comes with it."""

    kind: str
    theme: str
    sender: str
    subject: str
    text: str
    reply_to: str = ""
    file: str = ""

    @property
    def label(self) -> str:
        """The label by which training and evaluation know the letter."""
        return {"ham": "ham", "spam": "spam", "phish": "phish", "fraud": "fraud"}[self.kind]

    def split_sender(self) -> tuple[str, str]:
        """Return the display name and the address of the sender, with its domain as DNS knows it (RFC 5891)."""
        name, _, address = self.sender.rpartition("<")
        local, _, domain = address.strip("> ").rpartition("@")
        return name.strip().strip('"'), f"{local}@{domain.encode('idna').decode()}"

    @property
    def collection(self) -> str:
        """The collection to which the letter belongs."""
        return COLLECTIONS[crc32(self.text.encode()) % len(COLLECTIONS)]


class _Book(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    letters: tuple[Letter, ...]


def list_books() -> list[str]:
    """Return the names of all files with letters: the code of a language, and what they are where there are several."""
    return sorted(path.stem for path in LETTERS.glob("*.toml"))


def read_letters(book: str) -> tuple[Letter, ...]:
    """Return the letters of one file."""
    return msgspec.toml.decode((LETTERS / f"{book}.toml").read_bytes(), type=_Book).letters


# The collections of our time whose mail lends letters its way, by whether it is wanted.
_WANTED_WAYS = frozenset({"foff_milter", "lists_subscriber"})
_UNWANTED_WAYS = frozenset({"phishing_pot", "phishing_pot_rest", "foff_milter"})
# What a mail server or program wrote about the way and the making of a message, and nothing of its text.
_WAY_FIELDS = ("Received", "Date", "X-Mailer", "User-Agent", "X-Originating-IP", "X-Priority", "DKIM-Signature")
_SITE = re.compile(rb"https?://([A-Za-z0-9.-]{4,120}\.[A-Za-z]{2,12})[/?\"'>\s]")
_HOST = re.compile(r"(?<=https://)[^/\s)]+|(?<=http://)[^/\s)]+")
# Addresses that stand in every HTML page: names of its document type.
_NO_SITES = (b"w3.org", b"schemas.", b"openxmlformats.org")


class Way(msgspec.Struct, frozen=True):
    """How a real message came: its envelope, fields that say so, the address of From and of answers, and its site."""

    fields: tuple[tuple[str, str], ...]
    client: str
    helo: str
    mail_from: str
    sender: str
    reply_to: str
    site: str


def read_ways(folders: Iterable[Path]) -> tuple[list[Way], list[Way]]:
    """Return the ways of wanted and of unwanted mail."""
    wanted, unwanted = [], []
    for mail in read_labelled(folders):
        if mail.label == "ham" and mail.corpus in _WANTED_WAYS:
            wanted.append(_read_way(mail))
        elif mail.label in ("spam", "phish") and mail.corpus in _UNWANTED_WAYS:
            unwanted.append(_read_way(mail))
    return wanted, [way for way in unwanted if "@" in way.sender]


def _read_way(mail: LabelledMail) -> Way:
    message = message_from_bytes(mail.raw)
    fields = [
        (name, " ".join(str(value).encode("ascii", "replace").decode().split()))
        for name in _WAY_FIELDS
        for value in message.get_all(name, [])
    ]
    sites: list[bytes] = []
    for part in message.walk():
        content = part.get_payload(decode=True) if part.get_content_maintype() == "text" else None
        found = _SITE.findall(content) if isinstance(content, bytes) else []
        sites += [site for site in found if not site.endswith(_NO_SITES)]
    envelope = mail.envelope
    sender, reply_to = (parseaddr(str(message.get(name, "")))[1] for name in ("From", "Reply-To"))
    sender = sender if sender.isascii() else ""
    site = sites[0].decode() if sites else ""
    return Way(
        tuple(fields), envelope.remote_address or "", envelope.helo or "", envelope.sender, sender, reply_to, site
    )


def choose_way(letter: Letter, wanted: Sequence[Way], unwanted: Sequence[Way]) -> Way:
    """Return the way by which a letter comes: one of its side; for a lure with a link that of a message with one."""
    number = crc32(letter.text.encode())
    if letter.label == "ham":
        return wanted[number % len(wanted)]
    has_link = _HOST.search(letter.text) is not None
    alike = [way for way in unwanted if bool(way.site) == has_link]
    return alike[number % len(alike)]


def write_message(letter: Letter, way: Way | None = None) -> bytes:
    """Return a letter as a message: with an HTML half where it has links with words, else as plain text."""
    text = letter.text.strip("\n") + "\n"
    name, address = letter.split_sender()
    reply_to = letter.reply_to
    if way and letter.label != "ham":
        text = _HOST.sub(way.site, text) if way.site else text
        address, reply_to = way.sender, reply_to or way.reply_to
    plain = MIMEText(_LINK.sub(r"\1: \2", text), "plain", "utf-8")
    body: MIMEBase = plain
    if _LINK.search(text):
        body = MIMEMultipart("alternative", "=-letter", (plain, MIMEText(_write_html(text), "html", "utf-8")))
    if letter.file:
        file = MIMEApplication(_FILE, "pdf")
        file.add_header("Content-Disposition", "attachment", filename=letter.file)
        body = MIMEMultipart("mixed", "=-letter-with-file", (body, file))
    for field, value in way.fields if way else ():
        if field in ("Received", "Date") or letter.label != "ham":
            body[field] = value
    body["From"] = formataddr((name, address))
    body["To"] = READER
    body["Subject"] = Header(letter.subject, "utf-8").encode()
    if "Date" not in body:
        body["Date"] = DATE
    body["Message-ID"] = f"<{crc32(letter.text.encode()):08x}@{address.rpartition('@')[2]}>"
    if reply_to:
        body["Reply-To"] = reply_to
    return body.as_bytes()


def _write_html(text: str) -> str:
    paragraphs = (escape(part, quote=False).replace("\n", "<br>\n") for part in text.strip().split("\n\n"))
    body = "\n".join(f"<p>{_LINK.sub(_write_anchor, part)}</p>" for part in paragraphs)
    return f"<!DOCTYPE html>\n<html><body>\n{body}\n</body></html>\n"


def _write_anchor(link: re.Match[str]) -> str:
    return f'<a href="{link[2]}">{link[1]}</a>'


COLUMNS = ("path", "corpus", "label", "year", "mail_from", "client_ip", "helo", "class", "language")


def write_corpus(folder: Path, corpora: Sequence[Path] = ()) -> int:
    """Write all letters with their index; return how many there are. With corpora of real mail, they come as it did."""
    ways = read_ways(corpora) if corpora else None
    rows: list[tuple[str, ...]] = []
    zone: dict[str, dict[str, list[str]]] = {}
    for book in list_books():
        (folder / book).mkdir(parents=True, exist_ok=True)
        for number, letter in enumerate(read_letters(book)):
            path = f"{book}/{number:03}-{letter.label}.eml"
            language = book.partition("-")[0]
            if book.endswith(NOTICES):
                notice = lay_out(*letter.split_sender(), letter.subject, letter.text)
                for name, records in notice.records.items():
                    known = zone.setdefault(name, {})
                    known |= {kind: sorted({*texts, *known.get(kind, ())}) for kind, texts in records.items()}
                raw, corpus = notice.raw, f"letters-notices-{letter.collection}_{language}"
                sender, client, helo = notice.mail_from, notice.client, notice.helo
            else:
                way = choose_way(letter, *ways) if ways else None
                raw, corpus = write_message(letter, way), f"letters-{letter.collection}_{language}"
                sender = letter.split_sender()[1] if way is None or letter.label == "ham" else way.mail_from
                client, helo = (way.client, way.helo) if way else ("", "")
            (folder / path).write_bytes(raw)
            rows.append((path, corpus, letter.label, "2025", sender, client, helo, letter.theme, language))
    with (folder / "INDEX.tsv").open("w", encoding="utf-8", newline="") as index:
        table = csv.writer(index, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(rows)
    (folder / "zone.json").write_text(json.dumps(zone))
    return len(rows)


def main() -> None:
    """Write the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder to write to")
    parser.add_argument("--as-mail", action="append", type=Path, default=[], help="labelled mail; repeatable")
    given = parser.parse_args()
    print(f"{write_corpus(given.folder, given.as_mail):,} letters were written.")


if __name__ == "__main__":
    main()
