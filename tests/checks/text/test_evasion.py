"""The checks of `text/evasion`: the tricks, and what looks like them."""

import pytest
from tests.checks.readings import find_kinds, find_strengths, letter
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.checks.reading import Reading
from gatepost.checks.text.advertising import filter_evasion, image_only, picture_first
from gatepost.mail.reader import read

AWAY = "https://elsewhere.example/x"


# Words that only people can read.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Buy v1agra and c1al1s here", "Offer", AWAY, ["text:disguised-words"]),
        ("Confirm your pa$$word", "Access", AWAY, ["text:disguised-words"]),
        ("Best C-A-S-I-N-O and V I A G R A offers", "Offer", AWAY, ["text:disguised-words"]),
        ("Your Pаypаl аccоunt is lосkеd, vеrify yоur pаsswоrd nоw", "Nоtiсe", AWAY, ["text:mixed-script-words"]),
        ("My password is h4rd2guess and the part is x86-64.", "Access", "", []),
        ("Встреча с компанией Gatepost в четверг, привет.", "Встреча", "", []),
        ("The angle α and the length β are given; 5µm is enough.", "Physics", "", []),
        ("A B C D E F G are letters.", "School", "", []),
    ],
)
def test_salting(text: str, subject: str, link: str, kinds: list[str]) -> None:
    assert find_kinds(filter_evasion, letter(text, subject, link=link), 0.5) == kinds


# Words without a sentence, and lists that make sense.
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
def test_word_salad(text: str, found: bool) -> None:
    assert bool(list(filter_evasion(letter(text)))) is found


def test_where_nobody_sees_it() -> None:
    page = f"<p>{SPOKEN}</p><div style='display:none'>{WORDS}</div><p>Yours, the team of the shop.</p>"
    raw = f"From: a@b.example\nContent-Type: text/html\n\n{page}\n"
    (finding,) = filter_evasion(Reading(read(raw.encode())))
    assert finding.facts["place"] == "hidden text"


def test_an_endless_text_costs_no_more_than_its_end() -> None:
    assert not list(filter_evasion(letter("word " * 200_000)))


# Pictures and bare links.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Look", "Look", AWAY, ["text:bare-link"]),
        ("", "Deal", AWAY, ["text:bare-link"]),
        (
            (
                "Here are the minutes of the meeting on Tuesday. We agreed on the budget for the coming year and "
                "on the dates of the next three meetings, which are listed on the page below. Please write to me "
                "if anything is missing or wrong, so that it can be corrected before Friday."
            ),
            "Minutes",
            AWAY,
            [],
        ),
        ("See you on Friday.", "Dinner", "", []),
    ],
)
def test_image_only(text: str, subject: str, link: str, kinds: list[str]) -> None:
    assert find_kinds(image_only, letter(text, subject, link=link), 0.5) == kinds


def test_a_picture_that_links() -> None:
    (found,) = image_only(letter("", "Look", link=AWAY, picture=True))
    assert (found.kind, found.strength) == ("text:image-only", 1.0)


# What a page says of the sizes of its pictures.
@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        (["width=600 height=400"], True),
        (["height='200'"], True),
        (["style='width: 600px; height:90px'"], True),
        (["width='100%' height=60"], False),
        ([""], True),
        (["width=140"], False),
        (["width='140' height='140'"], False),
        (["height=48"], False),
        (['style="display:block;width:157px;height:40px"'], False),
        (["width=1 height=1"], False),
        (["width=44", "width=1 height=1"], False),
        (["width=44", "width=640"], True),
        # Several small ones can be the letters of a message.
        (["width=44"] * 5, True),
    ],
)
def test_a_logo_is_no_picture_of_a_message(sizes: list[str], found: bool) -> None:
    shown = "".join(f"<img src='https://pictures.example/{number}.png' {size}>" for number, size in enumerate(sizes))
    page = f"<a href={AWAY}>{shown}</a><p>You can confirm your order of Monday here.</p>"
    reading = Reading(read(f"From: a@b.example\nContent-Type: text/html\n\n{page}\n".encode()))
    assert (find_kinds(image_only, reading) == ["text:image-only"]) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Your order has been shipped. " * 12, False),
        ("ご注文の商品を発送いたしました。お届けまで今しばらくお待ちください。" * 4, False),
        ("您的订单已经发货，请耐心等待。感谢您在本店购物。如有问题请与我们联系。" * 4, False),
        ("주문하신 상품이 발송되었습니다. 조금만 기다려 주세요. " * 6, False),
        ("คำสั่งซื้อของคุณถูกจัดส่งแล้ว โปรดรอสักครู่ " * 4, False),
        ("您的订单已经发货。", True),
        ("Shipped.", True),
    ],
)
def test_letters_say_as_much_as_their_script_does(text: str, found: bool) -> None:
    reading = letter(text, "Order", link=AWAY, picture=True)
    assert ("text:image-only" in find_kinds(image_only, reading)) is found


UNSUBSCRIBE, LIST = "List-Unsubscribe: <https://x.example/u>\n", "List-Post: <mailto:l@lists.example>\n"


def test_a_newsletter_of_pictures_counts_less_where_its_sender_is_known() -> None:
    reading = letter("", "News", link=AWAY, picture=True, fields=UNSUBSCRIBE)
    assert find_strengths(image_only, reading) == [1.0]
    assert find_strengths(image_only, know_sender(reading, SELDOM)) == [1.0]
    assert find_strengths(image_only, know_sender(reading)) == [0.4]


def test_posts_of_known_lists_and_answers_of_known_people_may_be_one_link() -> None:
    posted, answer = (letter("Look", "Look", link=AWAY, fields=each) for each in (LIST, "In-Reply-To: <1@x>\n"))
    for claimed in (posted, answer, know_list(posted, SELDOM), know_sender(answer, aligned=False)):
        assert find_kinds(image_only, claimed) == ["text:bare-link"]
    assert not list(image_only(know_member(posted)))
    assert not list(image_only(know_sender(answer)))


def test_a_picture_that_links_nowhere_is_a_picture() -> None:
    assert list(image_only(letter("", "The garden", picture=True))) == []


# Drawn pictures before the text, and pictures of honest letters.
PICTURE = '<img src="cid:p1">'
PROSE = "<p>He walked along the harbour wall and thought of the winter that had gone.</p>"


def drawn(html: str, kind: str, fields: str) -> Reading:
    raw = f"From: x@harbour.example\n{fields}Content-Type: multipart/related; boundary=b\n\n"
    raw += f"--b\nContent-Type: text/html\n\n{html}\n--b\nContent-Type: {kind}\nContent-ID: <p1>\n\nGIF89a\n--b--\n"
    return Reading(read(raw.encode()))


@pytest.mark.parametrize(
    ("html", "kind", "fields", "found"),
    [
        (f"<head><title>p</title></head>{PICTURE}{PROSE}", "image/gif", "", True),
        (f"<style>p {{ color: red; margin: 0 auto; padding: 12px }}</style><p>Hi</p>{PICTURE}", "image/gif", "", True),
        (f"{PROSE}{PICTURE}", "image/gif", "", False),  # the logo below a letter
        (f"{PICTURE}{PROSE}", "image/jpeg", "", False),  # a photograph
        (f"{PICTURE}{PROSE}", "image/png", "", False),  # a screenshot
        (f"{PICTURE}{PROSE}", "image/gif", "In-Reply-To: <1@x>\n", True),
        (f"{PICTURE}{PROSE}", "image/gif", LIST, True),
        (f"{PICTURE}{PROSE}", "image/gif", "DKIM-Signature: v=1; d=harbour.example\n", True),
        (f'{PICTURE}{PROSE}<a href="https://shop.example/">Shop</a>', "image/gif", "", False),
        (PROSE, "image/gif", "", False),
        (f"{'<p>' * 9000}{PICTURE}", "image/gif", "", False),  # beyond what is looked at
    ],
)
def test_picture_first(html: str, kind: str, fields: str, found: bool) -> None:
    assert find_kinds(picture_first, drawn(html, kind, fields)) == ["text:picture-first"] * found


def test_known_people_and_lists_pass_cartoons_on() -> None:
    reading = drawn(f"{PICTURE}{PROSE}", "image/gif", LIST)
    assert not list(picture_first(know_sender(reading)))
    assert not list(picture_first(know_member(reading)))
    assert list(picture_first(know_sender(reading, aligned=False)))
