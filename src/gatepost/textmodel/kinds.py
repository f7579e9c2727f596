"""Which kind of unwanted mail an example is, where its label only says that it is unwanted.

Collections are labelled spam or phishing by where they came from, and a third of a phishing collection may be plain
spam. So the kind is taken from what the text asks for: money by a story or a threat is fraud, credentials are phishing.
These are cues, not truth; the kind never decides whether a mail is held, only what it is called.
"""

from typing import Literal

from gatepost.textmodel.features import Features

Kind = Literal["ham", "spam", "phishing", "fraud", "unclear"]

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


def kind_of(label: str, message: Features) -> Kind:
    """The kind of an example with this label."""
    if label in WANTED:
        return "ham"
    if label in ("phishing", "fraud"):
        return "phishing" if label == "phishing" else "fraud"
    text = f" {' '.join(message.text)} {' '.join(word[2:] for word in message.rest)} "
    if _said(_FRAUD, text) >= ENOUGH:
        return "fraud"
    asks = _said(_PHISHING, text)
    if label == "phish":
        return "phishing" if asks else "unclear"
    return "phishing" if asks > ENOUGH else "spam"


def _said(cues: list[str], text: str) -> int:
    return sum(f" {cue} " in text for cue in cues)
