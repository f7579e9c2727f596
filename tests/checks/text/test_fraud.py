"""The checks of `text/fraud`: the tricks, and what looks like them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.checks.readings import find_kinds, find_strengths, letter, list_rows, open_letter
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.checks.reading import Reading
from gatepost.checks.text.fraud import (
    MAX_WALLETS_TRIED,
    advance_fee,
    call_back,
    extortion,
    find_wallets,
    payment_requests,
    payroll_change,
    sudden_sum,
)
from gatepost.mail.reader import read

HOME = "https://www.sender.example/x"


# From which strength on a finding counts here.
LEAST = {advance_fee: 0.3, extortion: 0.5, call_back: 0.5, payment_requests: 0.5}
# Fortunes for a helper, demands, numbers to call, gift cards as money and payments led astray, by what is found.
FRAUD = {
    "text:advance-fee": [
        (
            "Business proposal\nDear friend, I am the barrister of a late client who left 12 million dollars. You will "
            "be the beneficiary as next of kin. I need your assistance to transfer the fund. Send your full name and "
            "bank account. Strictly 100% risk free."
        ),
        (
            "From Mrs Ada\nGreetings to you. My late husband deposited millions US dollars; I am a widow dying of "
            "cancer and want to donate to charity. Reply with your telephone number. God bless."
        ),
    ],
    "text:wallet-address text:extortion": [
        (
            "I know your password\nI have hacked your device and recorded you through your webcam on adult sites. Send "
            "$900 to my bitcoin wallet within 48 hours or I share the video with all your contacts: "
            "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"
        ),
        (
            "Ihr Konto\nIch habe Ihr Gerät gehackt und Sie mit der Webcam gefilmt. Porno und Masturbation. Überweisen "
            "Sie an diese Bitcoin-Adresse, sonst an alle Ihre Kontakte: bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
        ),
    ],
    "text:wallet-address": [
        "Donations\nYou can donate to the wallet of our project: 1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
    ],
    "text:call-back": [
        (
            "Invoice\nYour Norton subscription has been renewed. $399.99 will be debited from your account. If you did "
            "not authorize this, call us at +1 (888) 555-0100 to cancel the order."
        ),
        (
            "Renewal\nYour antivirus plan is renewed; renewal amount $349. To cancel this subscription call our toll "
            "free helpline 888-555-0100. Invoice number 77."
        ),
        (
            "Transaction 5463\nYour PayPal subscription is scheduled for automatic renewal. Renewal amount: 445.15. "
            "Customer Support: +1(888)5550100"
        ),
        (
            "Was this you?\nThere was a recent login to your account. If this wasn't you, please call us immediately: "
            "+1 – (888) - (555) - (0100)"
        ),
    ],
    "text:gift-cards": [
        (
            "Favor\nI need you to get me some gift cards from the nearest store. Scratch the back and send me the "
            "pictures."
        ),
        (
            "Bitte\nBitte besorgen Sie Gutscheinkarten. Kaufen Sie Geschenkkarten und senden: Codes senden Sie mir. "
            "Rubbeln Sie die Karten."
        ),
        "Hi\nPurchase some gift cards and text me the codes.",
    ],
    "text:errand": [
        "Lunch\nAre you free? Send me the numbers for lunch by Thursday. Sent from my iPhone",
        (
            "Quick request\nAre you available? I need you to handle a task. I am in a meeting and can't talk, keep "
            "this confidential."
        ),
    ],
    "text:errand text:gift-cards": [
        "Hi\nAre you free? I need you to get some Steam cards.",
    ],
    "text:payment-change": [
        (
            "Invoice 4711\nPlease note that our bank details have changed. Kindly update your records; all future "
            "payments should go to the new bank account below. IBAN: DE02"
        ),
        (
            "Rechnung\nUnsere Bankverbindung hat sich geändert. Künftige Zahlungen bitte nur auf die neue "
            "Kontoverbindung, dringend."
        ),
        (
            "Facture\nNos coordonnées bancaires ont changé. Merci de faire le virement urgent sur le nouveau compte "
            "bancaire."
        ),
    ],
}
# Charities, honest invoices, gifts and talk about money, by where they lead.
HONEST = {
    HOME: [
        "Charity run\nPlease donate to our charity run against cancer. Every donation helps.",
        "Market news\nBitcoin fell by five percent, the bitcoin wallet software was updated.",
        "Sign-in\nA new sign-in to your account from Berlin. If this wasn't you, change the password.",
        "Order 4711\nThank you for your order 4711. See its state in our shop. Questions? 0800 555 0100",
        "Gift cards\nGift cards make a great present. Order now at our shop.",
        "Order 12\nThank you for your gift card order. The codes are in your account.",
        (
            "Your receipt\nOrder 4711-22, total 50.00 EUR. One gift card worth $50 was sent to Carl. Card numbers and "
            "card codes go to the recipient. Buy gift cards for your team at any time; denomination of each card: $50."
        ),
    ],
    "": [
        "Aunt Mary\nThe barrister will call about the inheritance of aunt Mary next week.",
        "Hello\nWe met in Ghana last year; I hope you are well.",
        "Webcam\nThe new webcam works; the old camera had a virus in its software.",
        "Dinner\nCall me on 030 555 0100 when you are there.",
        "Minutes\nThe minutes are attached. My number is 020 7946 0100.",
        "Lunch\nSend me the pictures of the party, and text me the numbers for lunch.",
        "Invoice 4712\nPlease find the invoice for October attached. Payment is due in 30 days. IBAN: DE02",
        "Monday\nAre you in the office on Monday?",
        "Later\nI will be in a meeting until three.",
        "Rechnung\nDie Rechnung ist bezahlt, danke.",
    ],
}


@pytest.mark.parametrize(("kinds", "written"), list_rows(FRAUD))
def test_fraud(kinds: str, written: str) -> None:
    reading = open_letter(written)
    assert [kind for check, least in LEAST.items() for kind in find_kinds(check, reading, least)] == kinds.split()


@pytest.mark.parametrize(("link", "written"), list_rows(HONEST))
def test_honest_letters_about_money(link: str, written: str) -> None:
    reading = open_letter(written, link)
    assert not [kind for check, least in LEAST.items() for kind in find_kinds(check, reading, least)]


# The same letter as the first post of a thread on a known list counts less, and answers that quote it do not count.
FORTUNE = (
    "Greetings to you. My late husband deposited millions US dollars; I am a widow dying of cancer and want to "
    "donate to charity. Next of kin, beneficiary, strictly confidential business proposal, transfer of funds. "
    "Reply with your telephone number. God bless."
)
LIST = "List-Post: <mailto:l@l.example>\n"


@pytest.mark.parametrize(
    ("fields", "found"), [("", True), ("In-Reply-To: <1@x>\n", False), ("References: <1@x>\n", False)]
)
def test_advance_fee_on_a_list(fields: str, found: bool) -> None:
    alone = find_strengths(advance_fee, letter(FORTUNE))
    assert alone
    posted = letter(FORTUNE, fields=LIST + fields)
    assert find_strengths(advance_fee, posted) == alone, "anybody can name a list"
    known = find_strengths(advance_fee, know_member(posted))
    assert known == [round(0.6 * each, 2) for each in alone if found]


def test_further_sites_lower_a_fortune_of_a_known_sender_only() -> None:
    few = "My late husband deposited millions US dollars; I am a widow dying of cancer. God bless. Next of kin."
    sites = " ".join(f"https://s{number}.example/" for number in range(4))
    alone = find_strengths(advance_fee, letter(few))
    linked = letter(f"{few} {sites}")
    assert find_strengths(advance_fee, linked) == alone
    (known,) = advance_fee(know_sender(linked))
    assert known.strength < alone[0]


@pytest.mark.parametrize(
    "more",
    [
        {"fields": LIST},
        {"fields": "In-Reply-To: <1@x>\nList-Unsubscribe: <https://sender.example/u>\n"},
        {"link": HOME},
        {"text": " ".join(f"https://s{number}.example/" for number in range(9))},
        {"text": "We met in the garden and spoke of the harvest, which was good this year. " * 200},
    ],
)
def test_nothing_excuses_a_demand(more: dict[str, Any]) -> None:
    text = (
        "I have hacked your device and recorded you through your webcam on adult sites. Send $900 to my bitcoin wallet "
        "within 48 hours or I share the video with all your contacts."
    )
    (alone,) = extortion(letter(text, "I know your password"))
    options = {key: more[key] for key in more if key != "text"}
    claimed = letter(f"{text}\n{more.get('text', '')}", "I know your password", **options)
    for reading in (claimed, know_sender(claimed), know_list(claimed)):
        assert find_strengths(extortion, reading) == [alone.strength]


# Wallet addresses, and long words that are none.
BASE58 = "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"
BECH32 = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
TAPROOT = "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr"
ETHEREUM = "0x52908400098527886E0F7030069857D2E4169EE7"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"Pay to {BASE58}.", [BASE58]),
        (f"({BECH32})", [BECH32]),
        (BECH32.upper(), [BECH32.upper()]),
        (TAPROOT, [TAPROOT]),
        (ETHEREUM, [ETHEREUM]),
        ("4" + "B" * 46 + "9" * 48, ["4" + "B" * 46 + "9" * 48]),
        (BASE58[:-1] + "3", []),  # the checksum is wrong
        (BECH32[:-1] + "p", []),
        (f"x{BASE58}", []),  # inside a longer word
        ("3aa2b0ba2b1d4f8e9c0d1e2f3a4b5c6d", []),  # a hash
        ("1234567890123456789012345678901234", []),
        ("", []),
    ],
)
def test_wallets(text: str, found: list[str]) -> None:
    assert list(find_wallets(text)) == found


def test_the_work_is_bounded() -> None:
    assert len(list(find_wallets(f"{ETHEREUM} " * 1000))) == MAX_WALLETS_TRIED


@given(st.text(alphabet="bc10xBCLMT348qpzry9aA ", max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert all(wallet in text for wallet in find_wallets(text))


CHARGED = (
    "Your Sender subscription has been renewed; renewal amount $349. To cancel this subscription call our toll free "
    "helpline 888-555-0100. Invoice number 77."
)


def test_a_link_or_the_name_of_the_seller_excuses_a_known_sender_only() -> None:
    (alone,) = call_back(letter(CHARGED, sender="x@other.example"))
    claimed = letter(CHARGED, link=HOME)
    for reading in (claimed, know_sender(claimed, SELDOM), know_sender(claimed, aligned=False)):
        assert find_strengths(call_back, reading) == [alone.strength]
    assert not list(call_back(know_sender(claimed)))
    posted = letter(CHARGED, fields=LIST)
    assert find_strengths(call_back, posted) == [alone.strength]
    assert not list(call_back(know_member(posted)))


def test_a_receipt_with_many_links_is_hardly_a_call_back_scam() -> None:
    (alone,) = call_back(letter(CHARGED, sender="x@other.example"))
    links = " ".join(f"https://shop.example/{number}" for number in range(10))
    assert find_strengths(call_back, letter(f"{CHARGED} {links}")) in ([], [alone.strength / 2])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            (
                "Estimate invoice: your Norton subscription has been renewed. A total payment of USD $398.66 was "
                "charged. Contact our billing department at 1 814-555-0100 immediately."
            ),
            True,
        ),
        ("The invoice for the hall was paid. Questions to the treasurer, 030 555 0100.", False),
        ("We meet to talk about the order number 77. Call me on 030 555 0100 if you are late.", False),
    ],
)
def test_call_back_in_an_invitation(text: str, found: bool) -> None:
    """A calendar writes links to itself into every invitation."""
    raw = (
        "From: Ann <ann@sender.example>\nTo: bob@house.example\nSubject: Invitation\n"
        'Content-Type: multipart/alternative; boundary="x"\n\n--x\nContent-Type: text/plain; charset=utf-8\n\n'
        f"{text}\nhttps://calendar.google.com/calendar/event?eid=1\nhttps://www.google.com/x\n"
        "--x\nContent-Type: text/calendar; charset=utf-8\n\nBEGIN:VCALENDAR\nEND:VCALENDAR\n--x--\n"
    )
    assert find_kinds(call_back, Reading(read(raw.encode()))) == ["text:call-back"] * found


def test_a_known_sender_may_have_its_number_on_an_invoice() -> None:
    text = (
        "Your subscription has been renewed, 399.00 USD has been charged to your card. If you did not place this "
        "order, call us at +1 888 555 0100, or cancel by phone: call our support. Invoice number 4711, order id 22. "
        "Thank you for your purchase. The sender team"
    )
    invoice = letter(text, "Invoice 4711")
    (alone,) = call_back(invoice)
    assert alone.strength == 1.0
    (seldom,) = call_back(know_sender(invoice, SELDOM))
    assert seldom.strength == 1.0
    (known,) = call_back(know_sender(invoice))
    assert known.strength <= 0.6, "however much there is of it"
    assert not list(call_back(know_sender(letter(text, "Invoice 4711", link=HOME))))


@pytest.mark.parametrize("fields", ["", LIST, "In-Reply-To: <1@x>\n"])
def test_nothing_excuses_gift_cards(fields: str) -> None:
    text = "I need you to get me some gift cards from the nearest store. Scratch the back and send me the pictures."
    sites = " ".join(f"https://s{number}.example/" for number in range(4))
    (alone,) = payment_requests(letter(text))
    claimed = letter(f"{text} {sites}", fields=fields)
    for reading in (claimed, know_sender(claimed), know_list(claimed)):
        assert [(finding.kind, finding.strength) for finding in payment_requests(reading)] == [
            ("text:gift-cards", alone.strength)
        ]


def test_posts_of_a_known_list_may_speak_of_bank_details() -> None:
    text = "Our bank details have changed. Kindly update your records; all future payments to the new bank account."
    posted = letter(text, "Invoice", fields=LIST)
    assert find_kinds(payment_requests, posted) == ["text:payment-change"]
    assert not list(payment_requests(know_member(posted)))


# Salaries that go elsewhere, and talk about salaries.
FREE, OFFICE = "Ben Miller <ben.miller77@gmail.com>", "Ben Miller <ben@office.example>"


@pytest.mark.parametrize(
    ("text", "sender", "strength"),
    [
        ("I have changed my bank. Please update my direct deposit before the next payroll.", FREE, 1.0),
        ("Ich möchte mein Gehaltskonto ändern, bitte vor der nächsten Gehaltszahlung.", FREE, 0.7),
        ("Je voudrais changer mon RIB avant la prochaine paie.", FREE, 1.0),
        ("Quiero cambiar mi cuenta de nómina antes de la próxima quincena.", FREE, 1.0),
        ("Vorrei aggiornare il mio IBAN prima del prossimo stipendio.", FREE, 1.0),
        ("Gostaria de alterar minha conta bancária antes do próximo pagamento.", FREE, 1.0),
        ("Ik wil mijn rekeningnummer wijzigen voor de volgende salarisbetaling.", FREE, 1.0),
        ("Zmieniłem bank, proszę o zmianę przed następną wypłatą.", FREE, 1.0),
        ("Прошу изменить мои реквизиты для зарплаты до следующей выплаты.", FREE, 1.0),
        ("Maaş hesabımı değiştirmek istiyorum, bir sonraki maaş ödemesinden önce.", FREE, 1.0),
        ("请更改我的工资卡，下个月发工资之前。", FREE, 1.0),
        ("給与振込先の変更をお願いします。", FREE, 0.7),
        ("給与振込先の変更をお願いします。次回の給与から新しい口座へお願いします。", FREE, 1.0),
        ("I have changed my bank. Please update my direct deposit before the next payroll.", OFFICE, 0.9),
        ("Please update my direct deposit.", OFFICE, None),
        ("The payroll office is closed on Friday.", FREE, None),
        ("I changed banks last year and like the new one.", FREE, 0.7),
        ("See you on Sunday, and bring the keys.", FREE, None),
    ],
)
def test_payroll_change(text: str, sender: str, strength: float | None) -> None:
    found = find_strengths(payroll_change, letter(text, "Hello", sender=sender))
    assert found == ([] if strength is None else [strength])


@pytest.mark.parametrize(
    "more", [{"link": HOME}, {"fields": LIST}, {"fields": "In-Reply-To: <1@x>\n"}, {"text": " word" * 400}]
)
def test_nothing_excuses_a_salary_that_goes_elsewhere(more: dict[str, Any]) -> None:
    text = "I have changed my bank. Please update my direct deposit before the next payroll."
    claimed = letter(text + more.get("text", ""), sender=FREE, **{key: more[key] for key in more if key != "text"})
    for reading in (claimed, know_sender(claimed), know_list(claimed)):
        assert find_strengths(payroll_change, reading) == [1.0]


# Money that came in, and money among friends.
@pytest.mark.parametrize(
    ("text", "subject", "sender", "found"),
    [
        ("You are now rich +28,282$ on your balance! She smiled.", "Ann", FREE, True),
        ("Withdraw your 25.371$ today.", "Your_transfer_0.7495_BTC", FREE, True),
        ("Get your 1 bitcoin jackpot now", "Now", FREE, True),
        ("You are now rich +28,282$ on your balance!", "Ann", OFFICE, False),
        ("The house was 480 $ for all of us, see the bill.", "Weekend", FREE, False),
        ("I will transfer the money on Monday.", "Money", FREE, False),
        ("You are now rich +28,282$ on your balance!" + " and so on" * 40, "Ann", FREE, False),
    ],
)
def test_sudden_sum(text: str, subject: str, sender: str, found: bool) -> None:
    assert bool(list(sudden_sum(letter(text, subject, link=HOME, sender=sender)))) == found
    assert list(sudden_sum(letter(text, subject, sender=sender))) == []  # no way to follow it


def test_sums_among_people_who_are_known() -> None:
    text = "You are now rich +28,282$ on your balance! She smiled."
    posted, answer = (letter(text, link=HOME, sender=FREE, fields=each) for each in (LIST, "In-Reply-To: <1@x>\n"))
    for claimed in (posted, answer, know_list(posted, SELDOM), know_sender(answer, SELDOM)):
        assert len(list(sudden_sum(claimed))) == 1
    assert not list(sudden_sum(know_member(posted)))
    assert not list(sudden_sum(know_sender(answer)))
