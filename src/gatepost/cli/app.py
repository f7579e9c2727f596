"""The tree of commands: where each one is declared."""

from gatepost import __version__
from gatepost.cli.commands import CommandTree

_CLI = "gatepost.cli"

COMMANDS = CommandTree(
    "Gatepost, an e-mail security service.",
    __version__,
    {
        "serve": f"{_CLI}.serve:serve",
        "guard": f"{_CLI}.serve:guard",
        "abby": f"{_CLI}.serve:abby",
        "scan": f"{_CLI}.scan:scan",
        "replay": f"{_CLI}.policy:replay",
        "doctor": f"{_CLI}.maintenance:doctor",
        "nodes": f"{_CLI}.config:nodes",
        "flow": f"{_CLI}.gateway:flow",
        "restart": f"{_CLI}.config:restart",
        "config": f"{_CLI}.config:group",
        "lists": f"{_CLI}.lists:group",
        "feeds": f"{_CLI}.feeds:group",
        "tenant": f"{_CLI}.accounts:tenants",
        "user": f"{_CLI}.accounts:users",
        "apikey": f"{_CLI}.accounts:keys",
        "audit": f"{_CLI}.events:audit",
        "events": f"{_CLI}.events:group",
        "policy": f"{_CLI}.policy:group",
        "plugins": f"{_CLI}.plugins:group",
        "dkim": f"{_CLI}.gateway:dkim",
        "model": f"{_CLI}.model:group",
        "learn": f"{_CLI}.learn:group",
        "messages": f"{_CLI}.messages:group",
        "quarantine": f"{_CLI}.quarantine:group",
        "digest": f"{_CLI}.digest:group",
        "privacy": f"{_CLI}.privacy:group",
        "storage": f"{_CLI}.maintenance:storage",
        "upgrade": f"{_CLI}.maintenance:upgrade",
        "backup": f"{_CLI}.maintenance:backup",
        "restore": f"{_CLI}.maintenance:restore",
    },
)
