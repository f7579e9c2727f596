"""`gatepost digest`, `dkim` and `reports`: digests of held mail, keys that sign mail, and reports about domains of
others.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import DataOption, Deployment, YesOption, parse_tenant_uid, render_time
from gatepost.cli.printing import Output, escape, print_json
from gatepost.ids import new_id
from gatepost.service.data_folder import StartError
from gatepost.times import DAY, now

if TYPE_CHECKING:
    from gatepost.digests.mail import DigestSender
    from gatepost.settings.keys import GuardSettings
    from gatepost.store.digests import DigestRecord
    from gatepost.store.sent_reports import SentReport
    from gatepost.store.store import Store


digests = Group("Preview and send digests, the daily mail to recipients about what is held for them.")

TenantOption = Annotated[
    str | None, Option("--tenant", metavar="UID", help="A tenant; without it, mail that has no tenant.")
]
BUSY = 3


@digests.command("preview")
def preview_digest(
    address: Annotated[str, Argument(metavar="ADDRESS", help="A recipient.")],
    *,
    tenant: TenantOption = None,
    days: Annotated[int, Option("--days", least=1, most=365, help="How many days back.")] = 1,
    place: Deployment,
    output: Output,
) -> None:
    """Write the digest that a recipient would get to standard output, as a message. Nothing is sent or recorded, and
    the links do not work.

    The exit code is 1 if nothing is held for the recipient.
    """
    uid, settings = parse_tenant_uid(tenant), place.load_guard()

    async def work(store: "Store") -> bytes | None:
        from gatepost.store.digests import Digest

        preferences = (await store.digests.scope(uid)).preferences
        digest = Digest(new_id(), uid, address, now() - days * DAY, now())
        async with _open_sender(settings, place, store) as sender:
            mail = await sender.build(digest, preferences)
        return mail.as_bytes() if mail else None

    mail = place.with_store(work)
    # A message is ASCII: everything else in it is encoded.
    text = mail.decode("ascii") if mail else None
    if output.json:
        print_json({"address": address, "message": text})
    elif text is None:
        print(f"Nothing is held for {address} since {days} days.", file=sys.stderr)
    else:
        sys.stdout.write(text)
    if text is None:
        raise SystemExit(1)


@digests.command("send")
def send_digests(*, tenant: TenantOption = None, place: Deployment, output: Output) -> None:
    """Send the digests of a tenant now, with everything that was held since the last ones.

    The exit code is 3 if another process sends them.
    """
    uid, settings = parse_tenant_uid(tenant), place.load_guard()

    async def work(store: "Store") -> "DigestRecord | None":
        if not (await store.digests.scope(uid)).preferences.enabled:
            raise StartError("Digests are switched off here; the page Digests of the web interface switches them on.")
        async with _open_sender(settings, place, store) as sender:
            return await sender.run(uid, at_once=True)

    outcome = place.with_store(work)
    if outcome is None:
        print("Another process sends these digests.", file=sys.stderr)
        raise SystemExit(BUSY)
    reason = f": {outcome.message}" if outcome.message else ""
    output.show(outcome, f"{outcome.sent:,} digests sent, {outcome.failed:,} not{reason}.")


@digests.command("status")
def show_status(*, place: Deployment, output: Output) -> None:
    """Show which tenants want digests, when they are due, and what came of the last run."""
    rows = place.with_store(_read_status)
    lines = [
        f"{row['tenantUid'] or 'no tenant'}: {'on' if row['enabled'] else 'off'}, next {row['nextRun'] or '-'},"
        f" last {row['finished'] or '-'} ({row['sent']:,} sent, {row['failed']:,} not"
        f"{': ' + row['message'] if row['message'] else ''}), {row['waiting']:,} wait"
        for row in rows
    ]
    output.show({"scopes": rows}, "\n".join(lines) or "No tenant has switched digests on.")


async def _read_status(store: "Store") -> list[dict[str, Any]]:
    runs = {run.scope: run for run in await store.digests.runs()}
    rows = []
    for each in await store.digests.scopes():
        run, counts = runs.get(each.scope), await store.digests.counts(each.scope)
        record = run.record if run else None
        rows.append(
            {
                "tenantUid": each.scope,
                "enabled": each.preferences.enabled,
                "nextRun": render_time(run.next_run) if run and each.preferences.enabled else "",
                "finished": render_time(record.finished) if record and record.finished else "",
                "sent": record.sent if record else 0,
                "failed": record.failed if record else 0,
                "message": record.message if record else "",
                "waiting": counts.waiting,
            }
        )
    return rows


@digests.command("rotate-key")
def rotate_key(
    *,
    revoke: Annotated[bool, Option("--revoke", help="End all links that were sent before, too.")] = False,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Sign links with a new key from now on. Links that were sent before work until their end, unless they are
    revoked."""
    lifetime = place.load_guard().digests.link_lifetime * DAY

    async def rotate(store: "Store") -> int:
        key = await store.digests.current_key(lifetime, renew=True, revoke=revoke)
        await store.audit.note("digest.rotateKey", place.actor, sample=["revoked" if revoke else "kept"])
        return key.number

    if revoke:
        place.announce("Ends every link of a digest that was sent before, by the keys in", yes=yes)
    key = place.with_store(rotate)
    said = f"Links are signed with key {key} from now on." + (" All links before are revoked." if revoke else "")
    output.show({"key": key, "revoked": revoke}, said)


@asynccontextmanager
async def _open_sender(settings: "GuardSettings", place: Deployment, store: "Store") -> AsyncIterator["DigestSender"]:
    from gatepost.service.routes import open_routing
    from gatepost.service.schedules import build_sender

    async with open_routing(settings, place.data_folder) as routing:
        if routing is None:
            raise StartError("guard.yml has no next hop (delivery.nextHop), so no digest can be sent.")
        sender = build_sender(settings, store, routing)
        if sender is None:
            raise StartError("guard.yml has no publicUrl, which the links of a digest begin with.")
        yield sender


dkim = Group("Make and list the keys that sign mail (DKIM and ARC).")


@dkim.command("key")
def make_key(
    *,
    domain: Annotated[str, Option("--domain", metavar="DOMAIN", help="The domain that signs.")],
    selector: Annotated[str, Option("--selector", metavar="NAME", help="The name of the key within the domain.")],
    algorithm: Annotated[
        Literal["rsa", "ed25519"], Option("--algorithm", help="RSA of 2048 bits, which all verify, or Ed25519.")
    ] = "rsa",
    file: Annotated[
        Path | None, Option("--file", metavar="FILE", help="The new file; by default in `dkim` of the data folder.")
    ] = None,
    data: DataOption = None,
    output: Output,
) -> None:
    """Write a new private key, and print the DNS record of its public half and the lines for guard.yml.

    A file that is there already is not changed. The key signs once guard.yml names it; publish the record before.
    """
    from pydantic import TypeAdapter, ValidationError

    from gatepost.service.signing import make_record, render_record, write_key
    from gatepost.settings.delivery import Selector
    from gatepost.settings.values import Domain

    try:
        domain = TypeAdapter(Domain).validate_python(domain)
        selector = TypeAdapter(Selector).validate_python(selector.lower())
    except ValidationError as fault:
        sentence = fault.errors()[0]["msg"].removeprefix("Value error, ")
        raise BadParameter(sentence, "--domain, --selector") from None
    folder = Deployment(data=data).data_folder.path
    path = (file or folder / "dkim" / f"{domain}.{selector}.pem").expanduser().absolute()
    try:
        made = write_key(path, algorithm)
    except FileExistsError:
        raise StartError(f"{path} is there already. Choose another selector or --file.") from None
    except OSError as fault:
        raise StartError(f"{path} cannot be written: {(fault.strerror or 'unknown error').lower()}.") from None
    name, record = f"{selector}._domainkey.{domain}", make_record(made)
    output.show(
        {"file": str(path), "name": name, "record": record},
        f"Private key: {path}\n\nPublish this record:\n\n{render_record(name, record)}\n\n"
        "Then name the key in guard.yml:\n\n"
        f"dkim:\n  keys:\n    - {{domain: {domain}, selector: {selector}, file: {path}}}",
    )


@dkim.command("list")
def show_keys(*, place: Deployment, output: Output) -> None:
    """Print the keys that guard.yml names, with the records of their public halves, and what DNS has of them."""
    from gatepost.service.signing import compare_with_dns, render_record

    found = compare_with_dns(place.load_guard())
    lines = [(each.domain, each.selector, each.algorithm, each.state, each.reason) for each in found]
    output.show_table(found, ("domain", "selector", "key", "in DNS", "reason"), lines)
    for each in found if not output.json else ():
        if each.state in ("missing", "different"):
            print(f"\n{render_record(each.name, each.record)}")


reports = Group("List the reports that were sent to others about their domains.")


DaysOption = Annotated[int, Option("--days", metavar="NUMBER", help="How many days back.", least=1, most=1_830)]


@reports.command("sent")
def show_sent(*, days: DaysOption = 7, place: Deployment, output: Output) -> None:
    """List the reports to others about their domains, and what became of them."""

    async def run(store: "Store") -> "tuple[SentReport, ...]":
        return await store.sent_reports.listed(now() - days * DAY)

    found = place.with_store(run, any_node=True)
    lines = [
        (
            render_time(each.day * DAY)[:10],
            escape(each.domain),
            each.state,
            f"{each.messages:,}",
            escape(each.destinations) or "-",
            escape(each.reason),
        )
        for each in found
    ]
    output.show_table(found, ("day", "domain", "state", "messages", "sent to", "reason"), lines)
