"""A run: the digests of a scope are planned when they are due, and sent through the next hop.

One process works on a scope at a time (`store.jobs`). What could not be sent is tried again,
with growing pauses; what the next hop refuses for good is given up, and the status says so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.message import EmailMessage

import msgspec

from gatepost.digests.mail import DigestPlan, build_digest
from gatepost.names import normal_domain, unicode_domain
from gatepost.process.logs import Logger
from gatepost.settings.delivery import DigestSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.routing import Routing
from gatepost.store.digests import DIGEST, Digest, DigestPreferences, DigestRecord
from gatepost.store.jobs import HeldJob
from gatepost.store.store import Store
from gatepost.times import now

DAY = 86_400_000
MINUTE = 60_000
SEND_SECONDS = 120.0
# A message gets its time before its record can be seen.
MARGIN = MINUTE
MAX_ATTEMPTS = 20
LONGEST_PAUSE = 4 * 60 * MINUTE
BATCH = 50

log = Logger("gatepost.digests")


class DigestSender:
    """Sends digests. `base` is `publicUrl`, `sender` the address in From, `pause` what waits between two mails."""

    def __init__(
        self,
        store: Store,
        routing: Routing,
        tenancy: Tenancy,
        settings: DigestSettings,
        base: str,
        sender: str,
        tenants: Mapping[str, str],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._routing, self._tenancy, self._settings = store, routing, tenancy, settings
        self._base, self._sender, self._tenants, self._pause = base, sender, tenants, pause

    async def run(self, scope: str | None, *, at_once: bool = False) -> DigestRecord | None:
        """Plan the digests of a scope if they are due, or `at_once`, and send those that wait; None where another
        process does."""
        async with self._store.jobs.take(DIGEST, scope) as held:
            if held is None:
                return None
            record = DigestRecord(finished=now(), message="it was interrupted")
            try:
                record = await self._work(held, at_once=at_once)
            finally:
                await held.finish(detail=msgspec.json.encode(record).decode())
            return record

    async def _work(self, held: HeldJob, *, at_once: bool) -> DigestRecord:
        scope, moment = held.job.scope or None, now()
        preferences = (await self._store.digests.scope(scope)).preferences
        if not preferences.enabled:
            return DigestRecord(finished=moment, message="digests are switched off")
        domains = await self.find_domains(scope, preferences)
        if not domains:
            return DigestRecord(finished=moment, message="no domain of recipients is known")
        if at_once or held.job.next_run <= moment:
            until = moment if at_once else moment - MARGIN
            await self._store.digests.begin_planning(held.job, until, preferences.next_time(moment))
        while await self._store.digests.plan(held.job, domains):
            pass
        record = await self._send_waiting(held, preferences)
        await self._store.digests.purge(moment)
        return record

    async def find_domains(self, scope: str | None, preferences: DigestPreferences) -> tuple[str, ...]:
        """Return the domains whose recipients get digests: those of the tenant, of which some may be named, or those
        that were named where there is no tenant. Mail can be addressed to anybody, and digests go to one's own people
        only."""
        wanted: Sequence[str] = preferences.domains
        if scope:
            tenant = await self._store.tenants.find(scope)
            own = [domain for domain, uid in self._tenants.items() if uid == scope]
            own += tenant.domains if tenant else ()
            wanted = [each for each in wanted if each in own] if wanted else own
        names = [domain for domain in map(normal_domain, wanted) if await self._tenancy.tenant_of(domain) == scope]
        return tuple(dict.fromkeys(each for name in names for each in (name, unicode_domain(name))))

    async def build(self, digest: Digest, preferences: DigestPreferences) -> EmailMessage | None:
        """Return the mail of a digest; None where nothing of it is held any more."""
        lifetime = self._settings.link_lifetime * DAY
        found, count = await self._store.digests.messages(digest, self._settings.max_messages)
        if not found:
            return None
        key = await self._store.digests.current_key(lifetime)
        plan = DigestPlan(self._sender, self._base, key, now() + lifetime)
        return await asyncio.to_thread(build_digest, digest, found, max(0, count - len(found)), preferences, plan)

    async def _send_waiting(self, held: HeldJob, preferences: DigestPreferences) -> DigestRecord:
        sent = failed = 0
        message = ""
        while digests := await self._store.digests.waiting(held.job.scope, BATCH):
            for digest in digests:
                if held.is_lost:
                    return DigestRecord(now(), sent, failed, "another process took over")
                if sent + failed >= self._settings.max_recipients:
                    return DigestRecord(now(), sent, failed, "more digests wait; they follow", is_cut=True)
                fault, is_over = await self._send(digest, preferences)
                sent, failed = sent + (not fault), failed + bool(fault)
                message = fault or message
                if is_over:
                    return DigestRecord(now(), sent, failed, message)
                await self._pause(60.0 / self._settings.per_minute)
        return DigestRecord(now(), sent, failed, message)

    async def _send(self, digest: Digest, preferences: DigestPreferences) -> tuple[str, bool]:
        """Send one digest; return why it was not sent, and whether the next hop is down for all of them."""
        mail = await self.build(digest, preferences)
        if mail is None:
            await self._store.digests.drop(digest.id)
            return "", False
        domain = normal_domain(digest.address.rpartition("@")[2])
        tenants = {domain: digest.scope}
        try:
            async with asyncio.timeout(SEND_SECONDS):
                outcome = await self._routing.send(self._sender, [digest.address], mail.as_bytes(), tenants)
        except TimeoutError:
            return await self._fail(digest, "the next hop did not answer in time"), True
        except NextHopError as fault:
            return await self._fail(digest, f"the next hop {fault}"), True
        if outcome.reply.positive:
            await self._store.digests.mark_sent(digest.id, now() + self._settings.link_lifetime * DAY)
            return "", False
        refusal = f"the next hop answered {outcome.reply.code}"
        if outcome.reply.code >= 500:
            log.warning("digest refused", digest=digest.id, reason=refusal)
            await self._store.digests.mark_sent(digest.id, now(), refusal)
            return refusal, False
        return await self._fail(digest, refusal), False

    async def _fail(self, digest: Digest, fault: str) -> str:
        if digest.attempts + 1 >= MAX_ATTEMPTS:
            log.warning("digest given up", digest=digest.id, reason=fault)
            await self._store.digests.mark_sent(digest.id, now(), fault)
        else:
            pause = min(LONGEST_PAUSE, 5 * MINUTE << min(digest.attempts, 10))
            await self._store.digests.mark_failed(digest.id, now() + pause, fault)
        return fault
