"""What is known from other messages: the text model, models that reports have taught, and near-copies of other mail."""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from gatepost import kinds
from gatepost.findings import Reading, check
from gatepost.kinds import Finding
from gatepost.names import org_domain
from gatepost.near_duplicates import compute_signature
from gatepost.strengths import coefficients
from gatepost.textmodel.features import MAX_WORDS, Features, extract_features, list_body_words
from gatepost.textmodel.learnt import LearntModel
from gatepost.textmodel.model import ModelScore, lower_score, sigmoid

SPEAKS, SAYS_ALL, ENOUGH_WORDS, MANY_WORDS, LEAVABLE, OWN_SITE, SIGNED, LEAST = coefficients(
    "text-model", "speaks", "says_all", "enough_words", "many_words", "leavable", "own_site", "signed", "least"
)
(PROVEN,) = coefficients(kinds.TEXT_MODEL_SURE, "proven")
LEARNT_SPEAKS, LEARNT_SAYS_ALL, LEARNT_LEAST = coefficients(kinds.TEXT_LEARNT_UNWANTED, "speaks", "says_all", "least")
WANTED_SPEAKS, WANTED_MOST = coefficients(kinds.TEXT_LEARNT_WANTED, "speaks", "most")

_OWN_SITE_MARKS = frozenset({"#own-links all", "#own-links some"})
# Marks of a conversation: the mail is a reply, or a list passed it on.
_TALK_MARKS = frozenset({"#answers", "#list"})
_MAIL_SYSTEMS = frozenset({"mailer-daemon", "postmaster", "mail-daemon", "maildaemon", "mdaemon"})


@check(kinds.TEXT_MODEL_SPAM, kinds.TEXT_MODEL_PHISHING, kinds.TEXT_MODEL_FRAUD, kinds.TEXT_MODEL_SURE)
def text_model(reading: Reading) -> Iterator[Finding]:
    """What the text model thinks: mail that reads like unwanted mail, and which kind of it.

    The model has read much mail and knows no single trick, so its points are capped below every threshold. It speaks
    more softly where its word is worth less. Wanted and unwanted advertising use the same words, so mail that offers to
    end a subscription (RFC 2369, RFC 8058), is signed by its sender's own domain (RFC 6376) or links to that domain
    gets part of the strength. So does a short note, the more so without a link or a file. About a bounce, which holds
    the text of another mail, it says nothing.

    Only where it was proven right does it decide alone: at odds of twenty to one, on mail of some length that is no
    reply, comes through no list, is not signed by its sender, cannot be ended and leads to strangers
    (docs/accuracy.md).

    Mail whose letter is a document is weighed a second time with the words of the document, and the stronger result
    counts. The model has learned from mail, not from documents, so it never decides alone by those.
    """
    if _is_bounce(reading):
        return
    opinion = _weigh(reading, reading.features)
    is_proven = opinion is not None and opinion.is_proven
    if reading.documents:
        words = [*reading.written, *list_body_words(reading.documents)][:MAX_WORDS]
        whole = _weigh(reading, extract_features(reading.message, reading.files, words))
        opinion = max(filter(None, (opinion, whole)), key=lambda each: each.strength, default=None)
    if opinion is None or opinion.strength < LEAST:
        return
    score, strength = opinion.score, opinion.strength
    probability = f"{score.unwanted:.2f}"
    yield kinds.TEXT_MODEL_SPAM.at(
        "text", strength=strength, probability=probability, weighed=", ".join(opinion.reasons)
    )
    for kind, share in ((kinds.TEXT_MODEL_PHISHING, score.phishing), (kinds.TEXT_MODEL_FRAUD, score.fraud)):
        if share > score.unwanted / 2:
            yield kind.at("text", strength=strength, probability=f"{share:.2f}")
    if is_proven:
        yield kinds.TEXT_MODEL_SURE.at("text", probability=probability)


class _Opinion(msgspec.Struct, frozen=True):
    """What the model makes of some words: `is_proven` says that it was proven right on such mail."""

    score: ModelScore
    strength: float
    reasons: tuple[str, ...]
    is_proven: bool


def _weigh(reading: Reading, seen: Features) -> _Opinion | None:
    trust = _measure_trust(seen, reading)
    if trust < LEAST:  # whatever it says, it is not worth asking
        return None
    models = reading.models.for_tenant(reading.envelope.tenant)
    hits = models.hits(seen)
    score = lower_score(models.weigh(hits), find_lowering(reading))
    strength = min(1.0, max(0.0, (score.logit - SPEAKS) / (SAYS_ALL - SPEAKS))) * trust
    if strength < LEAST:
        return None
    is_proven = score.logit >= PROVEN and trust == 1.0 and _TALK_MARKS.isdisjoint(seen.marks)
    return _Opinion(score, strength, models.reasons(hits), is_proven)


def _measure_trust(seen: Features, reading: Reading) -> float:
    """Return how much the model's word is worth on such a mail."""
    leads = bool(reading.links) or any(mark.startswith("#file") for mark in seen.marks)
    trust: float = min(1.0, (len(seen.text) + len(seen.rest)) / (ENOUGH_WORDS if leads else MANY_WORDS)) ** 2
    if "list-unsubscribe" in reading.fields and not reading.is_discussion:
        trust *= LEAVABLE
    if not _OWN_SITE_MARKS.isdisjoint(seen.marks):
        trust *= OWN_SITE
    if reading.is_signed_by_sender:
        trust *= SIGNED
    return trust


def _is_bounce(reading: Reading) -> bool:
    """Return whether the mail says that another could not be delivered (RFC 3464), in whatever form."""
    message = reading.message
    if any(part.content_type in ("multipart/report", "message/delivery-status") for part in message.parts):
        return True
    mailboxes = {sender.local.lower() for sender in message.senders}
    mailboxes.add(reading.envelope.sender.strip("<>").partition("@")[0].lower())
    return not _MAIL_SYSTEMS.isdisjoint(mailboxes)


@check(kinds.TEXT_LEARNT_UNWANTED, kinds.TEXT_LEARNT_WANTED)
def learnt_model(reading: Reading) -> Iterator[Finding]:
    """What reports have taught: mail that reads like what people of this tenant or deployment reported.

    Reports say what these people want, which no shipped model knows: the same offer is spam to one and work to another.
    A model of some hundred reports is often sure and sometimes wrong, and some reports are lies. So what it says for
    unwanted mail stays below every threshold. For wanted mail it only quietens the text model, by a bounded
    amount, and takes nothing from what any other check has found.
    """
    logit, speaking = reading.once(_ask_learnt)
    if not speaking or _is_bounce(reading):
        return
    by = " and ".join(f"{each.reports:,} reports of the {each.scope} (model {each.version})" for each in speaking)
    strength = min(1.0, max(0.0, (logit - LEARNT_SPEAKS) / (LEARNT_SAYS_ALL - LEARNT_SPEAKS)))
    if strength >= LEARNT_LEAST:
        yield kinds.TEXT_LEARNT_UNWANTED.at(
            "text", strength=strength, probability=f"{sigmoid(logit):.2f}", taught_by=by
        )
    elif lowering := find_lowering(reading):
        yield kinds.TEXT_LEARNT_WANTED.at(
            "text",
            probability=f"{sigmoid(logit):.2f}",
            taught_by=by,
            effect=f"the text classifier speaks {lowering:.2f} log-odds more softly",
        )


def find_lowering(reading: Reading) -> float:
    """Return by how much learnt models lower the log-odds of the text model."""
    logit, _ = reading.once(_ask_learnt)
    return min(WANTED_MOST, -logit) if -logit >= WANTED_SPEAKS else 0.0


def _ask_learnt(reading: Reading) -> tuple[float, tuple[LearntModel, ...]]:
    return reading.learnt.score(reading.row) if reading.learnt.models else (0.0, ())


MANY_RECIPIENTS = 20
_BULK_FIELDS = frozenset({"list-unsubscribe", "list-id", "list-post"})


@check(kinds.CAMPAIGN_MARKED, kinds.CAMPAIGN_HELD, kinds.CAMPAIGN_BURST)
def campaign(reading: Reading) -> Iterator[Finding]:
    """Near-copies: of mail that people marked as unwanted, that was held as an attack, or that many others got.

    A campaign is the same text to many, with a name or a number changed. That alone is no crime: newsletters, lists and
    notes to all staff are campaigns too, so mail that names itself as bulk, and that of the operator's own domains,
    makes no burst. Nor do copies of mail that people said should have been delivered.
    """
    marked = reading.models.marked
    said = reading.campaign.marked
    if said == "wanted":
        return
    if said == "unwanted" or (marked.by_hash and marked.has_near_duplicate(compute_signature(reading.written))):
        yield kinds.CAMPAIGN_MARKED.at("text")
    elif said == "held":
        yield kinds.CAMPAIGN_HELD.at("text")
    if (
        reading.campaign.recipients >= MANY_RECIPIENTS
        and _BULK_FIELDS.isdisjoint(reading.fields)
        and not _is_own_campaign(reading)
    ):
        yield kinds.CAMPAIGN_BURST.at("text", recipients=reading.campaign.recipients, copies=reading.campaign.copies)


@lru_cache(16)
def _list_owners(domains: frozenset[str]) -> frozenset[str]:
    return frozenset(map(org_domain, domains))


def _is_own_campaign(reading: Reading) -> bool:
    own = _list_owners(reading.protected.own_domains)
    return not own.isdisjoint(reading.sender_domains) and reading.authentication.aligned
