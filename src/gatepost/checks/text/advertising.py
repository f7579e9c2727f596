"""Unsolicited advertising: its vocabulary, and text that is written for people and not for filters.

Such text has disguised words or word salad, or stands in a picture.
"""

import re
from collections.abc import Iterable, Iterator
from string import ascii_lowercase, digits

from gatepost.checks.links.hosts import leads_home
from gatepost.checks.phrases import MAX_TEXTS, WARES, Phrases, find_phrases, quote
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.mail.message import Message
from gatepost.names import skeleton
from gatepost.speedups import native

_NO_WARE = frozenset({"excuse", "pitch"})
_WARES = tuple(theme for theme in WARES if theme not in _NO_WARE)
_NOTE = 500
# In two halves, so that this file itself can be mailed.
GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*" + "GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"
GTUBE_TEXTS = 8
_NAMES = (
    "scale in_subject other_ware per_pitch per_urgency most_help expected room discussion least plain known".split()
)
_SCALE, _IN_SUBJECT, _OTHER_WARE, _PER_PITCH, _PER_URGENCY, *_OTHERS = coefficients(kinds.TEXT_SPAM_VOCABULARY, *_NAMES)
_MOST_HELP, _EXPECTED, _ROOM, _DISCUSSION, _LEAST, _PLAIN, _KNOWN = _OTHERS
# What a credit union writes about a loan that somebody applied for; advertising has more to say ("bad credit").
_LENDERS_WORDS = frozenset(
    "mortgage|mortgage loan|mortgage loans|mortgage rates|personal loan|personal loans|business loan|business loans|"
    "home loan|home loans|home equity|home equity loan|fixed rate|interest rate|interest rates|lender|lenders|"
    "loan application|loan amount|loan officer|loan approval|loan approved|loan has been approved|loan is approved|"
    "loan request|loan program|loan programs|loan quote|mortgage application|mortgage approval|mortgage officer|"
    "credit application|credit approval|your credit|your credit score|your credit history|apply for a loan|"
    "% apr|% interest|% interest rate|% annual interest|% annual interest rate|% fixed|% fixed rate".split("|")
)
(_PER_EXCUSE,) = coefficients(kinds.TEXT_SPAM_EXCUSE, "per_phrase")


@check(kinds.TEXT_SPAM_VOCABULARY, kinds.TEXT_SPAM_EXCUSE, themes={*_WARES, "excuse"})
def spam_vocabulary(reading: Reading) -> Iterator[Finding]:
    """The vocabulary of unsolicited advertising: pills, casinos, loans, fake watches, penny stocks, quick money.

    One word proves nothing: people write about medicine and mortgages. What counts is how many different phrases of one
    ware stand in how short a text. A pharmacy's own newsletter or a list that talks about spam has some of them in a
    long text; an advertisement has nothing else. Talk on known discussion lists counts less, and so does mail of known
    senders: the bank of the reader writes about loans.
    """
    phrases = find_phrases(reading)
    ware = max(_WARES, key=phrases.count_of)
    degree = _measure(phrases, ware) * (_DISCUSSION if reading.is_known_post else 1.0)
    if reading.is_known_sender:
        degree = min(1.0, degree) * _KNOWN
    if degree >= _LEAST:
        yield kinds.TEXT_SPAM_VOCABULARY.at(
            "text", strength=round(min(1.0, degree), 2), ware=ware, words=quote(phrases.of(ware, "pitch"))
        )
    excuses = phrases.of("excuse")
    if len(excuses) >= 2 and not reading.is_known_post:
        yield kinds.TEXT_SPAM_EXCUSE.at("text", strength=min(1.0, _PER_EXCUSE * len(excuses)), words=quote(excuses))


def _measure(phrases: Phrases, ware: str) -> float:
    """Return how much of the text is advertising for a ware: its phrases, less those that any text of its size has."""
    length = phrases.length_of(*_WARES, *_NO_WARE)
    count = phrases.count_of(ware) + _IN_SUBJECT * (ware in phrases.in_subject)
    if ware == "loan":
        plain = sum(word in _LENDERS_WORDS for word in phrases.of(ware))
        # A subject that names the loan says no more than the letter, where that is all it says.
        count -= (1.0 - _PLAIN) * plain + _IN_SUBJECT * (plain == phrases.count_of(ware) and ware in phrases.in_subject)
    # One phrase in a letter is a mention.
    if not phrases.count_of(ware) or (count == 1 and length > _NOTE):
        return 0.0
    count += _OTHER_WARE * (phrases.count_of(*_WARES) - phrases.count_of(ware))
    pitch = _PER_PITCH * phrases.count_of("pitch", "excuse") + _PER_URGENCY * phrases.count_of("urgency")
    expected = _EXPECTED + length / _ROOM
    return _SCALE * (count + min(_MOST_HELP, pitch) - expected)


@check(kinds.TEXT_GTUBE, needs={"test-text"})
def gtube(reading: Reading) -> Iterator[Finding]:
    """The GTUBE test string: 68 characters that every spam filter has agreed to treat as spam.

    Operators send it first of all, to see that a filter is in the path of their mail. It is nobody's word, so whoever
    writes it wants it found; mail that explains it without writing it whole is not meant.
    """
    for text in reading.message.texts[:GTUBE_TEXTS]:
        # Only where the reader sees it, as other filters do: not in files.
        if not text.attached and text.form != "document" and GTUBE in text.visible:
            yield kinds.TEXT_GTUBE.at(text.where)
            return


MAX_MIXED = 8_000
MAX_SPELLED = 2_500
_LEAST_MIXED_WORDS = 3
_SHORTEST_MIXED_WORD = 5
(_PER_MIXED_WORD,) = coefficients(kinds.TEXT_MIXED_SCRIPT_WORDS, "per_word")
(_PER_DISGUISED_WORD,) = coefficients(kinds.TEXT_DISGUISED_WORDS, "per_word")


def _make_sort_table(sorts: dict[str, str]) -> bytes:
    """Return a table that turns each byte into its sort, a space for those that have none."""
    table = bytearray(b" " * 256)
    for sort, characters in sorts.items():
        for character in characters:
            table[ord(character)] = ord(sort)
    return bytes(table)


# A Cyrillic or Greek letter beside a Latin one, with the word around them.
_FOREIGN = re.compile(r"[\u0370-\u052f]")
_SEAM = re.compile(r"[A-Za-z]{0,20}(?:[A-Za-z][\u0370-\u052f]|[\u0370-\u052f][A-Za-z])[A-Za-z\u0370-\u052f]{0,20}")
_MOST_FIRST = 12
_LEET = re.compile(r"(?<![\w@./:=&?%#$!|-])[a-z]{1,12}[0-9@!$|][a-z0-9@!$|]{0,12}[a-z](?![\w@./=&?%#-])")
_SPACED = re.compile(r"(?<![\w.])(?:[a-z0-9][ .\-_*~]{1,2}){4,14}[a-z0-9](?!\w)")
# A text with every character replaced by its sort is searched many times faster than by the expressions above: `a` for
# a letter, `m` for a mark, `g` for a gap.
_LETTERS_AND_MARKS = _make_sort_table({"a": ascii_lowercase, "m": digits + "@!$|"})
_LETTERS_AND_GAPS = _make_sort_table({"a": ascii_lowercase + digits, "g": " .-_*~"})
# Three single letters with gaps around them: what every spelled word has.
_GAPS = re.compile(rb"gagg?agg?ag")
# What can stand before a word; letters that are not ASCII are left to the expression.
_BEFORE_WORD = re.compile(r"[^0-9A-Za-z_@./:=&?%#$!|-]", re.ASCII)
_PLAIN_LETTERS = str.maketrans("0134579@!$|", "oieastgaisl")
_PLAIN_WORD = re.compile(r"(?<![\w ])[a-z]{5,14}(?![\w ])")
_DISGUISED_WARES = ("pharmacy", "potency", "adult", "casino", "loan", "replica", "software")
_DISGUISED_BOOK = frozenset(
    word for ware in _DISGUISED_WARES for phrase in WARES[ware] for word in _PLAIN_WORD.findall(phrase)
) | frozenset("account password paypal invoice security verify bitcoin viagra cialis winner urgent".split())
_SHORTEST_DISGUISED = min(map(len, _DISGUISED_BOOK))

SALAD_RUN = 30
MAX_TAIL = 1_500
MAX_HEAD = 1_000
_LEAST_SMALL_WORDS = 4
# Thirty words with their spaces are hardly ever shorter.
_SHORTEST_RUN = 5 * SALAD_RUN
_RUN_BREAKS = re.compile(r"[^a-zà-ÿ \n\t]+")
_BROKEN_RUNS = bytes(code if not _RUN_BREAKS.match(chr(code)) else ord(".") for code in range(256))
_SMALL_WORDS = frozenset(
    "the of and to in is it you that for on with as are be this have from or not your we our at by was will can if all"
    " an has they my me do us but which so he she his her their there been were would about more one no what when who"
    " der die das und ist zu den mit von auf für nicht ein eine sie wir ich es im dem des sich auch wie als ihr bei"
    " le la les de des et un une est pas pour que qui dans sur vous nous avec au du en ce se il elle ne par plus votre"
    " el los las y una por con para del es se su al lo como más pero sus no si te tu mi"
    " il di che non per sono una gli le con si da del della è in ti mi lei"
    " o os as do da em um uma não com para que é se na no por mais dos você seu sua"
    " het een van en op te dat niet voor met zijn er aan om ook als maar je ik".split()
)


@check(kinds.TEXT_MIXED_SCRIPT_WORDS, kinds.TEXT_DISGUISED_WORDS, kinds.TEXT_WORD_SALAD, needs={"evasive-text"})
def filter_evasion(reading: Reading) -> Iterator[Finding]:
    """Text made unreadable for filters: look-alike letters, digits for letters, gaps between letters, and word salad.

    In `V1agra`, `Раypal` with a Cyrillic `Р` and `V-I-A-G-R-A` a person reads the word, a filter does not. People do
    not spell so by accident. Names of products and passwords mix digits and letters, so only words that are on the book
    of wares count as disguised, and one stray letter from another keyboard does not count as a look-alike.

    `lantern gravel marmot oblique tundra …`, at the end of the text or hidden, makes advertising look like a letter to
    a machine that counts words. Every language is held together by small words: a third of what people write is `the`,
    `of`, `und`, `de`. Thirty words of running text without one are not written by a person. Lists of goods and footers
    are, but they have capitals, commas and lines of their own; and where the rest of the text has no known small words
    either, its language is unknown.
    """
    yield from _find_disguised(reading)
    yield from _find_salad(reading)


def _find_disguised(reading: Reading) -> Iterator[Finding]:
    subject = reading.message.subject
    texts = [text.visible[:MAX_MIXED] for text in reading.message.texts[:MAX_TEXTS] if not text.attached]
    mixed = {word for text in (subject, *texts) if not text.isascii() for word in _find_mixed_words(text)}
    if len(mixed) >= _LEAST_MIXED_WORDS or any(word in subject for word in mixed):
        yield kinds.TEXT_MIXED_SCRIPT_WORDS.at(
            "text", strength=min(1.0, _PER_MIXED_WORD * len(mixed)), words=ascii(quote(sorted(mixed)))
        )
    disguised = dict.fromkeys(_find_spelled_words(find_phrases(reading).text[:MAX_SPELLED]))
    if disguised:
        yield kinds.TEXT_DISGUISED_WORDS.at(
            "text", strength=min(1.0, _PER_DISGUISED_WORD * len(disguised)), words=quote(disguised)
        )


def may_evade(folded: str, subject: str, shown: Iterable[str], hidden: Iterable[str]) -> bool:
    """Return whether folded text, a subject, or texts that are shown or hidden may have what `filter_evasion` finds."""
    text = folded[:MAX_SPELLED]
    places, has_gaps = find_spelled_places(text)
    spelled = (_LEET.match(text, place) for place in places)
    if has_gaps or any(len(word.group()) >= _SHORTEST_DISGUISED for word in spelled if word):
        return True
    if any(_FOREIGN.search(text) for text in (subject, *(text[:MAX_MIXED] for text in shown))):
        return True
    tails = (*(text[-MAX_TAIL:] for text in shown), *(text[:MAX_TAIL] for text in hidden))
    return any(has_long_run(text, _SHORTEST_RUN) for text in tails)


def _find_mixed_words(text: str) -> Iterator[str]:
    if _FOREIGN.search(text):
        for word in _SEAM.findall(text):
            if len(word) >= _SHORTEST_MIXED_WORD and skeleton(word).isascii():
                yield word


def _find_spelled_words(text: str) -> Iterator[str]:
    places, has_gaps = (native.spelled_places if native else find_spelled_places)(text)
    end = 0
    for start in places:
        if start >= end and (match := _LEET.match(text, start)):
            end = match.end()
            if match.group().translate(_PLAIN_LETTERS) in _DISGUISED_BOOK:
                yield match.group()
    for match in _SPACED.finditer(text) if has_gaps else ():
        letters = "".join(char for char in match.group() if char.isalnum())
        if letters.translate(_PLAIN_LETTERS) in _DISGUISED_BOOK:
            yield match.group()


def find_spelled_places(text: str) -> tuple[list[int], bool]:
    """Return where words may begin with a mark after their first letters, and whether letters have gaps between."""
    characters = text.encode("ascii", "replace")
    shapes = characters.translate(_LETTERS_AND_MARKS)
    places = []
    at = shapes.find(b"am")
    while at >= 0:
        earliest = max(0, at - _MOST_FIRST)
        start = earliest + len(shapes[earliest : at + 1].rstrip(b"a"))
        if at - start < _MOST_FIRST and (not start or _BEFORE_WORD.match(text, start - 1)):
            places.append(start)
        at = shapes.find(b"am", at + 1)
    return places, _GAPS.search(characters.translate(_LETTERS_AND_GAPS)) is not None


def _find_salad(reading: Reading) -> Iterator[Finding]:
    for text in reading.message.texts[:4]:
        if text.attached:
            continue
        for place, words in (("the end", text.visible[-MAX_TAIL:]), ("hidden text", text.hidden[:MAX_TAIL])):
            found = _find_first_salad(words)
            head = text.visible[:MAX_HEAD].lower().split() if found else ()
            # Only a language whose small words are known can be told from salad.
            if found and sum(word in _SMALL_WORDS for word in head) >= _LEAST_SMALL_WORDS:
                yield kinds.TEXT_WORD_SALAD.at(text.where, place=place, words=found)
                return


def _find_first_salad(text: str) -> str:
    """Return the first run of words without small ones."""
    # Most texts have no run that is long enough.
    if len(text) < _SHORTEST_RUN or not (native.has_long_run if native else has_long_run)(text, _SHORTEST_RUN):
        return ""
    for chunk in _RUN_BREAKS.split(text):
        if len(chunk) < _SHORTEST_RUN:
            continue
        words = chunk.split()
        for start in range(0, len(words) - SALAD_RUN + 1, SALAD_RUN // 2):
            run = words[start : start + SALAD_RUN]
            if len(set(run)) > SALAD_RUN // 2 and sum(word in _SMALL_WORDS for word in run) <= 1:
                return " ".join(run[:12])
    return ""


def has_long_run(text: str, least: int) -> bool:
    """Return whether so many small letters and blanks stand in a row. One byte for each character is searched, and each
    step goes on after the last break within reach, so that most characters are never looked at."""
    shapes = text.encode("latin-1", "replace").translate(_BROKEN_RUNS)
    start = 0
    while start + least <= len(shapes):
        dot = shapes.rfind(b".", start, start + least)
        if dot < 0:
            return True
        start = dot + 1
    return False


_WRITTEN_ADDRESS = re.compile(r"\w{1,10}://[^\s<>\"]{0,3000}")
_LITTLE_TEXT = 300
_ENOUGH_BEGINNING = 600
_ONE_LINE = 200
# With written-out links, which are long.
_MUCH_TEXT = 3_000
# Letters of Chinese, Japanese and Korean and of Thai, which writes no blanks: each says what three say elsewhere.
_SYLLABLES, _MORE_LETTERS = re.compile("[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"), 2
_MAX_PAGE, MAX_PICTURES, _SEVERAL = 100_000, 100, 5
_PICTURE = re.compile(rb"<img\b[^>]{0,2000}", re.IGNORECASE)
# Percentages are of the width of the window.
_SIZE = re.compile(
    rb"(?<![\w-])(?:max-)?(width|height)\s{0,5}[=:]\s{0,5}[\"']?\s{0,5}(\d{1,5})(?![\d%])", re.IGNORECASE
)
_LOGO_WIDTH, _LOGO_HEIGHT, _ANY_SIZE = 300, 120, 100_000
_PICTURE_WITH_TEXT, _PICTURE_HOME = coefficients(kinds.TEXT_IMAGE_ONLY, "some_text", "proven_home")
(_CAN_UNSUBSCRIBE,) = coefficients("single-link", "unsubscribe")


@check(kinds.TEXT_IMAGE_ONLY, kinds.TEXT_BARE_LINK, needs={"link"})
def image_only(reading: Reading) -> Iterator[Finding]:
    """Mail that is a picture, or a line and a link: nothing for a filter to read.

    The text of an advertisement or of a lure is drawn, and the picture is the link. People send pictures, too, but
    those do not link anywhere; newsletters made of pictures have at least an address and a way to unsubscribe in their
    header, and notices of a sentence and a picture come from senders who prove who they are and link to nobody else.
    Nearly every notice of a service has a logo, and a picture of one dot that tells that it was opened: what
    its page shows so small that no message can be read in it is no such picture. A sentence with a link is what most
    confirmations are, so it is only found where the link may lead away from a proven sender.
    """
    message = reading.message
    if not reading.web_links or reading.is_known_post:
        return
    texts = [text.visible for text in message.texts if not text.attached]
    if any(len(text) > _MUCH_TEXT for text in texts) or any(map(_is_letter, texts)):
        return
    size = max(map(_count_letters, texts), default=0)
    syllables = max((len(_SYLLABLES.findall(text)) for text in texts if not text.isascii()), default=0)
    if size + _MORE_LETTERS * syllables <= _LITTLE_TEXT and _has_readable_picture(message):
        strength = 1.0 if size <= _LITTLE_TEXT / 2 else _PICTURE_WITH_TEXT
        strength *= _PICTURE_HOME if leads_home(reading) else 1.0
        yield kinds.TEXT_IMAGE_ONLY.at(
            "text", strength=strength * _weigh_newsletter(reading), letters=size, link=reading.web_links[0].host
        )
    elif size <= _ONE_LINE and len(reading.sites) <= 2 and not (reading.is_known_answer or leads_home(reading)):
        yield kinds.TEXT_BARE_LINK.at(
            "text", strength=_weigh_newsletter(reading), letters=size, link=reading.web_links[0].host
        )


def _weigh_newsletter(reading: Reading) -> float:
    """Return the factor for mail of a known sender that offers to unsubscribe (RFC 2369): it is a newsletter."""
    return _CAN_UNSUBSCRIBE if reading.is_known_newsletter else 1.0


def _is_letter(text: str) -> bool:
    """Return whether the words that are no address are enough by themselves, which is sooner told than how many
    there are. In most letters the beginning has enough; its last word may be cut."""
    beginning = text[:_ENOUGH_BEGINNING].split()[:-1]
    if len(" ".join([word for word in beginning if "://" not in word])) > _LITTLE_TEXT:
        return True
    return len(" ".join([word for word in text.split() if "://" not in word])) > _LITTLE_TEXT


def _count_letters(text: str) -> int:
    """Characters of words; a written-out address is none."""
    words = text.split()
    if "://" in text:
        words = " ".join(_WRITTEN_ADDRESS.sub(" ", word) if "://" in word else word for word in words).split()
    return len(" ".join(words))


def _has_readable_picture(message: Message) -> bool:
    """Return whether a picture is large enough for a message, or there are several. A size that is not stated could be
    any."""
    if any(part.content_type.startswith("image/") for part in message.parts):
        return True
    if not any(link.source == "image" for link in message.links):
        return False
    pages = (part.content[:_MAX_PAGE] for part in message.parts if part.content_type == "text/html")
    shown = [tag for page in pages for tag in _PICTURE.findall(page)[:MAX_PICTURES]]
    small = sum(map(_is_small, shown))
    return not shown or small < len(shown) or small >= _SEVERAL


def _is_small(picture: bytes) -> bool:
    """Return whether the page shows a picture as small as a logo, by its attributes or its style."""
    stated = dict.fromkeys((b"width", b"height"), _ANY_SIZE)
    stated |= {name.lower(): int(size) for name, size in _SIZE.findall(picture)}
    width, height = stated[b"width"], stated[b"height"]
    return width <= _LOGO_WIDTH or (height <= _LOGO_HEIGHT and width == _ANY_SIZE)


MAX_BEFORE_PICTURE = 20_000
_FEW_LETTERS_BEFORE = 30
_NOT_SHOWN = re.compile(rb"<(style|title|script)\b[^>]{0,1000}>[^<]{0,10000}</\1", re.IGNORECASE)
_TAG = re.compile(rb"<[^>]{0,4000}>?|&\w{1,8};?|&#\w{1,8};?")


@check(kinds.TEXT_PICTURE_FIRST, needs={"attachment"})
def picture_first(reading: Reading) -> Iterator[Finding]:
    """Letters without a link that begin with a drawn picture: the advertisement is the picture, the text below it is
    there for filters to read.

    Pages of literature or news below a GIF make a mail look like a letter, and each copy another one. The logo of a
    sender stands below the letter; photographs are JPEG, and pasted screenshots PNG; cartoons and animations are passed
    on with a link, or by known senders and lists, which are left out.
    """
    if reading.web_links or reading.is_known_sender:
        return
    drawn = {part.path for part in reading.message.parts if part.content_type == "image/gif"}
    if not drawn:
        return
    for part in reading.message.parts:
        if part.content_type == "text/html":
            at = part.content[:MAX_BEFORE_PICTURE].lower().find(b"cid:")
            before = part.content[:at].rpartition(b"<")[0]
            if at >= 0 and len(b"".join(_TAG.sub(b"", _NOT_SHOWN.sub(b"", before)).split())) < _FEW_LETTERS_BEFORE:
                yield kinds.TEXT_PICTURE_FIRST.at(part.path)
            return
