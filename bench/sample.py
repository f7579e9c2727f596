"""A small deployment to look at: people, tenants, lists, keys and mail, all of it made up here.

Every message is analysed by the running service. For charts that show a day, results are put on record once more with
earlier times.
"""

import io
import random
import time
from collections.abc import Sequence
from email.message import EmailMessage

import msgspec
from PIL import Image, ImageDraw

from bench.visiting import Service
from gatepost.digests.mail import DigestLink, sign_link
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME, ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.settings.events import WebAlert
from gatepost.store.audit import Actor
from gatepost.store.digests import DIGEST, DigestPreferences, DigestRecord
from gatepost.store.errors import NameTaken, NotFound
from gatepost.store.feedback import Correction
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant
from gatepost.store.users import Role

EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
DAY = 86_400_000
MARIA = Actor("user", "maria", "")
ENTRIES = {
    "blocked-senders": (
        ("billing@quick-invoices.example", "Invoice fraud, ticket 4711"),
        ("quick-parcel.example", "Parcel lures since October"),
        ("*.cheap-ads.example", "Asked three times to be taken off"),
    ),
    "allowed-senders": (("payroll@harbour-clinic.example", "Their payslips look like phishing"),),
    "blocked-urls": (
        ("mailbox-upgrade.example", "Credential pages"),
        ("files.quick-invoices.example/open/", ""),
    ),
    "partner-domains": (("northwind-school.example", "Our largest customer"),),
    "protected-names": (("Lakeside Group <example.com>", "Our own name"),),
    "protected-people": (
        ("Petra Lindqvist <petra@example.com>", "Director"),
        ("Samuel Okafor <samuel@example.com>", "Finance"),
    ),
    "blocked-file-types": (("iso", "No disk images by mail"), ("vbs", "")),
}


class Mail(msgspec.Struct, frozen=True):
    """A message as somebody would send it."""

    subject: str
    sender: str
    text: str
    to: tuple[str, ...] = ("bob@example.com",)
    html: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    file: tuple[str, bytes, str] | None = None
    envelope: str = ""
    tenant: bool = False


class Sample(msgspec.Struct, frozen=True):
    """What there is to look at, by name."""

    tenant: str
    held: str
    delivered: str
    picture: str
    user: str
    link: str


def picture() -> bytes:
    """A drawing, such as a mail carries instead of text."""
    image = Image.new("RGB", (420, 160), "#fdf6e3")
    draw = ImageDraw.Draw(image)
    draw.rectangle((12, 12, 408, 148), outline="#b58900", width=4)
    draw.text((40, 60), "YOUR PARCEL WAITS - PAY 1.99 NOW", fill="#073642", font_size=20)
    made = io.BytesIO()
    image.save(made, "PNG")
    return made.getvalue()


_HELLO = "Hello Bob,\n\nplease find the minutes below. We meet again on Tuesday at ten.\n\nBest wishes\nAnn\n"
# Some of each kind.
MAILS: tuple[Mail, ...] = (
    Mail("Minutes of Tuesday", "Ann Example <ann@example.org>", _HELLO),
    Mail("Re: Offer for the new windows", "Jonas Berg <jonas@carpenter.example>", _HELLO.replace("minutes", "offer")),
    Mail("Lunch on Friday?", "Li Wei <li@northwind-school.example>", "Hi Bob,\n\nlunch on Friday at noon?\n\nLi\n"),
    Mail(
        "The November newsletter",
        "Garden Society <news@gardens.example>",
        "Dear members,\n\nthe winter programme is out. Read it on our site.\n\nTo unsubscribe, answer this mail.\n",
        headers=(("List-Unsubscribe", "<mailto:leave@gardens.example>"), ("Precedence", "bulk")),
    ),
    Mail(
        "Your mailbox is almost full",
        "IT Service Desk <helpdesk@mailbox-upgrade.example>",
        "Your mailbox is 98 % full and will be closed within 24 hours. Confirm your password now to keep it:\n"
        "https://mailbox-upgrade.example/confirm?user=bob@example.com\n",
        html="<p>Your mailbox is <b>98 % full</b> and will be closed within 24 hours. Confirm your password now to "
        'keep it:</p><p><a href="https://mailbox-upgrade.example/confirm?user=bob@example.com">'
        "https://mail.example.com/settings</a></p>",
        envelope="bounce@cheap-ads.example",
    ),
    Mail(
        "Invoice 2026-1187, please pay today",
        "Quick Invoices <billing@quick-invoices.example>",
        "Dear customer,\n\nour bank details have changed. Please transfer 4,180.00 EUR to the new account today.\n",
        headers=(("Reply-To", "accounts.dept@freemail.example"),),
    ),
    Mail(
        "Scan from the office printer",
        "Printer <printer@example.net>",
        "The document is attached.\n",
        file=("scan-0042.pdf.exe", EICAR.encode(), "octet-stream"),
    ),
    Mail(
        "Are you at your desk?",
        "Petra Lindqvist <petra.lindqvist@private-post.example>",
        "Bob,\n\nare you there? I am in a meeting and cannot talk. I need you to buy five gift cards for a client "
        "and send me the codes. Keep it between us for now.\n\nPetra\nSent from my phone\n",
    ),
    Mail(
        "A parcel waits for you",
        "Quick Parcel <track@quick-parcel.example>",
        "Scan the code in the picture to pay the customs fee.\n",
        html='<p>Pay the fee to get it.</p><p><a href="https://pay.quick-parcel.example/x">Pay now</a></p>',
        file=("parcel.png", picture(), "png"),
    ),
    Mail("HUGE DISCOUNTS!!! 90 % OFF EVERYTHING!!!", "Deals <deals@cheap-ads.example>", "BUY NOW!!! 100 % FREE!!!\n"),
    Mail(
        "Appointments of next week",
        "Front desk <desk@harbour-clinic.example>",
        "Dear all,\n\nthe list of next week is in the calendar.\n",
        to=("ward3@harbour-clinic.example",),
        tenant=True,
    ),
    Mail(
        "Your payslip for November",
        "Payroll <payroll@harbour-clinic-pay.example>",
        "Your salary review is ready. Sign in to see it: https://harbour-clinic-pay.example/login\n",
        to=("ward3@harbour-clinic.example", "ward4@harbour-clinic.example"),
        tenant=True,
    ),
    Mail(
        "Results",
        "Laboratory <lab@results.example>",
        "See the file.\n",
        to=("ward3@harbour-clinic.example",),
        file=("results.scr", EICAR.encode(), "octet-stream"),
        tenant=True,
    ),
)


def written(mail: Mail) -> bytes:
    """The message as bytes."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = mail.sender, ", ".join(mail.to), mail.subject
    made["Date"] = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime())
    made["Message-ID"] = f"<{new_id()}@{address(mail).rpartition('@')[2]}>"
    for name, value in mail.headers:
        made[name] = value
    made.set_content(mail.text)
    if mail.html:
        made.add_alternative(mail.html, subtype="html")
    if mail.file:
        name, content, subtype = mail.file
        made.add_attachment(
            content, maintype="image" if subtype == "png" else "application", subtype=subtype, filename=name
        )
    return made.as_bytes()


def address(mail: Mail) -> str:
    """The envelope sender."""
    return mail.envelope or mail.sender.partition("<")[2].rstrip(">")


def fill(service: Service, *, history: int = 0) -> Sample:
    """Put all of it into a service; `history` is how many earlier results there are beside the messages themselves."""
    tenant = service.ask(_deployment)
    people: tuple[tuple[str, Role, str | None], ...] = (
        ("maria", "analyst", None),
        ("tomas", "auditor", None),
        ("front desk", "administrator", tenant),
    )
    for name, role, of in people:
        service.user(name, role, of)
    found = {
        mail.subject: service.scan(
            written(mail),
            address(mail),
            tenant if mail.tenant else None,
            mail.to,
            remoteAddress="192.0.2.25",
            senderHelo=f"mail.{address(mail).rpartition('@')[2]}",
        )["ggrid"]
        for mail in MAILS
    }
    service.ask(lambda store: _remembered(store, tuple(found.values()), history))
    users = service.ask(lambda store: store.users.all())
    return Sample(
        tenant,
        held=found["Are you at your desk?"],
        delivered=found["Minutes of Tuesday"],
        picture=found["A parcel waits for you"],
        user=next(user.uid for user in users if user.name == "maria"),
        link=service.ask(lambda store: _ask_and_alert(store, found["Are you at your desk?"])),
    )


async def _ask_and_alert(store: Store, ggrid: str) -> str:
    """A link of a digest, a request of its recipient, an entry and an alert; the path of the link."""
    link, mail = await open_digest(store, ggrid), await store.quarantine.find(ggrid)
    assert mail
    scope, address = mail.record.envelope.tenant, mail.record.envelope.recipients[0]
    await store.recipients.ask_for_release(ggrid, scope, address, "I wait for this, please.")
    await store.recipients.put_entry(scope, address, "news@gardens.example", "allow", Actor("recipient", address))
    alert = WebAlert(
        ("health.changed", "node.state"), recipients=("ops@example.com",), url="https://hooks.example.com/x"
    )
    await store.alerts.put("Operations", alert, 0, MARIA)
    return link


async def open_digest(store: Store, ggrid: str) -> str:
    """Plan the digest of the first recipient of a message that was just held; the path of its link."""
    mail = await store.quarantine.find(ggrid)
    assert mail
    scope, address = mail.record.envelope.tenant, mail.record.envelope.recipients[0].lower()
    domain = address.rpartition("@")[2]
    seen = (await store.digests.scope(scope)).modified
    wanted = DigestPreferences(enabled=True, own_entries=True, domains=(domain,))
    await store.digests.put_preferences(scope, wanted, seen, MARIA)
    now = int(time.time() * 1000)
    async with store.jobs.take(DIGEST, scope) as held:
        assert held
        await store.digests.begin_planning(held.job, now, now + DAY)
        while await store.digests.plan(held.job, (domain,)):
            pass
        await held.finish(detail=msgspec.json.encode(DigestRecord(now, 1)).decode())
    digest = next(each for each in await store.digests.waiting(scope, 1_000) if each.address == address)
    await store.digests.mark_sent(digest.id, now + DAY)
    key = await store.digests.current_key(DAY)
    return f"/digest/{sign_link(DigestLink(digest.id, mail.record.ggrid, now + DAY), key)}"


async def _deployment(store: Store) -> str:
    """Tenants, lists and keys; the uid of the tenant that has mail."""
    clinic = await _tenant(store, "Harbour Clinic", ("harbour-clinic.example", "clinic-mail.example"))
    await _tenant(store, "Northwind School", ("northwind-school.example",))
    for name, entries in ENTRIES.items():
        definition = BY_NAME[name]
        await store.lists.add(None, definition, [_entry(definition, *each) for each in entries], MARIA)
    senders = BY_NAME["blocked-senders"]
    await store.lists.add(clinic, senders, [_entry(senders, "results.example", "Fake laboratory")], MARIA)
    await store.api_keys.create("playbook", None, False, None, MARIA)
    await store.api_keys.create("clinic dashboard", clinic, True, int(time.time() * 1000) + 90 * DAY, MARIA)
    old = await store.api_keys.create("old feed", None, False, None, MARIA)
    if isinstance(old, tuple):
        await store.api_keys.revoke(old[1].id, MARIA)
    return clinic


async def _tenant(store: Store, name: str, domains: Sequence[str]) -> str:
    made = await store.tenants.create(name)
    assert isinstance(made, Tenant)
    given = await store.tenants.set_domains(made.uid, domains)
    assert not isinstance(given, NotFound | NameTaken)
    return made.uid


def _entry(definition: ListDefinition, text: str, comment: str) -> NewEntry:
    normal = definition.normalise(text)
    assert not isinstance(normal, ListRefusal), normal
    return NewEntry(normal.key, normal.shown, comment)


async def _remembered(store: Store, ggrids: Sequence[str], count: int) -> None:
    """Results of the last day, more of them by day than by night, most of them innocent."""
    records = [record for ggrid in ggrids if (record := await store.messages.find(ggrid))]
    weights = [12 if record.report.decision == "deliver" else 1 for record in records]
    chance = random.Random(7)
    now = int(time.time() * 1000)
    said: dict[str, Correction] = {"deliver": "should have been held", "quarantine": "should have been delivered"}
    for number in range(count):
        hours = chance.triangular(0.2, 23.8, 9)
        record = _earlier(chance.choices(records, weights)[0], now - int(hours * 3_600_000), chance)
        await store.messages.record(record)
        if record.report.decision in said and number % (80 if record.report.decision == "deliver" else 8) == 0:
            await store.feedback.report_wrong(record.ggrid, said[record.report.decision], MARIA)


def _earlier(record: MessageRecord, then: int, chance: random.Random) -> MessageRecord:
    took = int(chance.lognormvariate(4, 0.8))
    return msgspec.structs.replace(record, ggrid=new_id(then * 1_000_000), created=then - took, completed=then)
