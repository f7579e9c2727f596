"""Labels of training mail: the kind of unwanted mail, the language, and the campaign of each message.

Collections are labelled spam or phishing by where they came from, and a third of a phishing collection may be plain
spam. So the kind is derived from what the text asks for: money by a story or a threat is fraud, credentials are
phishing. These are cues, not truth; the kind never decides whether a mail is held, only what it is called.

The language is guessed by the script, and else by the commonest small words. It serves only the tables that say where
figures hold.

A random split puts the thousandth copy of an advertisement into the test after the model has learnt the other 999. So
messages that share one of their few smallest hashes over runs of five words (Broder, 1997), or a subject of some
length, are one campaign, transitively, and a campaign is never on both sides of a split. That joins rather too much
than too little.
"""

from collections.abc import Sequence
from typing import Literal
from zlib import crc32

from gatepost.near_duplicates import smallest_hashes
from gatepost.textmodel.features import SUBJECT, Features

MailKind = Literal["ham", "spam", "phishing", "fraud", "unclear"]

UNWANTED = frozenset({"spam", "phish", "phishing", "fraud"})
WANTED = frozenset({"ham", "bounce"})

_FRAUD = (
    "next of kin;inheritance;beneficiary;late husband;barrister;million dollars;million usd;million united states;"
    "western union;atm card;bank of africa;funds transfer;transfer of funds;deceased;your compensation;donation of;"
    "recorded you;your webcam;adult sites;my bitcoin;btc wallet;bitcoin address;business proposal;"
    "strictly confidential;charity foundation;investment partner;lottery winning;claims agent;gift cards;consignment"
).split(";")
_PHISHING = (
    "verify your;your account;your password;account has been;log in;sign in;suspended;unusual activity;confirm your;"
    "update your;security alert;your mailbox;recovery phrase;wallet has;billing information;payment method;"
    "click here to;delivery of your package;shared document;expire today;votre compte;ihr konto;su cuenta;sua conta"
).split(";")
ENOUGH = 2


def find_kind(label: str, message: Features) -> MailKind:
    """Return the kind of an example with this label."""
    if label in WANTED:
        return "ham"
    if label in ("phishing", "fraud"):
        return "phishing" if label == "phishing" else "fraud"
    text = f" {' '.join(message.text)} {' '.join(word[2:] for word in message.rest)} "
    if _count_cues(_FRAUD, text) >= ENOUGH:
        return "fraud"
    asks = _count_cues(_PHISHING, text)
    if label == "phish":
        return "phishing" if asks else "unclear"
    return "phishing" if asks > ENOUGH else "spam"


def _count_cues(cues: list[str], text: str) -> int:
    return sum(f" {cue} " in text for cue in cues)


MIN_VOTES = 3
_SCRIPTS = (
    ("Cyrillic", 0x400, 0x52F),
    ("Hebrew or Arabic", 0x590, 0x6FF),
    ("Chinese, Japanese or Korean", 0x2E80, 0xD7FF),
)
_SMALL = {
    "English": "the and to of you is for this your with that are have not we it be on",
    "German": "und der die das ist nicht sie wir mit fur auf ein eine ihre ihr zu von den",
    "French": "le la les et vous est pour votre nous dans des une sur pas avec ce qui",
    "Spanish": "el los las y su para por que una con del es esta usted no se lo",
    "Portuguese": "o os as e voce para por que uma com do da seu sua nao em um",
    "Italian": "il gli e di che per una con del sono non questo tuo la lei si",
    "Dutch": "de het een en van is voor niet met uw je wij op dat te aan",
}
_VOTES: dict[str, tuple[str, ...]] = {
    word: tuple(name for name, words in _SMALL.items() if word in words.split())
    for word in {word for words in _SMALL.values() for word in words.split()}
}


def guess_language(words: Sequence[str]) -> str:
    """Return the language of these words, "other" where none of the known ones stands out, "too short" for a few."""
    foreign = [word for word in words if not word.isascii()]
    if len(foreign) * 3 > len(words):
        for name, first, last in _SCRIPTS:
            if sum(first <= ord(word[0]) <= last for word in foreign) * 2 > len(foreign):
                return name
    votes = dict.fromkeys(_SMALL, 0.0)
    for word in words:
        for name in _VOTES.get(word, ()):
            votes[name] += 1 / len(_VOTES[word])
    best = max(votes, key=lambda name: votes[name])
    if votes[best] >= MIN_VOTES:
        return best
    return "too short" if len(words) < 20 else "other"


SIGNATURE_SIZE = 3
MIN_SUBJECT = 3


def group_campaigns(messages: Sequence[Features]) -> list[int]:
    """Return the number of each message's campaign: that of its first message."""
    parent = list(range(len(messages)))
    first: dict[int, int] = {}
    for number, message in enumerate(messages):
        for key in find_campaign_keys(message):
            other = _find_root(parent, first.setdefault(key, number))
            mine = _find_root(parent, number)
            parent[max(other, mine)] = min(other, mine)
    return [_find_root(parent, number) for number in range(len(messages))]


def find_campaign_keys(message: Features) -> set[int]:
    """Return the keys by which a message is recognised in another."""
    words = [word for word in message.text if word.isalpha()]
    subject = [word for word in message.rest if word.startswith(SUBJECT)]
    runs = smallest_hashes(words, SIGNATURE_SIZE)
    keys = set(runs)
    if len(subject) >= MIN_SUBJECT or not runs:
        keys.add(crc32(" ".join(subject if runs else subject + words).encode()))
    return keys


def _find_root(parent: list[int], number: int) -> int:
    while parent[number] != number:
        parent[number] = parent[parent[number]]
        number = parent[number]
    return number
