"""Which recipients exist: unknown ones are refused with 550 at RCPT, before a message is taken (RFC 5321 section 3.3).

A border that takes mail for names that do not exist has to bounce it later, mostly to senders who never wrote it. A
rule says whose recipients are on the list `known-recipients`, that of the tenant or the global one. Recipients without
a rule are left to the next hop, which answers RCPT. While storage cannot be read, and while a list has no entry, the
answer is 451. `postmaster` always exists (RFC 5321 section 4.5.1).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

from gatepost.names import normal_address, normal_domain
from gatepost.settings.scan_sources import RecipientRuleSettings
from gatepost.smtp import replies
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.routing import has_domain
from gatepost.store.errors import StorageError
from gatepost.store.list_lookup import ListLookup

Finding: TypeAlias = Literal["known", "unknown", "failed"]
ANSWERS: dict[Finding, SmtpReply | None] = {
    "known": None,
    "unknown": replies.UNKNOWN_RECIPIENT,
    "failed": replies.UNVERIFIED_RECIPIENT,
}


class RecipientVerifier:
    """Verifies recipients by rules, of which the first one that fits a recipient counts."""

    def __init__(self, rules: Sequence[RecipientRuleSettings], lists: ListLookup) -> None:
        self._rules = [(frozenset(rule.domains), frozenset(rule.tenants), rule.tag_separator) for rule in rules]
        self._lists = lists
        self.found: Counter[Finding] = Counter()

    async def check(self, address: str, domain: str, tenant: str | None) -> SmtpReply | None:
        """Return the reply to a recipient that does not exist, or of whom that is not known; None for all others. The
        domain is in normal form."""
        separator = self._find_separator(domain, tenant)
        if separator is None:
            return None
        spellings = _list_spellings(address, domain, separator)
        if spellings[-1].startswith("postmaster@"):
            return None
        finding = await self._find(tenant, spellings)
        self.found[finding] += 1
        return ANSWERS[finding]

    def _find_separator(self, domain: str, tenant: str | None) -> str | None:
        """Return what precedes the tag of an address by the rule of its domain or tenant; None without a rule."""
        for domains, tenants, separator in self._rules:
            if not (domains or tenants) or tenant in tenants or has_domain(domains, domain):
                return separator
        return None

    async def _find(self, tenant: str | None, spellings: Sequence[str]) -> Finding:
        try:
            known = await self._lists.knows_recipient(tenant, spellings)
        except StorageError:
            known = None
        return "failed" if known is None else "known" if known else "unknown"


def _list_spellings(address: str, domain: str, separator: str) -> tuple[str, ...]:
    """Return the addresses by which a recipient can be known: its own, and the one without a tag."""
    whole = normal_address(address)
    local = whole.rpartition("@")[0] or whole
    name = local.partition(separator)[0] if separator and not local.startswith('"') else local
    return tuple(dict.fromkeys((whole, f"{name or local}@{normal_domain(domain)}")))
