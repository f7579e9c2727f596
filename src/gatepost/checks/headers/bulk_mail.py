"""Mail that says itself it went to many: lists and newsletters (RFC 2369, RFC 2919, RFC 8058).

This is no fault. It names the mail `bulk`, which is delivered; only together with bad signs does it matter. Besides the
fields of the standards there are older and private ones: `Precedence: bulk`, `Feedback-ID`, the marks of mailing
services, and a link to unsubscribe in the text.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import (
    BULK_DISCUSSION_LIST,
    BULK_MAILING_SERVICE,
    BULK_PRECEDENCE,
    BULK_UNSUBSCRIBE,
    BULK_UNSUBSCRIBE_LINK,
    Finding,
)

KINDS = (BULK_UNSUBSCRIBE, BULK_DISCUSSION_LIST, BULK_PRECEDENCE, BULK_MAILING_SERVICE, BULK_UNSUBSCRIBE_LINK)

# Fields by which mailing services recognise their own campaigns when complaints come back.
_SERVICE_FIELDS = frozenset(
    "feedback-id x-feedback-id x-mc-user x-campaign x-campaignid x-campaign-id x-mailgun-sid x-sg-eid x-ses-outgoing "
    "x-csa-complaints x-mailer-lid x-mailer-recptid x-mj-mid x-mandrill-user x-rpcampaign x-job x-sfmc-stack "
    "x-klaviyo-message-id x-cmail-tracking x-roving-id x-delivery x-msys-api x-rm-trackid x-hs-cid "
    "x-hubspot-correlation-id x-iterable-message-id x-pvtl x-emarsys-identify x-mailup-campaign x-binding "
    "x-report-abuse-to x-elqpod x-et-messageid x-cio-campaign".split()
)
_FAREWELLS = (
    "unsubscribe",
    "opt out",
    "opt-out",
    "manage preferences",
    "email preferences",
    "abmelden",
    "abbestellen",
    "austragen",
    "désabonner",
    "désinscri",
    "se desabonner",
    "cancelar suscripción",
    "darse de baja",
    "cancelar inscrição",
    "descadastrar",
    "cancellati",
    "disiscri",
    "afmelden",
    "uitschrijven",
    "отписаться",
    "配信停止",
    "退订",
)


def check(reading: Reading) -> Iterator[Finding]:
    fields = reading.fields
    if reading.is_discussion:
        yield BULK_DISCUSSION_LIST.at("List-Post", list=fields.get("list-id", ""))
        return
    if unsubscribe := fields.get("list-unsubscribe"):
        one_click = "yes" if "list-unsubscribe-post" in fields else "no"
        yield BULK_UNSUBSCRIBE.at("List-Unsubscribe", target=unsubscribe, one_click=one_click)
    if fields.get("precedence", "").strip().lower() in ("bulk", "list"):
        yield BULK_PRECEDENCE.at("Precedence", value=fields["precedence"])
    if not _SERVICE_FIELDS.isdisjoint(fields):
        yield BULK_MAILING_SERVICE.at("header", field=min(_SERVICE_FIELDS & fields.keys()))
    elif not unsubscribe and (shown := _find_unsubscribe_link(reading)):
        yield BULK_UNSUBSCRIBE_LINK.at("links", shown=shown)


def _find_unsubscribe_link(reading: Reading) -> str:
    """Return the text of a link that ends a subscription. It stands at the end, so the last links are looked at
    first."""
    for link in reversed(reading.message.links[-30:]):
        if link.shown and link.source == "html":
            shown = link.shown.casefold()
            if any(word in shown for word in _FAREWELLS):
                return link.shown
    return ""
