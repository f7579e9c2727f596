"""The checks of `text/spam_vocabulary`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds, find_strengths, letter
from tests.known_senders import SELDOM, know_member, know_sender

from gatepost.analysis.verdict import judge
from gatepost.checks.text.advertising import GTUBE, gtube, spam_vocabulary
from gatepost.policy.rules import shipped_policy

# The words of advertising, in advertising and elsewhere.
AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Viagra and Cialis from our online pharmacy. Cheap meds, no prescription needed, worldwide shipping!",
            "Cheap pills",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            "Online casino: 200 free spins, welcome bonus, no deposit required. Play now and win the jackpot!",
            "Casino bonus",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            "Willkommensbonus im Casino: 150 Freispiele ohne Einzahlung, Jackpot, jetzt spielen!",
            "Freispiele",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            (
                "Rolex replica watches, luxury watches that look exactly like the real ones. High quality "
                "replicas, order now."
            ),
            "Replica watches",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            "Refinance your mortgage, lowest rates, bad credit ok, you have been approved by our lenders. Apply now.",
            "Low rates",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            "Tot 30% subsidie op woningisolatie! Bespaar direct op je energiekosten en doe de gratis woningscan.",
            "Bespaar op uw energierekening",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            "Slash your electric bill with Elon's latest invention, an energy-saving device for every plug.",
            "Slash your electric bill",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            "Fresh SMTPs, RDPs, shells, cpanels and mailers. More than 200,000 accounts. The best black market.",
            "Fresh tools",
            "",
            ["text:spam-vocabulary"],
        ),
        (
            "Ik ben soms eenzaam en zoek een lieve man. Bekijk mijn profiel, zou jij mij daten?",
            "Eén vrouw zoekt een man",
            AWAY,
            ["text:spam-vocabulary"],
        ),
        (
            "Uw energierekening van maart staat klaar. Uw energietarief verandert op 1 juli.",
            "Uw energierekening",
            HOME,
            [],
        ),  # the supplier
        ("The electric bill of the club came, 240 for the quarter.", "Electric bill", "", []),
        ("The SMTP server refuses mail over RDP hosts, see the shell log.", "SMTP trouble", "", []),
        ("Op zoek naar een nieuwe collega voor het magazijn, een perfecte match met ons team.", "Vacature", HOME, []),
        (
            "Our pharmacy is open on Sunday. Flu shots are available; ask your doctor.",
            "Opening hours",
            HOME,
            [],
        ),  # a pharmacy's newsletter
        (
            "The bitcoin mailing list discussed a mining pool and the block size again.",
            "[list] block size",
            AWAY,
            [],
        ),  # people who talk about it
        ("We need to talk about the mortgage before Friday.", "House", "", []),
        ("Shall we go to the casino in town on Saturday?", "Saturday", "", []),
        ("Mein Arzt hat mir Tabletten verschrieben.", "Arzt", "", []),
    ],
)
def test_spam_vocabulary(text: str, subject: str, link: str, kinds: list[str]) -> None:
    assert find_kinds(spam_vocabulary, letter(text, subject, link=link), 0.5) == kinds


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
