"""Words without a sentence, and lists that make sense."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.filter_evasion import check
from gatepost.findings import Reading
from gatepost.mail.reader import read

Letter = Callable[..., Reading]

SPOKEN = "This is the best of all the offers that we have for you.\n\n"
WORDS = (
    "lantern gravel marmot oblique tundra kettle burnish flannel turnip gazette hollow mitten quarry saddle tinder "
    "velvet walnut anchor bramble cinder drapery ember fathom gimlet hamper inkwell jigsaw kernel lattice mantle "
    "nettle orchard pewter quiver ramble sorrel thimble umber"
)
FINNISH = (
    "kiitos viestistäsi olemme vastaanottaneet tilauksesi ja lähetämme tuotteet huomenna ystävällisin terveisin "
    "asiakaspalvelu tilausnumero löytyy liitteestä voit seurata lähetystä verkkosivuillamme palvelemme arkisin "
    "kello yhdeksästä viiteen lisätietoja saat puhelimitse mikäli olet tyytymätön palautamme rahasi viikon kuluessa"
)
PROSE = (
    "we met at the fair in spring and you asked for the prices of the presses that we showed there so here they are "
    "with the discount that we spoke about and it holds until the end of the month if you order more than one of them"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SPOKEN + WORDS, True),
        (SPOKEN + WORDS.replace(" ", "\n"), True),
        (SPOKEN + "Yours, the team.\n" + WORDS + "\n", True),
        (SPOKEN + WORDS.replace(" ", ", "), False),  # a list
        (SPOKEN + WORDS.title(), False),  # names
        (SPOKEN + " ".join(WORDS.split()[:20]), False),  # too short to tell
        (SPOKEN + "spam " * 200, False),  # nonsense of another kind
        (WORDS, False),  # may be a language that we do not know
        (FINNISH, False),
        (PROSE, False),
        ("", False),
    ],
)
def test_word_salad(letter: Letter, text: str, found: bool) -> None:
    assert bool(list(check(letter(text)))) is found


def test_where_nobody_sees_it() -> None:
    page = f"<p>{SPOKEN}</p><div style='display:none'>{WORDS}</div><p>Yours, the team of the shop.</p>"
    raw = f"From: a@b.example\nContent-Type: text/html\n\n{page}\n"
    (finding,) = check(Reading(read(raw.encode())))
    assert finding.facts["place"] == "hidden text"


def test_an_endless_text_costs_no_more_than_its_end(letter: Letter) -> None:
    assert not list(check(letter("word " * 200_000)))
