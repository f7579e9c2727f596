"""Keys and values that earlier versions had: a configuration that still has one is refused with what to use instead.

This is the only place that names them. `docs/upgrading.md` has the same table. A key is written with the sections above
it and without the numbers of list items; a value that was removed is written behind its key, as in a file.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # At run time it would bring the reader of YAML into every process that checks a value.
    from gatepost.settings.document import Key

REMOVED: dict[str, str] = {
    **dict.fromkeys(
        ("storage.databases", "storage.tenants"),
        "was removed: all tenants are in the database of storage.url. Bring each one back with"
        " `gatepost tenant move UID first` of version 0.1.0 before you upgrade",
    ),
    "delivery.nextHop: mx:": "was removed: name a mail server that delivers by MX itself, such as smtp://127.0.0.1:25",
    **dict.fromkeys(
        ("delivery.privateNetwork", "delivery.routes.privateNetwork", "scanSources.smtp.outbound.privateNetwork"),
        "was removed with delivery by MX: a next hop that is named may have a private address",
    ),
    **dict.fromkeys(
        [f"domainReports.{key}" for key in ("addresses", "domains", "acceptUnproven", "retention")],
        "was removed: deliver reports to a mailbox, and read them with parsedmarc",
    ),
    "domainReports.send.dmarc": "was removed: DMARC reports are sent where domainReports.send is set",
    "domainReports.send.tls": "was removed: the mail server that delivers by MX sends TLS reports",
    "flowControl": "was removed: use postscreen and smtpd_client_message_rate_limit of Postfix, or the like of your"
    " mail server. Limits of outbound mail are scanSources.smtp.outbound.senderLimits",
    "recipientVerification.rules.ldap": "was removed: fill the list known-recipients from the directory, or let the"
    " next hop answer RCPT",
    "recipientVerification.rules.callOut": "was removed: without a rule, the next hop answers RCPT while the client"
    " waits",
    "recipientVerification.rules.recipientList": "was removed: every rule reads the list known-recipients",
    "recipientVerification.rules.onFailure": "was removed: every rule reads the list known-recipients, and without"
    " storage no mail is taken",
    "recipientVerification.cache": "was removed: every rule reads the list known-recipients, which holds at once",
    "events.alerts": "was removed: an alert is an output of events with a filter, such as events.mail or"
    " events.webhooks with minSeverity and maxPerHour",
    "feeds.format: misp": "was removed: run contrib/feeds/indicators.py, which writes through the List API",
    "feeds.format: stix": "was removed: run contrib/feeds/indicators.py, which writes through the List API",
    "feeds.format: taxii": "was removed: run contrib/feeds/indicators.py, which writes through the List API",
    "feeds.fullEvery": "was removed with the formats misp and taxii: every run reads the whole feed",
    "frontProcesses": "was removed: a process is one core. Run more instances (gatepost@.service) with reusePort and"
    " PostgreSQL, and name them in serviceProviders.core.hosts of abby",
    "notices": "was removed: Gatepost does not write to recipients about mail that was delivered to them",
}


def find_removed(key: "Key", value: object = None) -> str | None:
    """Return what to use instead of a key, or of a value of a key, that earlier versions had; None for any other."""
    name = ".".join(step for step in key if isinstance(step, str))
    return REMOVED.get(name if value is None else f"{name}: {value}")
