"""`gatepost demo`: a day of made-up mail in a new service, so that every page has something to show.

The mail is written from the templates in `demo.toml` by a seed, so that two runs of a day make the same mail. Every
message is analysed by a sealed worker with the lists of the demonstration, as the service would, and its result is put
on record with a time of the last 24 hours. Held mail is held with its bytes. Nothing is sent, and no name server is
asked: a small table answers for the domains of the templates. All domains are those that RFC 2606 keeps for examples.

A storage with tenants, or with more mail than somebody has tried by hand, is left alone.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from gatepost.cli.commands import Option
from gatepost.cli.deployment import Deployment
from gatepost.cli.examples import EICAR, build_smuggling_page, zip_file
from gatepost.cli.printing import Output, ProgressBar, print_text
from gatepost.service.data_folder import StartError
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.questions import Answers, Questions
    from gatepost.store.feedback import Correction
    from gatepost.store.message_records import MessageRecord
    from gatepost.store.store import Store
    from gatepost.workers.jobs import Job

MESSAGES = 240
# Mail that somebody has tried by hand does not stand in the way.
MAX_EARLIER = 50
PEOPLE = ("ann", "bob", "carla", "dmitri", "elif", "farid", "grace", "hugo")
# Whose mail is proven: the only host that may send for them is HOST.
PROVEN = (
    "offers-weekly.example",
    "carpenter.example",
    "gardens.example",
    "supplier.example",
    "travel.example",
    "payroll.example",
)
HOST, STRANGER = "192.0.2.25", "203.0.113.80"


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mail of one kind, as `demo.toml` has it."""

    weight: int
    sender: str
    subject: str
    text: str
    link: tuple[str, str] | None = None
    file: str = ""
    headers: dict[str, str] = {}
    burst: bool = False


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a service is filled with: domains of tenants, entries of lists with their comments, and mail."""

    tenants: dict[str, tuple[str, ...]]
    entries: dict[str, tuple[tuple[str, str], ...]]
    mail: tuple[Template, ...]


# Files that mail brings: name, content and type.
FILES: dict[str, Callable[[], tuple[str, bytes, str]]] = {
    "eicar": lambda: ("scan.zip", zip_file("scan.com", EICAR), "application/zip"),
    "smuggling": lambda: ("document.html", build_smuggling_page().encode(), "text/html"),
    "image": lambda: ("results.iso", b"CD001 of nothing", "application/octet-stream"),
}


@cache
def load_content() -> Content:
    """Return the content of `demo.toml`."""
    return msgspec.toml.decode((files("gatepost.cli") / "demo.toml").read_bytes(), type=Content)


class DemoMail(msgspec.Struct, frozen=True):
    """A message of the demonstration, before it is analysed."""

    raw: bytes
    sender: str
    recipient: str
    tenant: str
    host: str
    time: int


def demo(
    count: Annotated[int, Option("--messages", help="How many messages.", least=20, most=5_000)] = MESSAGES,
    seed: Annotated[int, Option("--seed", help="Another seed makes other mail.", least=0)] = 1,
    *,
    place: Deployment,
    output: Output,
) -> None:
    """Fill a new service with a day of made-up mail: tenants, verdicts, campaigns, quarantine, reports and lists.

    It works beside a running service. A service that has tenants, or more than 50 messages, is refused. Nothing is
    sent; to get rid of the demonstration, stop the service and delete its data folder.
    """
    counts = place.with_store(lambda store: _fill(store, place, count, seed))
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    tenants = list(load_content().tenants)
    if output.json:
        output.show({"messages": counts.total(), "verdicts": dict(counts), "tenants": tenants}, "")
        return
    print_text(
        f"{counts.total()} messages of the last 24 hours are on record for {len(tenants)} tenants: {verdicts}.",
        "Open the web interface and look at Overview, Messages, Quarantine, Requests and Lists.",
        "To get rid of them, stop the service and delete its data folder.",
    )


def write_mail(count: int, seed: int, until: int, tenants: Sequence[tuple[str, str]]) -> Iterator[DemoMail]:
    """Yield mail of the day before `until`, oldest first, more by day than by night; `tenants` are ids with domains."""
    chance = random.Random(seed)  # noqa: S311  no secret depends on it
    templates = load_content().mail
    weights = [each.weight for each in templates]
    chosen = [*templates, *chance.choices(templates, weights, k=max(0, count - len(templates)))][:count]
    moments = [
        until - int((chance.uniform(3.0, 5.0) if each.burst else chance.triangular(0.2, 23.8, 9)) * 3_600_000)
        for each in chosen
    ]
    for number, (moment, template) in enumerate(sorted(zip(moments, chosen, strict=True), key=lambda each: each[0])):
        tenant, domain = chance.choice(tenants)
        yield _write(template, moment, 1_000 + number, f"{chance.choice(PEOPLE)}@{domain}", tenant)


def _write(template: Template, moment: int, number: int, recipient: str, tenant: str) -> DemoMail:
    person, _, domain = recipient.partition("@")
    values = {"person": person.capitalize(), "number": number, "domain": domain}
    mail = EmailMessage(policy=SMTP)
    mail["From"] = template.sender.format(**values)
    sender = mail["From"].rpartition("<")[2].rstrip(">")
    mail["To"] = recipient
    mail["Subject"] = template.subject.format(**values)
    mail["Date"] = format_datetime(datetime.fromtimestamp(moment / 1000, UTC))
    mail["Message-ID"] = f"<demo-{number}@{sender.rpartition('@')[2]}>"
    for name, value in template.headers.items():
        mail[name] = value
    text = template.text.format(**values)
    if template.link is None:
        mail.set_content(text)
    else:
        target, shown = (each.format(**values) for each in template.link)
        mail.set_content(f"{text}{target}\n")
        mail.add_alternative(f'<p>{text}</p><p><a href="{target}">{shown or "Click here"}</a></p>', subtype="html")
    if template.file:
        name, content, kind = FILES[template.file]()
        maintype, _, subtype = kind.partition("/")
        mail.add_attachment(content, maintype=maintype, subtype=subtype, filename=name)
    # By themselves they would be random, and the mail another one each time.
    for part, multipart in enumerate(each for each in mail.walk() if each.is_multipart()):
        multipart.set_boundary(f"demo-{number}-{part}")
    host = HOST if sender.rpartition("@")[2] in PROVEN else STRANGER
    return DemoMail(mail.as_bytes(), sender, recipient, tenant, host, moment)


async def _fill(store: "Store", place: Deployment, count: int, seed: int) -> Counter[str]:
    """Put the demonstration into storage; returns the number of messages by verdict. Raises `StartError` where there is
    mail of somebody."""
    from gatepost.store.search_conditions import MessageFilter

    earlier = (await store.messages.count(MessageFilter())).messages
    if await store.tenants.all() or earlier > MAX_EARLIER:
        raise StartError(
            "This service has tenants or mail already, and a demonstration is for a new one: name another data folder,"
            " for example gatepost serve --data demo --port-base 19000, then gatepost demo --data demo."
        )
    tenants = await _found_deployment(store, place)
    counts: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        analyse = await _open_analysis(store, place, stack)
        with ProgressBar("analysing") as progress:
            for number, mail in enumerate(write_mail(count, seed, now(), tenants)):
                record = await analyse(mail)
                counts[record.report.verdict] += 1
                await _keep(store, place, record, mail, number)
                progress.update(number + 1, count)
    return counts


async def _found_deployment(store: "Store", place: Deployment) -> list[tuple[str, str]]:
    """Make the tenants and the lists; returns each tenant with each of its domains."""
    from gatepost.lists.catalogue import BY_NAME
    from gatepost.lists.entries import ListRefusal
    from gatepost.store.lists import NewEntry
    from gatepost.store.tenants import Tenant

    found = []
    for name, domains in load_content().tenants.items():
        made = await store.tenants.create(name, place.actor)
        if not isinstance(made, Tenant):
            raise StartError(f"The tenant {name} could not be made: another command made one of that name.")
        await store.tenants.set_domains(made.uid, domains, place.actor)
        found += [(made.uid, domain) for domain in domains]
    for name, entries in load_content().entries.items():
        definition = BY_NAME[name]
        normal = [(definition.normalise(text), comment) for text, comment in entries]
        added = [NewEntry(each.key, each.shown, said) for each, said in normal if not isinstance(each, ListRefusal)]
        await store.lists.add(None, definition, added, place.actor)
    return found


async def _open_analysis(
    store: "Store", place: Deployment, stack: AsyncExitStack
) -> "Callable[[DemoMail], Awaitable[MessageRecord]]":
    """Return what analyses a message with the lists of storage, in a sealed worker that ends with `stack`."""
    from gatepost.cli.sealed_analysis import answer_nothing, start_pool
    from gatepost.guard.answers.lists import ListAnswers
    from gatepost.ids import new_id
    from gatepost.mail.message import Envelope, Receipt
    from gatepost.questions import Dns, DnsAnswer, Lookup
    from gatepost.scanning.spool import BytesBody
    from gatepost.settings.files import load_policies
    from gatepost.store.message_records import MessageRecord
    from gatepost.workers.jobs import Job
    from gatepost.workers.protocol import JUDGE

    guard = place.load_guard_if_any()
    policy = load_policies(guard.policy, guard.plugins).of(None).policy
    lists = ListAnswers(store)
    stack.push_async_callback(lists.stop)

    def answer_name(question: Dns) -> DnsAnswer:
        if question.type != "TXT":
            return DnsAnswer("no-data" if question.name in PROVEN else "no-name")
        if question.name in PROVEN:
            return DnsAnswer("found", (f"v=spf1 ip4:{HOST} -all",))
        if question.name.removeprefix("_dmarc.") in PROVEN:
            return DnsAnswer("found", ("v=DMARC1; p=none",))
        return DnsAnswer("no-name")

    async def answer(job: "Job[Any]", questions: "Questions") -> "Answers":
        return tuple(
            [
                answer_name(each)
                if isinstance(each, Dns)
                else await lists.answer(job.envelope.tenant, each, job.envelope.recipients)
                if isinstance(each, Lookup)
                else answer_nothing(each, DnsAnswer("no-name"))
                for each in questions
            ]
        )

    pool = await start_pool(guard, policy, answer)
    stack.push_async_callback(pool.stop)

    async def analyse(mail: DemoMail) -> MessageRecord:
        ggrid = new_id(mail.time * 1_000_000)
        helo = f"mail.{mail.sender.rpartition('@')[2]}"
        envelope = Envelope(mail.sender, (mail.recipient,), mail.host, helo, mail.tenant)
        snapshot = await lists.snapshot(mail.tenant)
        job = Job(JUDGE, ggrid, envelope, BytesBody(mail.raw), mail.time / 1000, lists=snapshot)
        report = await pool.run(job)
        lists.count(mail.tenant, report)
        digest = hashlib.sha256(mail.raw).hexdigest()
        took = 40 + len(mail.raw) % 90
        receipt = Receipt("demo", HOST)
        return MessageRecord(
            ggrid, mail.time - took, mail.time, envelope, len(mail.raw), digest, report, source="smtp", receipt=receipt
        )

    return analyse


async def _keep(store: "Store", place: Deployment, record: "MessageRecord", mail: DemoMail, number: int) -> None:
    """Put a result on record, hold the message where it is to be held, and have people say something of some."""
    await store.messages.record(record)
    is_held = record.report.decision == "quarantine"
    if is_held:
        await store.quarantine.hold(record, content=mail.raw)
        if number % 9 == 0:
            said = "I am waiting for this, please send it to me."
            await store.recipients.ask_for_release(record.ggrid, mail.tenant, mail.recipient, said)
    if number % 20 == 0:
        says: Correction = "should have been delivered" if is_held else "should have been held"
        await store.feedback.report_wrong(record.ggrid, says, place.actor)
