"""Payments led astray: our bank details have changed, pay to the new account; or the boss needs a transfer, quietly.

This fraud has no link and no file, only a letter in a name that the reader trusts. Real companies do change banks: the
letter then weighs little by itself, and more where it presses, asks for silence, or answers go to another address.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import is_freemail
from gatepost.checks.wording import shown, wording
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain, org_domain

CHANGE = Kind("text:payment-change", "The text gives new bank details or asks for a transfer")
ERRAND = Kind("text:errand", "The text opens as a request from a superior does: are you there, keep it quiet")
KINDS = (CHANGE, ERRAND)
THEMES = frozenset({"payment", "errand"})

_LETTER = 3_000


def check(reading: Reading) -> Iterator[Finding]:
    said = wording(reading)
    if said.size > _LETTER or reading.is_discussion:
        return
    pays, errands = said.said("payment"), said.said("errand")
    away = _answers_elsewhere(reading)
    if pays:
        degree = 0.3 * len(pays) + 0.2 * (said.count("urgency") > 0) + 0.2 * bool(errands) + 0.3 * away
        if degree >= 0.5:
            yield CHANGE.at("text", strength=round(min(1.0, degree), 2), words=shown((*pays, *errands)))
    if len(errands) >= 2 or (errands and away and said.size < 600):
        yield ERRAND.at("text", strength=min(1.0, 0.4 * len(errands) + 0.3 * away), words=shown(errands))


def _answers_elsewhere(reading: Reading) -> bool:
    """Whether a reply goes to another owner's domain, or to free mail."""
    own = {org_domain(sender.domain) for sender in reading.message.senders}
    replies = {normal_domain(reply.domain) for reply in reading.message.reply_to}
    return any(org_domain(reply) not in own and is_freemail(reply) for reply in replies)
