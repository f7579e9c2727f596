"""Digests: the preferences of a tenant, what came of them, and the pages behind the links that recipients get.

The preferences say whether recipients get digests, when and in which words; recipients allow and block senders for
themselves.

Recipients have no account. Programs that examine mail fetch every link in it, so a GET or a HEAD of a link shows a page
and changes nothing; what the recipient wants done is sent by the form of that page. A link that is forged, has ended,
was used, or leads to nothing gets one answer, whatever is wrong with it, and addresses from which forged links come
wait longer and longer.

A link is used up by what it has done. It is marked after that: everything that it can do has no other effect when it is
done twice, and a kill in between loses nothing.
"""

import asyncio
from collections.abc import Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import address_of
from gatepost.analysis.report import shown_sender
from gatepost.api.errors import RATE_LIMITED, Failure
from gatepost.digests.mail import MAX_SUBJECT, Texts, choose_texts, list_languages, read_link, show, show_sender
from gatepost.scanning.held_mail import RECIPIENT_VERDICTS, NotHeld, RecipientReleaseOrder, Released
from gatepost.store.audit import Actor
from gatepost.store.digests import MAX_DOMAINS, MAX_INTRO, Digest, DigestPreferences, DigestScope
from gatepost.store.message_records import normalize_address
from gatepost.store.quarantine import HeldMessage
from gatepost.store.recipients import MAX_SAID, EntrySays
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import STRANGER, Form, read_form, whole_number
from gatepost.web.list_access import parse_domains
from gatepost.web.page_responses import html_response, redirect, with_status
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, PublicRoute, WebRoute, about
from gatepost.web.time_zones import times_in, zone_names

ENTRIES_ON_A_PAGE = 100
NO_TENANT = "Mail without a tenant"


async def show_digests(context: WebContext, request: SignedInRequest) -> PageResult:
    """List the scopes that the user may see, with the state of their digests."""
    scopes = await find_scopes(context, request)
    known = {each.scope: each for each in await context.store.digests.scopes()}
    runs = {run.scope: run for run in await context.store.digests.runs()}
    uids = [*([None] if scopes.has_all_tenants else []), *(tenant.uid for tenant in scopes.tenants)]
    lines = [(uid, scopes.name(uid) if uid else NO_TENANT, known.get(uid), runs.get(uid)) for uid in uids]
    return await context.page(request, "digests.html", lines=lines)


async def _find_scope(context: WebContext, request: SignedInRequest) -> str | Failure | None:
    scope = request.parse_scope(request.path_part("scope"))
    if isinstance(scope, str) and await context.store.tenants.find(scope) is None:
        return NOT_VISIBLE
    return scope


for_scope = about(_find_scope)


@for_scope
async def show_scope(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Show the preferences of a scope, and the entries of its recipients."""
    found = await context.store.digests.scope(scope)
    return await _render(context, request, found, "\n".join(found.preferences.domains))


@for_scope
async def save_scope(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    typed = request.form.raw_text("domains")
    domains, refused = parse_domains(typed)
    seen, wanted = whole_number(request.form.text("seen", 18), -1), _read_preferences(request.form, domains)
    if faults := [*refused, *_find_faults(scope, wanted)][:20]:
        shown = DigestScope(scope, wanted, max(0, seen))
        return with_status(await _render(context, request, shown, typed, faults), 400)
    saved = await context.store.digests.put_preferences(scope, wanted, seen, request.actor)
    return redirect(f"/digests/{scope or GLOBAL}", notice="digests-saved" if saved else "digests-changed")


@for_scope
async def remove_entry(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    form = request.form
    removed = await context.store.recipients.delete_entries(
        scope, form.text("address", 500), [form.text("sender", 500)], request.actor
    )
    return redirect(f"/digests/{scope or GLOBAL}", removed, notice="entries-removed")


def _read_preferences(form: Form, domains: Iterable[str]) -> DigestPreferences:
    return DigestPreferences(
        enabled=form.has("enabled"),
        language=form.text("language", 20),
        hour=whole_number(form.text("hour", 2), 24),
        zone=form.text("zone", 60),
        intro=form.raw_text("intro").strip(),
        own_entries=form.has("own_entries"),
        domains=tuple(domains),
    )


def _find_faults(scope: str | None, wanted: DigestPreferences) -> list[str]:
    faults = []
    if wanted.hour > 23:
        faults.append("the hour must be a number from 0 to 23")
    if wanted.language and wanted.language not in dict(list_languages()):
        faults.append("this language is not known")
    if wanted.zone not in ("", *zone_names()):
        faults.append("this time zone is not known")
    if len(wanted.intro) > MAX_INTRO:
        faults.append(f"the introduction may have at most {MAX_INTRO:,} characters")
    if len(wanted.domains) > MAX_DOMAINS:
        faults.append(f"at most {MAX_DOMAINS:,} domains can be named")
    if scope is None and wanted.enabled and not wanted.domains:
        faults.append("name the domains whose recipients get digests; such mail can be addressed to anybody")
    return faults


async def _render(
    context: WebContext, request: SignedInRequest, shown: DigestScope, typed: str, faults: list[str] | None = None
) -> Response:
    scopes = await find_scopes(context, request)
    after = (request.query.text("after", 500), request.query.text("sender", 500))
    entries = await context.store.recipients.entries(shown.scope, after, ENTRIES_ON_A_PAGE + 1)
    runs = {run.scope: run for run in await context.store.digests.runs()}
    return await context.page(
        request,
        "digest-scope.html",
        name=scopes.name(shown.scope) if shown.scope else NO_TENANT,
        path=f"/digests/{shown.scope or GLOBAL}",
        shown=shown,
        preferences=shown.preferences,
        typed=typed,
        run=runs.get(shown.scope),
        counts=await context.store.digests.counts(shown.scope),
        languages=list_languages(),
        zones=zone_names(),
        entries=entries[:ENTRIES_ON_A_PAGE],
        has_more=len(entries) > ENTRIES_ON_A_PAGE,
        faults=faults or [],
        most=MAX_INTRO,
    )


TOO_MANY = Failure(RATE_LIMITED, "too many links that do not work came from your address; try again in a minute")


class OpenedLink(msgspec.Struct, frozen=True):
    """What a link that works leads to; without a message it is the page of the recipient's own entries."""

    digest: Digest
    preferences: DigestPreferences
    mail: HeldMessage | None = None
    accepted: str = ""

    @property
    def texts(self) -> Texts:
        return choose_texts(self.preferences.language, self.accepted)

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


async def show_link(context: WebContext, request: Request) -> PageResult:
    """Show what a link is about; nothing else happens."""
    opened = await _open(context, request)
    return await _render_digest_links(context, opened) if isinstance(opened, OpenedLink) else opened


async def use_link(context: WebContext, request: Request) -> PageResult:
    """Do what the recipient has chosen on the page of a link."""
    form = await read_form(request, STRANGER)
    if isinstance(form, Failure):
        return form
    opened = await _open(context, request)
    if not isinstance(opened, OpenedLink):
        return opened
    if opened.mail is None and not form.has("sender"):
        return await _render_digest_links(context, opened)
    done = await (_act(context, opened, form) if opened.mail else _remove_entries(context, opened, form))
    if not done:
        return _refuse(context, request)
    if done[0] not in ("done_later", "done_full"):
        await context.store.digests.use_link(opened.digest.id, opened.item)
    page = context.renderer.render_public(
        "recipient-done.html", texts=opened.texts, done=[opened.texts.say(each) for each in done]
    )
    return _respond(page, 503 if done[0] == "done_later" else 200)


async def _open(context: WebContext, request: Request) -> OpenedLink | PageResult:
    """Return what a link leads to, or the answer to one that does not work, for whatever reason."""
    link = read_link(str(request.path_params["link"]), await context.store.digests.keys(), context.now())
    if link:
        opened = await _find(context, link.digest, link.item)
        if opened is None:
            return _refuse(context, request)
        return msgspec.structs.replace(opened, accepted=request.headers.get("accept-language", ""))
    # Whoever has a link of ours does not wait, or one guest could slow down a whole office behind one address.
    delay = context.guesses.take_turn(f"link:{address_of(request)}")
    if delay is None:
        return TOO_MANY
    if delay:
        await asyncio.sleep(delay)
    return _refuse(context, request)


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
    having = await context.store.quarantine.recipient_releases(item)
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


async def _render_digest_links(context: WebContext, opened: OpenedLink) -> Response:
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
            moment=texts.write_moment(opened.mail.kept, opened.preferences.time_zone),
            reason=texts.reason(report.verdict),
            may_release=opened.may_release,
            may_list=opened.preferences.own_entries and "@" in opened.sender,
            sender_address=opened.sender[:200],
        )
    return _respond(page)


def _refuse(context: WebContext, request: Request) -> Response:
    """Return the one answer to every link that does not work. Nobody knows whose it was, so the browser says which
    language."""
    texts = choose_texts("", request.headers.get("accept-language", ""))
    return _respond(context.renderer.render_public("recipient-invalid.html", texts=texts), 404)


def _respond(page: str, status: int = 200) -> Response:
    response = html_response(page, status)
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/digests", show_digests, "digests.read"),
    PageRoute("GET", "/digests/{scope}", show_scope, "digests.read"),
    PageRoute("POST", "/digests/{scope}", save_scope, "digests.change"),
    PageRoute("POST", "/digests/{scope}/entries", remove_entry, "digests.change"),
    PublicRoute("GET", "/digest/{link}", show_link),
    PublicRoute("POST", "/digest/{link}", use_link),
)
