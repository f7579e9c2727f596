"""The checks of `text/spam_vocabulary`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds, find_strengths, letter, list_rows, open_letter
from tests.known_senders import SELDOM, know_member, know_sender

from gatepost.analysis.verdict import judge
from gatepost.checks.text.advertising import GTUBE, gtube, spam_vocabulary
from gatepost.policy.rules import shipped_policy

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"

# The words of advertising, by where the letters lead, each with its subject in the first line.
WARES = {
    AWAY: [
        (
            "Cheap pills\nViagra and Cialis from our online pharmacy. Cheap meds, no prescription needed, worldwide "
            "shipping!"
        ),
        (
            "Casino bonus\nOnline casino: 200 free spins, welcome bonus, no deposit required. Play now and win the "
            "jackpot!"
        ),
        "Freispiele\nWillkommensbonus im Casino: 150 Freispiele ohne Einzahlung, Jackpot, jetzt spielen!",
        (
            "Replica watches\nRolex replica watches, luxury watches that look exactly like the real ones. High quality "
            "replicas, order now."
        ),
        (
            "Low rates\nRefinance your mortgage, lowest rates, bad credit ok, you have been approved by our lenders. "
            "Apply now."
        ),
        (
            "Bespaar op uw energierekening\nTot 30% subsidie op woningisolatie! Bespaar direct op je energiekosten en "
            "doe de gratis woningscan."
        ),
        (
            "Slash your electric bill\nSlash your electric bill with Elon's latest invention, an energy-saving device "
            "for every plug."
        ),
        "Eén vrouw zoekt een man\nIk ben soms eenzaam en zoek een lieve man. Bekijk mijn profiel, zou jij mij daten?",
    ],
    "": [
        (
            "Fresh tools\nFresh SMTPs, RDPs, shells, cpanels and mailers. More than 200,000 accounts. The best black "
            "market."
        ),
    ],
}
# The same words elsewhere.
HONEST = {
    HOME: [
        # The supplier.
        "Uw energierekening\nUw energierekening van maart staat klaar. Uw energietarief verandert op 1 juli.",
        "Vacature\nOp zoek naar een nieuwe collega voor het magazijn, een perfecte match met ons team.",
        # A pharmacy's newsletter.
        "Opening hours\nOur pharmacy is open on Sunday. Flu shots are available; ask your doctor.",
    ],
    "": [
        "Electric bill\nThe electric bill of the club came, 240 for the quarter.",
        "SMTP trouble\nThe SMTP server refuses mail over RDP hosts, see the shell log.",
        "House\nWe need to talk about the mortgage before Friday.",
        "Saturday\nShall we go to the casino in town on Saturday?",
        "Arzt\nMein Arzt hat mir Tabletten verschrieben.",
    ],
    AWAY: [
        # People who talk about it.
        "[list] block size\nThe bitcoin mailing list discussed a mining pool and the block size again.",
    ],
}


@pytest.mark.parametrize(("link", "written"), list_rows(WARES))
def test_spam_vocabulary(link: str, written: str) -> None:
    assert find_kinds(spam_vocabulary, open_letter(written, link), 0.5) == ["text:spam-vocabulary"]


@pytest.mark.parametrize(("link", "written"), list_rows(HONEST))
def test_the_same_words_elsewhere(link: str, written: str) -> None:
    assert not find_kinds(spam_vocabulary, open_letter(written, link), 0.5)


def test_posts_of_a_known_list_talk_about_wares() -> None:
    text = "Viagra and Cialis from our online pharmacy. Cheap meds, no prescription needed, worldwide shipping!"
    (alone,) = spam_vocabulary(letter(text, "Cheap pills", link=AWAY))
    posted = letter(text, "Cheap pills", link=AWAY, fields="List-Post: <mailto:l@l.example>\n")
    assert find_strengths(spam_vocabulary, posted) == [alone.strength]
    (known,) = spam_vocabulary(know_member(posted))
    assert known.strength < alone.strength


def test_vocabulary_alone_never_holds() -> None:
    text = (
        "Viagra and Cialis from our online pharmacy. Cheap meds, no prescription needed, worldwide shipping! Order now"
    )
    found = [
        finding for finding in spam_vocabulary(letter(text, "Cheap pills")) if finding.kind == "text:spam-vocabulary"
    ]
    assert [finding.strength for finding in found] == [1.0]
    judgement = judge(found * 3, [], shipped_policy())
    assert (judgement.verdict, judgement.decision) == ("clean", "deliver")


UNION = (
    "Dear Ann, thank you for your application for an auto loan. Your loan application has been approved. The interest "
    "rate is 4.9 % APR, and your loan officer Ben Miller will call you. Rates for home loans are on our site."
)
PITCH = "Bad credit? Pre-approved in minutes! Lower your monthly payments, apply now. Guaranteed approval, low rates."


def test_a_credit_union_writes_about_loans() -> None:
    honest = sum(finding.strength for finding in spam_vocabulary(letter(UNION, "Your loan application", link=HOME)))
    (pitch,) = spam_vocabulary(letter(PITCH, "Cash loan", link=AWAY))
    assert honest <= 0.4
    assert pitch.strength >= 0.9, "what only advertising says counts in full"


def test_a_known_sender_may_write_about_its_ware() -> None:
    reading = letter(PITCH, "Cash loan", link=AWAY)
    (alone,) = spam_vocabulary(reading)
    (seldom,) = spam_vocabulary(know_sender(reading, SELDOM))
    (known,) = spam_vocabulary(know_sender(reading))
    assert seldom.strength == alone.strength
    assert known.strength < alone.strength / 2


def test_disclaimers_are_none_of_a_known_list() -> None:
    text = "This is not spam. You are receiving this email because you opted in. To be removed, reply."
    posted = letter(text, fields="List-Post: <mailto:l@l.example>\n")
    assert "text:spam-excuse" in find_kinds(spam_vocabulary, posted)
    assert "text:spam-excuse" not in find_kinds(spam_vocabulary, know_member(posted))


# The text has the GTUBE test string of spam filters.
@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (GTUBE, ["text:gtube"]),
        (f"A test:\n\n{GTUBE}\n\nBye", ["text:gtube"]),
        ("Send the GTUBE string to your filter, and it must be held.", []),
        (GTUBE[:-1], []),
        (GTUBE.lower(), []),
    ],
)
def test_gtube(text: str, kinds: list[str]) -> None:
    assert len(GTUBE) == 68
    assert find_kinds(gtube, letter(text)) == kinds
