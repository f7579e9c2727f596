"""`gatepost examples`: five mails to try a new service with, each with what Gatepost makes of it.

They are made when they are asked for. The EICAR test file is harmless, but virus scanners delete files that contain it,
so that it stands in no file of the package.
"""

import base64
import io
import sys
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from email.policy import SMTP
from typing import Annotated

import msgspec

from gatepost.cli.commands import Argument, BadParameter
from gatepost.cli.printing import Output, print_text

# Every virus scanner knows this text (eicar.org).
EICAR = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + b"-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"

_PAGE = """<!DOCTYPE html>
<html><head><title>Invoice</title></head><body><p>Your document is being prepared…</p>
<script>
var parts = ["{content}"];
var bytes = Uint8Array.from(atob(parts.join("")), function (c) {{ return c.charCodeAt(0); }});
var link = document.createElement("a");
link.href = URL.createObjectURL(new Blob([bytes], {{type: "application/zip"}}));
link.download = "invoice.zip";
document.body.appendChild(link);
link.click();
</script></body></html>
"""


class ExampleMail(msgspec.Struct, frozen=True):
    """One mail: what it is, what to expect of it, and what makes it."""

    title: str
    expected: str
    make: Callable[[], EmailMessage]


def _new(number: int, sender: str, subject: str, text: str) -> EmailMessage:
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = "Bob Example <bob@example.com>"
    mail["Subject"] = subject
    mail["Date"] = "Tue, 10 Nov 2026 09:12:00 +0000"
    mail["Message-ID"] = f"<example-{number}@{sender.rpartition('@')[2].rstrip('>')}>"
    mail.set_content(text)
    return mail


def zip_file(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name, (2026, 11, 10, 9, 12, 0)), content)
    return stream.getvalue()


def _make_clean() -> EmailMessage:
    text = "Hello Bob,\n\nthe minutes of Tuesday's meeting are on the shared drive as usual.\n\nRegards\nAnn\n"
    return _new(1, "Ann Example <ann@company.example>", "Minutes of Tuesday", text)


def _make_phish() -> EmailMessage:
    place = "https://paypal-secure-login.example.net/signin"
    plea = "your PayPal account has been limited. Confirm your password within 24 hours, or it will be closed:"
    sender = "PayPal Service <service@account-help.example.net>"
    mail = _new(2, sender, "Your account has been limited", f"Dear customer,\n\n{plea}\n{place}\n")
    link = f'<a href="{place}">https://www.paypal.com/signin</a>'
    mail.add_alternative(f"<p>Dear customer,</p><p>{plea} {link}</p>", subtype="html")
    return mail


def _make_eicar() -> EmailMessage:
    mail = _new(3, "Accounts <accounts@supplier.example>", "Invoice 4711", "Please find the invoice attached.\n")
    content = zip_file("invoice.com", EICAR)
    mail.add_attachment(content, maintype="application", subtype="zip", filename="invoice-4711.zip")
    return mail


def _make_smuggling() -> EmailMessage:
    mail = _new(4, "Scanner <scanner@office.example>", "Scanned document", "You have received a document.\n")
    mail.add_attachment(build_smuggling_page().encode(), maintype="text", subtype="html", filename="document.html")
    return mail


def build_smuggling_page() -> str:
    """Return a page whose script makes an archive with a harmless script and saves it."""
    content = base64.b64encode(zip_file("invoice.js", b'WScript.Echo("an example");\r\n')).decode()
    return _PAGE.format(content=content)


def _make_listed() -> EmailMessage:
    text = "Hello Bob,\n\nour autumn catalogue is out. Have a look at your leisure.\n\nYour shop\n"
    return _new(5, "Shop <news@shop.example>", "Our autumn catalogue", text)


MAILS = {
    "clean": ExampleMail("an ordinary letter", "delivered as clean", _make_clean),
    "phish": ExampleMail("a well-known name, and a link to elsewhere", "held as phishing", _make_phish),
    "eicar": ExampleMail("the EICAR test virus in an archive", "held as malware", _make_eicar),
    "smuggling": ExampleMail(
        "a page whose script makes a file", "held: a script makes a file and saves it", _make_smuggling
    ),
    "listed": ExampleMail(
        "an ordinary letter from news@shop.example",
        "delivered; held as policy once shop.example is on the list of blocked senders",
        _make_listed,
    ),
}


def examples(
    name: Annotated[str | None, Argument(metavar="NAME", help="The mail to print; without it, all are listed.")] = None,
    *,
    output: Output,
) -> None:
    """Print a mail to try the service with: `gatepost examples phish | gatepost scan -`.

    Without a name, the mails are listed with what to expect of each.
    """
    if name is None:
        rows = [(each, mail.title, mail.expected) for each, mail in MAILS.items()]
        described = [dict(zip(("name", "title", "expected"), row, strict=True)) for row in rows]
        output.show_table(described, ("name", "what it is", "what to expect"), rows)
        if not output.json:
            print_text("", "Try one: gatepost examples phish | gatepost scan -")
        return
    if name not in MAILS:
        raise BadParameter(f"must be one of {', '.join(MAILS)}", "NAME")
    sys.stdout.flush()
    sys.stdout.buffer.write(MAILS[name].make().as_bytes())
    sys.stdout.buffer.flush()
