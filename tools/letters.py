"""Make a corpus of the letters that the authors wrote: honest ones and lures, in twenty languages.

    python -m tools.letters OUT

writes one message for each letter of the folder `letters`, and the `INDEX.tsv` that training and evaluation read.
Nobody ever sent these letters: they stand for the languages of which no collection of real mail is at hand. All of them
have the same plain header, so that nothing but what they say and where they lead tells honest ones from lures.

Each letter belongs to one of four collections, by a digest of its text, so that an evaluation which leaves out whole
collections judges every letter with a model that has read three quarters of the others.
"""

import argparse
import csv
import re
from collections.abc import Iterator
from email.header import Header
from email.mime.application import MIMEApplication
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formataddr
from html import escape
from pathlib import Path
from zlib import crc32

import msgspec

LETTERS = Path(__file__).parents[1] / "letters"
COLLECTIONS = "abcd"
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


def write_message(letter: Letter) -> bytes:
    """Return a letter as a message: with an HTML half where it has links with words, else as plain text."""
    text = letter.text.strip("\n") + "\n"
    plain = MIMEText(_LINK.sub(r"\1: \2", text), "plain", "utf-8")
    body: MIMEBase = plain
    if _LINK.search(text):
        body = MIMEMultipart("alternative", "=-letter", (plain, MIMEText(_write_html(text), "html", "utf-8")))
    if letter.file:
        file = MIMEApplication(_FILE, "pdf")
        file.add_header("Content-Disposition", "attachment", filename=letter.file)
        body = MIMEMultipart("mixed", "=-letter-with-file", (body, file))
    name, address = letter.split_sender()
    body["From"] = formataddr((name, address))
    body["To"] = READER
    body["Subject"] = Header(letter.subject, "utf-8").encode()
    body["Date"] = DATE
    body["Message-ID"] = f"<{crc32(letter.text.encode()):08x}@{address.rpartition('@')[2]}>"
    if letter.reply_to:
        body["Reply-To"] = letter.reply_to
    return body.as_bytes()


def _write_html(text: str) -> str:
    paragraphs = (escape(part, quote=False).replace("\n", "<br>\n") for part in text.strip().split("\n\n"))
    body = "\n".join(f"<p>{_LINK.sub(_write_anchor, part)}</p>" for part in paragraphs)
    return f"<!DOCTYPE html>\n<html><body>\n{body}\n</body></html>\n"


def _write_anchor(link: re.Match[str]) -> str:
    return f'<a href="{link[2]}">{link[1]}</a>'


def write_corpus(folder: Path) -> int:
    """Write all letters with their index; return how many there are."""
    rows = []
    for path, corpus, letter in _name_letters():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(write_message(letter))
        rows.append((path, corpus, letter.label, "2025", letter.split_sender()[1]))
    with (folder / "INDEX.tsv").open("w", encoding="utf-8", newline="") as index:
        table = csv.writer(index, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        table.writerow(("path", "corpus", "label", "year", "mail_from"))
        table.writerows(rows)
    return len(rows)


def _name_letters() -> Iterator[tuple[str, str, Letter]]:
    for book in list_books():
        language = book.partition("-")[0]
        for number, letter in enumerate(read_letters(book)):
            yield f"{book}/{number:03}-{letter.label}.eml", f"letters-{letter.collection}_{language}", letter


def main() -> None:
    """Write the corpus."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder to write to")
    print(f"{write_corpus(parser.parse_args().folder):,} letters were written.")


if __name__ == "__main__":
    main()
