"""What the files allow and an operator would hardly want: weak or missing tokens, a gateway that cannot deliver.

`gatepost config check`, `gatepost doctor` and every start name these; nothing is refused for them.
"""

import re
from collections.abc import Iterator

from gatepost.settings.certificates import find_expired_certificates, find_expired_guard_certificates
from gatepost.settings.delivery import HopSettings
from gatepost.settings.document import Key
from gatepost.settings.event_keys import EventsSettings
from gatepost.settings.keys import AbbySettings, GuardSettings

# Half of what is recommended: 16 random bytes in hexadecimal, or 24 letters and digits, cannot be guessed.
MIN_LENGTH, MIN_DISTINCT = 24, 9

_PLACEHOLDER = re.compile(
    r"[<>{}\s…]|\.\.\.|hex.?digits|change.?me|replace.?(?:me|this)|your.?|example|placeholder|insert|todo|"
    r"access.?token|api.?key|password|secret|token|xxx|test|dummy|default",
    re.IGNORECASE,
)
_ADVICE = "generate one with: openssl rand -hex 32"


def find_guard_warnings(guard: GuardSettings) -> Iterator[tuple[Key, str]]:
    """Yield what `gatepost config check` warns of in `guard.yml`."""
    rest, smtp = guard.scan_sources.rest_api, guard.scan_sources.smtp
    if rest and rest.secret and (weakness := describe_weakness(rest.secret)):
        yield ("scanSources", "restApi", "secret"), f"{weakness}; {_ADVICE}"
    if smtp and not guard.delivery.has_next_hop:
        yield ("scanSources", "smtp"), "has no delivery.nextHop: mail that is to be delivered is answered with 451"
    milter = guard.scan_sources.milter
    if milter and milter.quarantine == "gatepost" and not guard.delivery.has_next_hop:
        yield ("scanSources", "milter"), "has no delivery.nextHop: mail that is held can be exported, but not released"
    yield from _find_auth_warnings(guard)
    if rest is None and smtp is None and milter is None:
        yield ("scanSources",), "has neither restApi nor smtp nor milter, so no mail reaches this core"
    yield from _find_event_warnings(guard.events)
    yield from find_expired_guard_certificates(guard)
    if guard.unsealed:
        yield ("unsealed",), "is set: workers that parse hostile mail may reach files and network"


def _find_auth_warnings(guard: GuardSettings) -> Iterator[tuple[Key, str]]:
    several: list[tuple[Key, HopSettings]] = [(("delivery",), guard.delivery)]
    several += [(("delivery", "routes", index), route) for index, route in enumerate(guard.delivery.routes)]
    for key, settings in several:
        if settings.auth and settings.tls != "verified":
            risk = "whoever gets between the two servers can take the password"
            yield (*key, "auth"), f"is used with tls: {settings.tls}, so {risk}; verified prevents that"


def find_abby_warnings(abby: AbbySettings, guard: GuardSettings | None) -> Iterator[tuple[Key, str]]:
    """Yield what `gatepost config check` warns of in `abby.yml`; `guard` is the core beside it, if there is one."""
    if not abby.static_api_tokens and (guard is None or guard.scan_sources.rest_api):
        yield ("staticApiTokens",), f"has no token, so nobody can use the Email Scanning API; {_ADVICE}"
    for index, entry in enumerate(abby.static_api_tokens):
        if entry.token and (weakness := describe_weakness(entry.token)):
            yield ("staticApiTokens", index, "token"), f"of {entry.name} {weakness}; {_ADVICE}"
    secret = abby.service_providers.core.secret
    if secret and (weakness := describe_weakness(secret)):
        yield ("serviceProviders", "core", "secret"), f"{weakness}; {_ADVICE}"
    yield from _find_event_warnings(abby.events)
    yield from find_expired_certificates(abby)


def _find_event_warnings(events: EventsSettings) -> Iterator[tuple[Key, str]]:
    for index, webhook in enumerate(events.webhooks):
        if weakness := describe_weakness(webhook.secret):
            yield ("events", "webhooks", index, "secret"), f"{weakness}; {_ADVICE}"
    target = events.alerts.webhook if events.alerts else None
    if target and (weakness := describe_weakness(target.secret)):
        yield ("events", "alerts", "webhook", "secret"), f"{weakness}; {_ADVICE}"


def describe_weakness(secret: str) -> str:
    """Return why a secret could be guessed, as the end of a sentence; "" where it could not."""
    if _PLACEHOLDER.search(secret):
        return "looks like a placeholder, which anybody could try"
    if len(secret) < MIN_LENGTH:
        return f"is weak: it has only {len(secret)} characters"
    if len(set(secret)) < MIN_DISTINCT:
        return f"is weak: it has only {len(set(secret))} different characters"
    if secret in (secret + secret)[1:-1]:
        return "is weak: it repeats itself"
    return ""
