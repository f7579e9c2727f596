"""The pages behind the links of digests: for recipients, who have no account.

Programs that examine mail fetch every link in it, so a GET or a HEAD shows a page and changes nothing; what the
recipient wants done is sent by the form of that page. A link that is forged, has ended, was used, or leads to nothing
gets one answer, whatever is wrong with it, and addresses from which forged links come wait longer and longer.

A link is used up by what it has done. It is marked after that: everything that it can do has no other effect when it is
done twice, and a kill in between loses nothing.
"""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import address_of
from gatepost.api.errors import RATE_LIMITED, Failure
from gatepost.digests.languages import Texts, find_texts
from gatepost.digests.links import read_link
from gatepost.digests.mail import MAX_SUBJECT, show, show_sender
from gatepost.report import shown_sender
from gatepost.scanning.held_mail import RECIPIENT_VERDICTS, NotHeld, RecipientReleaseOrder, Released
from gatepost.store.audit import Actor
from gatepost.store.digests import Digest, DigestPreferences
from gatepost.store.held_search import normalize_address
from gatepost.store.quarantine import HeldMessage
from gatepost.store.recipients import MAX_SAID, EntrySays
from gatepost.web.context import WebContext
from gatepost.web.forms import STRANGER, Form, read_form
from gatepost.web.page_responses import html_response
from gatepost.web.routing import PublicRoute, WebRoute
from gatepost.web.time_zones import times_in

TOO_MANY = Failure(RATE_LIMITED, "too many links that do not work came from your address; try again in a minute")
_DEFAULT = find_texts("en")


class OpenedLink(msgspec.Struct, frozen=True):
    """What a link that works leads to; without a message it is the page of the recipient's own entries."""

    digest: Digest
    preferences: DigestPreferences
    mail: HeldMessage | None = None

    @property
    def texts(self) -> Texts:
        return find_texts(self.preferences.language)

    @property
    def by(self) -> Actor:
        return Actor("recipient", self.digest.address)

    @property
    def sender(self) -> str:
        """The address that an entry is made of: From, as the recipient sees it."""
        record = self.mail.record if self.mail else None
        return shown_sender(record.report, record.envelope.sender).address if record else ""

    @property
    def item(self) -> str:
        return self.mail.record.ggrid if self.mail else ""

    @property
    def may_release(self) -> bool:
        return bool(self.mail) and self.mail.record.report.verdict in RECIPIENT_VERDICTS  # type: ignore[union-attr]


async def show_link(context: WebContext, request: Request) -> Response | Failure:
    """Show what a link is about; nothing else happens."""
    opened = await _open(context, request)
    if isinstance(opened, Failure):
        return opened
    if opened is None:
        return _refuse(context)
    return await _render(context, opened)


async def use_link(context: WebContext, request: Request) -> Response | Failure:
    """Do what the recipient has chosen on the page of a link."""
    form = await read_form(request, STRANGER)
    if isinstance(form, Failure):
        return form
    opened = await _open(context, request)
    if isinstance(opened, Failure):
        return opened
    if opened is None:
        return _refuse(context)
    if opened.mail is None and not form.has("sender"):
        return await _render(context, opened)
    done = await (_act(context, opened, form) if opened.mail else _remove_entries(context, opened, form))
    if not done:
        return _refuse(context)
    if done[0] not in ("done_later", "done_full"):
        await context.store.digests.use_link(opened.digest.id, opened.item)
    page = context.renderer.render_public(
        "recipient-done.html", texts=opened.texts, done=[opened.texts.say(each) for each in done]
    )
    return _respond(page, 503 if done[0] == "done_later" else 200)


async def _open(context: WebContext, request: Request) -> OpenedLink | Failure | None:
    """Return what a link leads to; None if it does not work, for whatever reason."""
    link = read_link(str(request.path_params["link"]), await context.store.digests.keys(), context.now())
    if link:
        return await _find(context, link.digest, link.item)
    # Whoever has a link of ours does not wait, or one guest could slow down a whole office behind one address.
    delay = context.guesses.take_turn(f"link:{address_of(request)}")
    if delay is None:
        return TOO_MANY
    if delay:
        await asyncio.sleep(delay)
    return None


async def _find(context: WebContext, uid: str, item: str) -> OpenedLink | None:
    digest = await context.store.digests.find(uid)
    if digest is None or await context.store.digests.is_link_used(uid, item):
        return None
    preferences = (await context.store.digests.scope(digest.scope)).preferences
    if not preferences.enabled:
        return None
    if not item:
        return OpenedLink(digest, preferences) if preferences.own_entries else None
    mail = await context.store.quarantine.find(item)
    if mail is None or mail.record.envelope.tenant != digest.scope or mail.state == "released":
        return None
    if digest.address not in map(normalize_address, mail.record.envelope.recipients):
        return None
    having = {each.address for each in await context.store.quarantine.recipient_releases(item)}
    return None if digest.address in having else OpenedLink(digest, preferences, mail)


async def _act(context: WebContext, opened: OpenedLink, form: Form) -> tuple[str, ...]:
    """Do what was chosen about a message; return the keys of what the page says, none where nothing can be done."""
    word, store, digest = form.text("do", 20), context.store, opened.digest
    if word == "release" and opened.may_release:
        order = RecipientReleaseOrder(opened.item, digest.scope, by=opened.by, recipient=digest.address)
        outcome = await context.held_mail.carry_out(order)
        if not isinstance(outcome, Released):
            return ("done_gone",) if isinstance(outcome, NotHeld) else ("done_later",)
        allowed = await _put_entry(context, opened, "allow") if form.has("allow") else ()
        return ("done_released", *allowed)
    if word == "request" and not opened.may_release:
        said = form.text("said", MAX_SAID)
        taken = await store.recipients.ask_for_release(opened.item, digest.scope, digest.address, said)
        return ("done_requested",) if taken else ("done_full",)
    if word == "block":
        return await _put_entry(context, opened, "block")
    return ()


async def _put_entry(context: WebContext, opened: OpenedLink, says: EntrySays) -> tuple[str, ...]:
    if not opened.preferences.own_entries or "@" not in opened.sender:
        return ()
    digest = opened.digest
    taken = await context.store.recipients.put_entry(digest.scope, digest.address, opened.sender, says, opened.by)
    return (f"done_{says}ed",) if taken else ("done_not_allowed",)


async def _remove_entries(context: WebContext, opened: OpenedLink, form: Form) -> tuple[str, ...]:
    digest = opened.digest
    chosen = [each[:500] for each in form.all("sender")]
    await context.store.recipients.delete_entries(digest.scope, digest.address, chosen, opened.by)
    return ("entries_removed",)


async def _render(context: WebContext, opened: OpenedLink) -> Response:
    texts, digest = opened.texts, opened.digest
    if opened.mail is None:
        entries = await context.store.recipients.entries_of(digest.scope, digest.address)
        return _respond(context.renderer.render_public("recipient-entries.html", texts=texts, entries=entries))
    report = opened.mail.record.report
    with times_in(opened.preferences.zone):
        page = context.renderer.render_public(
            "recipient-message.html",
            texts=texts,
            address=digest.address,
            subject=show(report.subject, MAX_SUBJECT),
            sender=show_sender(opened.mail),
            kept=opened.mail.kept,
            reason=texts.reason(report.verdict),
            may_release=opened.may_release,
            may_list=opened.preferences.own_entries and "@" in opened.sender,
            sender_address=opened.sender[:200],
        )
    return _respond(page)


def _refuse(context: WebContext) -> Response:
    """Return the one answer to every link that does not work."""
    return _respond(context.renderer.render_public("recipient-invalid.html", texts=_DEFAULT), 404)


def _respond(page: str, status: int = 200) -> Response:
    response = html_response(page, status)
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response


PAGES: tuple[WebRoute, ...] = (
    PublicRoute("GET", "/digest/{link}", show_link),
    PublicRoute("POST", "/digest/{link}", use_link),
)
