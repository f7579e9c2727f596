"""The vocabulary of unsolicited advertising."""

from collections.abc import Iterator

from gatepost import kinds
from gatepost.checks.phrases import WARES, Phrases, find_phrases, quote
from gatepost.findings import Reading, check
from gatepost.kinds import Finding
from gatepost.strengths import coefficients

_NO_WARE = frozenset({"excuse", "pitch"})
_WARES = tuple(theme for theme in WARES if theme not in _NO_WARE)
_NOTE = 500
# In two halves, so that this file itself can be mailed.
GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*" + "GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
_GTUBE_TEXTS = 8
_NAMES = "scale in_subject other_ware per_pitch per_urgency most_help expected room discussion least".split()
_SCALE, _IN_SUBJECT, _OTHER_WARE, _PER_PITCH, _PER_URGENCY, *_OTHERS = coefficients(kinds.TEXT_SPAM_VOCABULARY, *_NAMES)
_MOST_HELP, _EXPECTED, _ROOM, _DISCUSSION, _LEAST = _OTHERS
(_PER_EXCUSE,) = coefficients(kinds.TEXT_SPAM_EXCUSE, "per_phrase")


@check(kinds.TEXT_SPAM_VOCABULARY, kinds.TEXT_SPAM_EXCUSE, themes={*_WARES, "excuse"})
def spam_vocabulary(reading: Reading) -> Iterator[Finding]:
    """The vocabulary of unsolicited advertising: pills, casinos, loans, fake watches, penny stocks, quick money.

    One word proves nothing: people write about medicine and mortgages. What counts is how many different phrases of one
    ware stand in how short a text. A pharmacy's own newsletter or a list that talks about spam has some of them in a
    long text; an advertisement has nothing else. Talk on discussion lists counts less.
    """
    phrases = find_phrases(reading)
    ware = max(_WARES, key=phrases.count_of)
    degree = _measure(phrases, ware) * (_DISCUSSION if reading.is_discussion else 1.0)
    if degree >= _LEAST:
        yield kinds.TEXT_SPAM_VOCABULARY.at(
            "text", strength=round(min(1.0, degree), 2), ware=ware, words=quote(phrases.of(ware, "pitch"))
        )
    excuses = phrases.of("excuse")
    if len(excuses) >= 2 and not reading.is_discussion:
        yield kinds.TEXT_SPAM_EXCUSE.at("text", strength=min(1.0, _PER_EXCUSE * len(excuses)), words=quote(excuses))


def _measure(phrases: Phrases, ware: str) -> float:
    """Return how much of the text is advertising for a ware: its phrases, less those that any text of its size has."""
    count = phrases.count_of(ware) + _IN_SUBJECT * (ware in phrases.in_subject)
    # One phrase in a letter is a mention.
    if not phrases.count_of(ware) or (count == 1 and phrases.length > _NOTE):
        return 0.0
    count += _OTHER_WARE * (phrases.count_of(*_WARES) - phrases.count_of(ware))
    pitch = _PER_PITCH * phrases.count_of("pitch", "excuse") + _PER_URGENCY * phrases.count_of("urgency")
    expected = _EXPECTED + phrases.length / _ROOM
    return _SCALE * (count + min(_MOST_HELP, pitch) - expected)


@check(kinds.TEXT_GTUBE)
def gtube(reading: Reading) -> Iterator[Finding]:
    """The GTUBE test string: 68 characters that every spam filter has agreed to treat as spam.

    Operators send it first of all, to see that a filter is in the path of their mail. It is nobody's word, so whoever
    writes it wants it found; mail that explains it without writing it whole is not meant.
    """
    for text in reading.message.texts[:_GTUBE_TEXTS]:
        # Only where the reader sees it, as other filters do: not in files.
        if not text.attached and text.form != "document" and GTUBE in text.visible:
            yield kinds.TEXT_GTUBE.at(text.where)
            return
