"""Who may do what in the web interface: three roles, deployment-wide or for one tenant.

A role is a set of permissions. Whoever belongs to a tenant has the same ones there and sees nothing else; what concerns
the deployment as a whole is closed to them whatever their role.
"""

from typing import Literal, TypeAlias, get_args

from gatepost.store.users import User

Permission: TypeAlias = Literal[
    "overview.read",
    "messages.read",
    "messages.scan",
    "messages.report",
    "quarantine.read",
    "quarantine.act",
    "lists.read",
    "lists.change",
    "keys.read",
    "keys.change",
    "users.read",
    "users.change",
    "tenants.read",
    "tenants.change",
    "policy.read",
    "audit.read",
    "system.read",
]
EVERYTHING: frozenset[Permission] = frozenset(get_args(Permission))
READING: frozenset[Permission] = frozenset(each for each in EVERYTHING if each.endswith(".read"))
DEPLOYMENT: frozenset[Permission] = frozenset({"tenants.read", "tenants.change", "system.read"})

ROLES: dict[str, frozenset[Permission]] = {
    "administrator": EVERYTHING,
    "analyst": frozenset(
        {
            "overview.read",
            "messages.read",
            "messages.scan",
            "messages.report",
            "quarantine.read",
            "quarantine.act",
            "lists.read",
            "lists.change",
            "policy.read",
        }
    ),
    "auditor": READING,
}
MEANING = {
    "administrator": "everything: users, keys, tenants, lists, mail",
    "analyst": "mail, the quarantine and the lists",
    "auditor": "sees everything, changes nothing",
}


def permissions(user: User) -> frozenset[Permission]:
    """What a user may do."""
    granted = ROLES[user.role]
    return granted - DEPLOYMENT if user.tenant else granted
