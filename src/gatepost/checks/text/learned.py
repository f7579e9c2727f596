"""What is known from other messages: the text model, models that reports have taught, and near-copies of other mail."""

from collections.abc import Iterator
from functools import lru_cache

from gatepost.checks.links.hosts import leads_home
from gatepost.checks.phrases import find_phrases, mark_themes
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import org_domain
from gatepost.textmodel.features import is_foreign
from gatepost.textmodel.learnt import LearntModel
from gatepost.textmodel.model import Hits, ModelScore, lower_score, sigmoid
from gatepost.textmodel.words import MAX_WORDS, MessageWords, list_body_words, make_words

BEGINS, SAYS_ALL, LEAST, KNOWN, ENOUGH_WORDS, BOTH_SAY_ALL, *_OF_PROVEN_SENDERS = coefficients(
    "text-model",
    *"begins says_all least known enough_words both_say_all".split(),
    *"home_begins home_says_all home_share home_kept home_sure".split(),
)
HOME_BEGINS, HOME_SAYS_ALL, HOME_SHARE, HOME_KEPT, HOME_SURE = _OF_PROVEN_SENDERS
(PROVEN,) = coefficients(kinds.TEXT_MODEL_SURE, "proven")
LEARNT_SPEAKS, LEARNT_SAYS_ALL, LEARNT_LEAST = coefficients(kinds.TEXT_LEARNT_UNWANTED, "speaks", "says_all", "least")
WANTED_SPEAKS, WANTED_MOST = coefficients(kinds.TEXT_LEARNT_WANTED, "speaks", "most")
WANTED_BEGINS, WANTED_SAYS_ALL, WANTED_LEAST = coefficients(kinds.TEXT_MODEL_WANTED, "begins", "says_all", "least")


@check(*kinds.list_kinds("text:model-"), kinds.TEXT_NOTICE_LURE)
def text_model(reading: Reading) -> Iterator[Finding]:
    """What the text model thinks: mail that reads like unwanted mail, and which kind of it.

    The model has read much mail and knows no single trick, so its points are capped below every threshold; only where
    the second reader is sure of a lure of a proven sender, `text:notice-lure` adds what is missing. The points follow
    the log-odds slowly and far: for mail of a source that it has not read it errs by one or two log-odds, and honest
    prose around a lure takes off as many, so neither may be worth more than a point or two. It looks at nothing that a
    sender could write to be excused: no fields of lists and answers, no links to the sender's own site. Text that
    reads like wanted mail, in each of its parts, takes a little off, within a bound, and nothing beside a finding that
    nothing excuses. A long text is read in windows, and the worst of them counts, so that honest prose around a lure
    does not help it. Of a sender whom the tenant knows, of a company that is proven, and of a few words, it speaks more
    softly, and of a few words it is never sure.

    A second reader knows letters and notices in many languages. It is asked about texts that are not English, which the
    first has hardly read, and only adds to what that says: the line of both is steeper. Of mail whose
    sender DMARC proves it is asked in every language, and where no link leads elsewhere, half of what the first one
    says is left: it has hardly read such notices. The cap is the same.

    Mail whose letter is a document is weighed a second time with the words of the document, and the stronger result
    counts. The model has learned from mail, not from documents, so it is never sure by those.
    """
    written = reading.written
    score, hits = _weigh(reading, written)
    words = written.total
    is_proven = score.logit >= PROVEN and words >= ENOUGH_WORDS
    if reading.documents:
        letter = [*written.body, *list_body_words(reading.documents)][:MAX_WORDS]
        whole = _weigh(reading, make_words(written.names, written.subject, letter))
        score, hits = max((score, hits), whole, key=lambda each: each[0].logit)
    enough = min(1.0, words / ENOUGH_WORDS)
    second = _ask_letters(reading)
    said = {"letters_classifier": f"{sigmoid(second):.2f}"} if second else {}
    # Of mail of a proven sender alone.
    lure = second + HOME_SHARE * score.logit if second and _is_proven(reading) else 0.0
    probability = f"{score.unwanted:.2f}"
    if score.logit < 0 and (lure or second) <= 0:
        strength = _scale(-score.worst, WANTED_BEGINS, WANTED_SAYS_ALL, enough)
        if written and strength >= WANTED_LEAST:
            yield kinds.TEXT_MODEL_WANTED.at("text", strength=strength, probability=probability)
        return
    strength = _scale(score.logit, BEGINS, SAYS_ALL, enough)
    if lure:
        kept = HOME_KEPT if leads_home(reading) else 1.0
        strength = max(kept * strength, _scale(lure, HOME_BEGINS, HOME_SAYS_ALL, enough))
    elif second > 0:
        strength = max(strength, _scale(score.logit + second, BEGINS, BOTH_SAY_ALL, enough))
    if strength < LEAST:
        return
    strength = round(strength * (KNOWN if reading.is_known_sender or reading.is_proven_company else 1.0), 3)
    weighed = ", ".join(reading.models.for_tenant(reading.envelope.tenant).reasons(hits))
    yield kinds.TEXT_MODEL_SPAM.at("text", strength=strength, probability=probability, weighed=weighed, **said)
    for kind, share in ((kinds.TEXT_MODEL_PHISHING, score.phishing), (kinds.TEXT_MODEL_FRAUD, score.fraud)):
        if share > score.unwanted / 2:
            yield kind.at("text", strength=strength, probability=f"{share:.2f}")
    if is_proven:
        yield kinds.TEXT_MODEL_SURE.at("text", probability=probability)
    if lure >= HOME_SURE and words >= ENOUGH_WORDS:
        yield kinds.TEXT_NOTICE_LURE.at("text", probability=said["letters_classifier"])


def _scale(logit: float, begins: float, says_all: float, enough: float) -> float:
    """Return the strength of these log-odds, at most 1; `enough` is the share of enough words that there are."""
    return round(min(1.0, (logit - begins) / (says_all - begins)) * enough, 3)


def _weigh(reading: Reading, words: MessageWords) -> tuple[ModelScore, tuple[Hits, ...]]:
    """Return what the models think of these words, and what of them they know."""
    models = reading.models.for_tenant(reading.envelope.tenant)
    hits = models.read(words, [*reading.marks, *mark_themes(find_phrases(reading))])
    return lower_score(models.weigh(hits), find_lowering(reading)), hits


def _is_proven(reading: Reading) -> bool:
    return reading.authentication.dmarc.result == "pass"


def _ask_letters(reading: Reading) -> float:
    """Return the log-odds that the second reader gives the text; 0 where there is none, or where it is not asked."""
    if not _is_proven(reading) and not is_foreign(reading.written.body):
        return 0.0
    models = reading.models.for_tenant(reading.envelope.tenant)
    return models.ask_letters(reading.written)


@check(kinds.TEXT_LEARNT_UNWANTED, kinds.TEXT_LEARNT_WANTED, needs={"learnt"})
def learnt_model(reading: Reading) -> Iterator[Finding]:
    """What reports have taught: mail that reads like what people of this tenant or deployment reported.

    Reports say what these people want, which no shipped model knows: the same offer is spam to one and work to another.
    A model of some hundred reports is often sure and sometimes wrong, and some reports are lies. So what it says for
    unwanted mail stays below every threshold. For wanted mail it only quietens the text model, by a bounded
    amount, and takes nothing from what any other check has found.
    """
    logit, speaking = reading.once(_ask_learnt)
    if not speaking:
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


@check(kinds.CAMPAIGN_MARKED, kinds.CAMPAIGN_HELD, kinds.CAMPAIGN_BURST, needs={"campaign"})
def campaign(reading: Reading) -> Iterator[Finding]:
    """Near-copies: of mail that people marked as unwanted, that was held as an attack, or that many others got.

    A campaign is the same text to many, with a name or a number changed. That alone is no crime: newsletters, lists and
    notes to all staff are campaigns too, so mail that names itself as bulk, and that of the operator's own domains,
    makes no burst where its sender or list is known. Nor do copies of mail that people said should have been delivered.
    """
    said = reading.campaign.marked
    if said == "wanted":
        return
    if said == "unwanted":
        yield kinds.CAMPAIGN_MARKED.at("text")
    elif said == "held":
        yield kinds.CAMPAIGN_HELD.at("text")
    if (
        reading.campaign.recipients >= MANY_RECIPIENTS
        and not (reading.is_known_newsletter or reading.is_known_list)
        and not _is_own_campaign(reading)
    ):
        yield kinds.CAMPAIGN_BURST.at("text", recipients=reading.campaign.recipients, copies=reading.campaign.copies)


@lru_cache(16)
def _list_owners(domains: frozenset[str]) -> frozenset[str]:
    return frozenset(map(org_domain, domains))


def _is_own_campaign(reading: Reading) -> bool:
    own = _list_owners(reading.protected.own_domains)
    return not own.isdisjoint(reading.sender_domains) and reading.authentication.aligned
