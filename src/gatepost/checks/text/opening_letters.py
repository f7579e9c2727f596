"""First letters of strangers: a sum of money, a request to answer, and no site to look at."""

import re
from collections.abc import Iterator

from gatepost.checks.known_names import is_freemail
from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading, check
from gatepost.kinds import TEXT_LARGE_SUM, TEXT_OPENING_LETTER, Finding
from gatepost.names import normal_domain
from gatepost.strengths import coefficients

MAX_TEXT = 8_000
_LETTER = 4_000
_MOST_SITES = 1
_PER_PHRASE, _SUM, _ELSEWHERE, _UNNAMED, _FREE, _SITE, _FULL_LENGTH, _LEAST = coefficients(
    TEXT_OPENING_LETTER, "per_phrase", "sum", "elsewhere", "unnamed", "freemail", "site", "full_length", "least"
)
# A hundred thousand and more: $1,300,000 and 850.000 EUR; 10.5 million dollars; USD 2.4M.
_COIN = r"(?:[$€£¥]|us\$|usd|eur|gbp|euros?|dollars?|dolares|pounds?|us-dollar|dollari|долларов|евро)"
_LARGE = r"(?:\d{3}[., ]\d{3}|\d{1,3}[., ]\d{3}[., ]\d{3}(?:[., ]\d{3})?)(?:[.,]\d{2})?"
_MANY = (
    r"\d{1,4}(?:[.,]\d{1,3})? ?"
    r"(?:m|mio|mln|millions?|millionen|millones|milioni|milhoes|miljoen|milionow|billions?|mrd)"
)
# Every sum has one of these; most letters have none, and a look for them costs little.
_SUM_MARKS = frozenset("$€£¥").union(("usd", "eur", "gbp", "dol", "pound", "долл", "евро"))
_LARGE_SUM = re.compile(
    rf"{_COIN} ?(?:{_LARGE}|{_MANY})(?!\w)|(?<![\d.,]){_LARGE} ?{_COIN}|(?<![\d.,]){_MANY}\b[ a-z.'-]{{0,16}}{_COIN}"
)


@check(TEXT_OPENING_LETTER, TEXT_LARGE_SUM)
def opening_letter(reading: Reading) -> Iterator[Finding]:
    """Letters by which a stranger begins a correspondence: an heir, a donation, a loan, or just "did you get my mail?".

    The fraud comes later; the first letter only has to be answered. So it has no link and no file, and it asks for a
    reply. Any of this is ordinary. It counts where the letter also hides something: answers go to another address, no
    recipient is named, or a free mailbox speaks of a fortune. Businesses write about millions and ask for answers as
    well, in their own name, to somebody, and answer in the same mailbox; conversations and lists are left out.
    """
    fields = reading.fields
    phrases = find_phrases(reading)
    if phrases.length > _LETTER or len(reading.sites) > _MOST_SITES or reading.is_discussion:
        return
    if "in-reply-to" in fields or "references" in fields or not reading.message.senders:
        return
    elsewhere, free = _goes_elsewhere(reading), _is_free(reading)
    # A round letter of a company to its staff names nobody either.
    if not (elsewhere or free):
        return
    text = phrases.text[:MAX_TEXT]
    large = _LARGE_SUM.search(text) if any(mark in text for mark in _SUM_MARKS) else None
    if large:
        yield TEXT_LARGE_SUM.at("text", sum=large.group())
    opens = phrases.of("opening")
    if not opens and not (large and elsewhere):
        return
    degree = _PER_PHRASE * len(opens) + _SUM * bool(large)
    degree += _ELSEWHERE * elsewhere + _UNNAMED * _is_unnamed(reading) + _FREE * free - _SITE * len(reading.sites)
    degree *= min(1.0, _FULL_LENGTH / max(phrases.length, 1))
    if degree >= _LEAST:
        yield TEXT_OPENING_LETTER.at("text", strength=round(min(1.0, degree), 2), words=quote(opens))


def _goes_elsewhere(reading: Reading) -> bool:
    """Return whether answers go to another mailbox than the sender's."""
    sender = reading.message.senders[0]
    mine = sender.local.casefold(), normal_domain(sender.domain)
    return any((each.local.casefold(), normal_domain(each.domain)) != mine for each in reading.message.reply_to[:3])


def _is_unnamed(reading: Reading) -> bool:
    """Return whether the letter names nobody but its sender as a recipient."""
    sender = str(reading.message.senders[0]).casefold()
    named = (each for each in reading.message.recipients[:20] if each.domain)
    return all(str(each).casefold() == sender for each in named)


def _is_free(reading: Reading) -> bool:
    return is_freemail(normal_domain(reading.message.senders[0].domain))
