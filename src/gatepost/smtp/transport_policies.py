"""What other domains promise of TLS towards their mail servers: MTA-STS (RFC 8461).

A TXT record says that there is a policy and which version (`id`), and HTTPS at `mta-sts.` below the domain has the
policy: which servers, and whether mail may go to them without a certificate that proves them. A policy holds for
`max_age` seconds from when it was fetched, whatever DNS says meanwhile: whoever can forge DNS answers must not be able
to take it away (section 10.2). A new `id` has it fetched again. What was fetched survives restarts in storage, which
all nodes share.

The owner of a domain is a stranger. So the policy is fetched from public addresses only, which are looked up once and
connected to as they are, without redirects, within a size and a time; a domain whose policy cannot be fetched is asked
again after five minutes.

DANE (RFC 7672) is not supported: it needs answers of a resolver that validates DNSSEC, over a way that can be trusted.
"""

import asyncio
import re
import ssl
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal

import msgspec

from gatepost import __version__
from gatepost.logs import Logger
from gatepost.names import is_public_address, normal_domain
from gatepost.questions import Dns, DnsAnswer
from gatepost.store.errors import StorageError
from gatepost.store.sent_reports import KeptPolicy, SentReports
from gatepost.times import now

if TYPE_CHECKING:
    import httpx

MAX_BYTES, MAX_LINES, MAX_HOSTS = 64 << 10, 200, 100
# RFC 8461 section 3.2: a year at most.
MAX_AGE = 31_557_600
FETCH_SECONDS = 20.0
RETRY_SECONDS = 300.0
MAX_KNOWN = 5_000
MAX_ADDRESSES = 4
_RECORD = re.compile(r"v=STSv1[ \t]*;[ \t]*id[ \t]*=[ \t]*([A-Za-z0-9]{1,32})[ \t]*(?:;.*)?")
_LINE = re.compile(r"[ \t]*([a-z_][a-z0-9_.-]{0,31})[ \t]*:[ \t]*([!-~](?:[ -~]{0,250}[!-~])?)[ \t]*", re.IGNORECASE)
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_-]{1,63})+")

log = Logger("gatepost.guard")

Mode = Literal["enforce", "testing", "none"]
AsksDns = Callable[[Dns], Awaitable[DnsAnswer]]
# Fetches the policy of a domain; the text of `PolicyFault` is the end of a sentence that starts with the domain.
Fetches = Callable[[str], Awaitable[bytes]]


class PolicyFault(Exception):  # noqa: N818  an outcome
    """Why a policy cannot be used."""


class TransportPolicy(msgspec.Struct, frozen=True):
    """A policy: its lines as they are reported (RFC 8460), and what they say."""

    mode: Mode
    hosts: tuple[str, ...]
    max_age: int
    lines: tuple[str, ...] = ()

    def names(self, host: str) -> bool:
        """Whether a mail server is among its hosts; `*.` stands for one label (section 4.1)."""
        host = normal_domain(host)
        return host in self.hosts or f"*.{host.partition('.')[2]}" in self.hosts


def parse_policy(content: bytes) -> TransportPolicy:
    """Parse a policy (section 3.2). Raises `PolicyFault`. The first value of a key counts, `mx` may come many times."""
    lines = content[:MAX_BYTES].decode("utf-8", "replace").replace("\r\n", "\n").split("\n")[:MAX_LINES]
    found = [match for line in lines if (match := _LINE.fullmatch(line))]
    values: dict[str, str] = {}
    hosts: dict[str, None] = {}
    for match in found:
        name, value = match[1].lower(), match[2]
        if name == "mx":
            if _HOST.fullmatch(value.lower().rstrip(".")) and len(hosts) < MAX_HOSTS:
                hosts[normal_domain(value)] = None
        else:
            values.setdefault(name, value)
    if values.get("version") != "STSv1":
        raise PolicyFault("has a policy of another version than STSv1")
    age, mode = values.get("max_age", ""), values.get("mode", "")
    if not (age.isascii() and age.isdigit() and len(age) <= 10):
        raise PolicyFault("has a policy without max_age")
    if mode not in ("enforce", "testing", "none"):
        raise PolicyFault("has a policy without a mode")
    if mode != "none" and not hosts:
        raise PolicyFault("has a policy without hosts")
    kept = tuple(f"{match[1].lower()}: {match[2]}" for match in found)[:20]
    return TransportPolicy(_MODES[mode], tuple(hosts), min(int(age), MAX_AGE), kept)


_MODES: dict[str, Mode] = {"enforce": "enforce", "testing": "testing", "none": "none"}


def parse_policy_id(records: tuple[str, ...]) -> str:
    """Return the `id` of the one record that says that there is a policy (section 3.1); "" where there is none."""
    found = [match for text in records if (match := _RECORD.fullmatch(text[:500].strip()))]
    return found[0][1] if len(found) == 1 else ""


class _Known(msgspec.Struct, frozen=True):
    """What is known of a domain: the policy with its id, and until when (Unix milliseconds) it holds."""

    id: str
    policy: TransportPolicy
    expires: int


_policies = msgspec.json.Decoder(TransportPolicy)


class TransportPolicies:
    """The policies of other domains. Without `stored`, they are remembered in memory alone."""

    def __init__(self, ask: AsksDns, fetch: Fetches, stored: SentReports | None = None) -> None:
        self._ask, self._fetch, self._stored = ask, fetch, stored
        self._known: OrderedDict[str, _Known | None] = OrderedDict()
        self._failed: OrderedDict[str, int] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        # Fetches by what came of them.
        self.fetched: Counter[str] = Counter()

    async def find(self, domain: str) -> TransportPolicy | None:
        """Return the policy that holds for a domain; None where there is none, or where its mode is `none`."""
        answer = await self._ask(Dns(f"_mta-sts.{domain}", "TXT"))
        wanted = parse_policy_id(answer.records) if answer.status == "found" else ""
        known = await self._recall(domain)
        if wanted and (known is None or known.id != wanted) and self._failed.get(domain, 0) <= now():
            await self._renew(domain, wanted)
            known = self._known.get(domain)
        if known is None or known.expires <= now() or known.policy.mode == "none":
            return None
        return known.policy

    def failed_lately(self, domain: str) -> bool:
        """Whether the domain has a policy that could not be fetched when it was last tried."""
        return self._failed.get(domain, 0) > now()

    async def _recall(self, domain: str) -> _Known | None:
        """Return what was fetched before, here or by another process."""
        if domain not in self._known:
            loaded = await self._load(domain)
            if domain not in self._known:
                # Else it was fetched while storage was asked.
                self._remember(domain, loaded)
        known = self._known[domain]
        self._known.move_to_end(domain)
        return known

    async def _load(self, domain: str) -> _Known | None:
        try:
            kept = await self._stored.transport_policy(domain) if self._stored else None
            return _Known(kept.id, _policies.decode(kept.policy), kept.expires) if kept else None
        except (StorageError, msgspec.DecodeError) as fault:
            log.warning("TLS policy could not be read from storage", domain=domain, reason=str(fault))
            return None

    def _remember(self, domain: str, known: _Known | None) -> None:
        self._known[domain] = known
        self._known.move_to_end(domain)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    async def _renew(self, domain: str, wanted: str) -> None:
        """Fetch a policy, once for all who wait for it."""
        if domain not in self._under_way:
            task = asyncio.create_task(self._fetch_and_keep(domain, wanted))
            self._under_way[domain] = task
            task.add_done_callback(lambda _: self._under_way.pop(domain, None))
        await asyncio.shield(self._under_way[domain])

    async def _fetch_and_keep(self, domain: str, wanted: str) -> None:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                policy = parse_policy(await self._fetch(domain))
        except (PolicyFault, TimeoutError) as fault:
            self.fetched["failed"] += 1
            self._failed[domain] = now() + int(RETRY_SECONDS * 1_000)
            if len(self._failed) > MAX_KNOWN:
                self._failed.popitem(last=False)
            log.warning("TLS policy not fetched", domain=domain, reason=str(fault) or "did not answer in time")
            return
        self.fetched[policy.mode] += 1
        self._failed.pop(domain, None)
        known = _Known(wanted, policy, now() + policy.max_age * 1_000)
        self._remember(domain, known)
        text = msgspec.json.encode(policy).decode()
        try:
            if self._stored:
                await self._stored.keep_transport_policy(KeptPolicy(domain, wanted, text, now(), known.expires))
        except StorageError as fault:
            log.warning("TLS policy could not be kept", domain=domain, reason=str(fault))


async def find_addresses(host: str, ask: AsksDns, *, private: bool) -> list[str]:
    """Return the addresses of a host that may be connected to: public ones, or with `private` all. IPv6 comes first,
    as RFC 6724 has it."""
    answers = await asyncio.gather(ask(Dns(host, "AAAA")), ask(Dns(host, "A")))
    found = [each for answer in answers for each in answer.records]
    return [each for each in found if private or is_public_address(ip_address(each))][:MAX_ADDRESSES]


class PolicyFetcher:
    """Fetches policies over HTTPS (section 3.3). `port` and `ca` are for other ports and authorities than the world's;
    with `private`, addresses of private networks are asked too."""

    def __init__(self, ask: AsksDns, *, port: int = 443, ca: str | None = None, private: bool = False) -> None:
        self._ask, self._port, self._ca, self._private = ask, port, ca, private

    async def __call__(self, domain: str) -> bytes:
        """Return the policy of a domain as it came. Raises `PolicyFault`."""
        # The client is loaded where it is used: most processes never fetch a policy.
        import httpx

        host = f"mta-sts.{domain}"
        addresses = await find_addresses(host, self._ask, private=self._private)
        if not addresses:
            raise PolicyFault(f"has no public address for {host}")
        url = httpx.URL(f"https://{host}/.well-known/mta-sts.txt", port=self._port)
        headers = {"host": host, "user-agent": f"gatepost/{__version__}", "accept": "text/plain"}
        try:
            context = ssl.create_default_context(cafile=self._ca)
            async with httpx.AsyncClient(
                verify=context, trust_env=False, timeout=FETCH_SECONDS / 2, follow_redirects=False
            ) as client:
                request = client.build_request(
                    "GET", url.copy_with(host=addresses[0]), headers=headers, extensions={"sni_hostname": host}
                )
                response = await client.send(request, stream=True)
                try:
                    return await self._read(response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as fault:
            raise PolicyFault(
                f"has a policy that cannot be fetched: {str(fault) or type(fault).__name__}"[:300]
            ) from None

    @staticmethod
    async def _read(response: "httpx.Response") -> bytes:
        if response.status_code != 200:
            raise PolicyFault(f"answers {response.status_code} where its policy should be")
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() != "text/plain":
            raise PolicyFault("has a policy that is no text/plain")
        content = bytearray()
        async for chunk in response.aiter_raw(8_192):
            content += chunk
            if len(content) > MAX_BYTES:
                raise PolicyFault(f"has a policy of more than {MAX_BYTES >> 10} KiB")
        return bytes(content)
