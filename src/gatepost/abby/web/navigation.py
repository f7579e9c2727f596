"""The ways through the interface, in the order in which people need them."""

import msgspec

from gatepost.abby.web.permissions import Permission


class Entry(msgspec.Struct, frozen=True):
    """One way: its name, where it leads, for whom."""

    name: str
    path: str
    may: Permission


ENTRIES = (
    Entry("Overview", "/", "overview.read"),
    Entry("Messages", "/messages", "messages.read"),
    Entry("Quarantine", "/quarantine", "quarantine.read"),
    Entry("Scan", "/scan", "messages.scan"),
    Entry("Lists", "/lists", "lists.read"),
    Entry("API keys", "/keys", "keys.read"),
    Entry("Policy", "/policy", "policy.read"),
    Entry("Tenants", "/tenants", "tenants.read"),
    Entry("Users", "/users", "users.read"),
    Entry("Audit trail", "/audit", "audit.read"),
    Entry("System", "/system", "system.read"),
)
