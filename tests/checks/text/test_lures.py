"""The checks of `text/lures`: the tricks, and what looks like them."""

import msgspec
import pytest
from tests.checks.readings import find_kinds, find_strengths, letter, list_rows, open_letter
from tests.known_senders import SELDOM, know_member, know_sender

from gatepost.auth.results import Authentication, Dmarc
from gatepost.checks.reading import Check, Reading
from gatepost.checks.text.lures import brand_mention, credential_lure, lures, planted_link, planted_name, urgency
from gatepost.findings.strengths import calculations
from gatepost.mail.message import Field, Headers, Message
from gatepost.names import Address

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"
LIST, UNSUBSCRIBE = "List-Post: <mailto:l@lists.example>\n", "List-Unsubscribe: <https://sender.example/u>\n"

# Lures by their kind, each with its subject in the first line; they lead elsewhere.
LURES = {
    "text:document-lure": [
        (
            "Secure document\nYou have received a secure document. A new document has been shared with you. View "
            "document below: click the button."
        ),
        "New voice message\nYou have a new voicemail. Caller ID: unknown. Call duration 00:32. Play voicemail here.",
        "Statement for viewing\nYour statement is available for viewing. Review your statement online: View document.",
    ],
    "text:mailbox-lure": [
        (
            "Mailbox full\nYour mailbox quota has been exceeded. 7 pending messages are held. Upgrade your mailbox to "
            "release messages."
        ),
        (
            "Postfach\nIhr Postfach ist voll. Zurückgehaltene Nachrichten warten. Ihr Passwort läuft heute ab, "
            "umgehend handeln."
        ),
        "Buzón\nSu buzón está lleno. Mensajes pendientes retenidos. Verifique su cuenta urgente.",
    ],
    "text:crypto-lure": [
        "Genesis airdrop\nYou can claim your tokens now. Eligible wallets only.",
        "Notice\nYour wallet has been suspended. Validate your wallet.",
        "Balance\nWithdraw your remaining funds. Bitcoin mining platform.",
        "Wallet\nIhre Krypto-Wallet gesperrt. Airdrop einlösen, Tokens sichern.",
        "Внимание\nПолучите ваши токены. Кошелек заблокирован.",
        "Aviso\nResgate seus tokens. Sua carteira digital suspensa.",
        "Season 2 rewards\nYou are eligible for the airdrop. Connect your wallet to claim your tokens before Friday.",
        "Refund\nYou have a refund of 272 USDT.ERC20 available. Click here to claim your refund in USDT.",
        "Verify\nThe verification process for your wallet is awaiting completion. Proceed to wallet verification.",
    ],
    "text:authority-lure": [
        "IRS statement\nYour tax statement is now available. Federal court notice.",
        "Intimação oficial\nIntimação judicial: processo trabalhista.",
        "Behörde\nIhr Bußgeldbescheid liegt vor. Offene Forderung begleichen.",
        "Amende routière\nVotre amende impayée: avis d'infraction.",
        "Multa de tráfico\nMulta de tráfico pendiente. Notificación judicial.",
        "Штраф\nНеоплаченный штраф. Судебный приказ вынесен.",
        "税金の重要なお知らせ\n国税電子申告: 税金の未納があります。国税庁",
    ],
    "text:parcel-lure": [
        (
            "Delivery problem\nYour package is on hold. Pay the customs fee of 1.99 within 24 hours to reschedule your "
            "delivery."
        ),
        (
            "Ihr Paket\nIhr Paket konnte nicht zugestellt werden. Bitte die Zollgebühr zahlen und die Lieferadresse "
            "bestätigen."
        ),
        "Colis\nVotre colis est en attente. Réglez les frais de livraison et confirmer votre livraison.",
        "Correios\nSua encomenda foi retida. Pague a taxa de importação e liberar sua encomenda.",
    ],
    "text:prize-lure": [
        "You have won\nCongratulations! You have been selected. Answer a few questions and claim your reward today.",
        "Gewinnspiel\nHerzlichen Glückwunsch! Sie haben gewonnen. Jetzt teilnehmen und Gutschein sichern.",
        "Gagnant\nFélicitations, vous avez gagné un cadeau. Réclamez votre cadeau.",
        "Prêmio\nParabéns! Você ganhou um prêmio. Resgate seu prêmio agora.",
    ],
    "text:refund-lure": [
        "Tax refund notification\nYou are eligible for a tax refund. Claim your refund now, click here.",
        "Steuererstattung\nHiermit erhalten Sie Ihre Steuererstattung vom Finanzamt. Klicken Sie hier, dringend.",
    ],
    "text:salary-lure": [
        "HR Department\nYour salary adjustment and the revised employee handbook are ready. View document now.",
        "Gehaltserhöhung\nIhre Gehaltsanpassung der Personalabteilung: Dokument anzeigen. Klicken Sie hier.",
    ],
    "text:credential-lure": [
        "Account limited\nYour account has been limited. Please verify your account within 24 hours.",
        "Konto gesperrt\nIhr Konto wurde vorübergehend gesperrt. Bestätigen Sie Ihre Daten innerhalb von 24 Stunden.",
        "Urgent\nVotre compte a été suspendu. Vérifiez votre compte sous 24 heures, cliquez ici.",
        "Aviso\nSu cuenta ha sido suspendida. Verifique su cuenta en 24 horas.",
        "Aviso\nSua conta foi bloqueada. Atualize seus dados imediatamente, clique aqui.",
        "Avviso\nIl tuo conto è stato sospeso. Verifica il tuo account entro 24 ore.",
        "Actie vereist\nUw account is tijdelijk geblokkeerd. Bevestig uw gegevens binnen 24 uur.",
        "Pilne\nKonto zostało zablokowane. Zweryfikuj swoje konto w ciągu 24 godzin.",
        "Срочно\nВаш аккаунт был заблокирован. Подтвердите ваш аккаунт в течение 24 часов.",
        "Uyarı\nHesabınız askıya alındı. Hesabınızı doğrulayın, 24 saat içinde.",
        "通知\n您的账户已被冻结。请点击这里验证您的账户。",
        "重要なお知らせ\nアカウントが停止されました。24時間以内にアカウントの確認をお願いします。",
    ],
}


@pytest.mark.parametrize(("kind", "written"), list_rows(LURES))
def test_lures(kind: str, written: str) -> None:
    check = credential_lure if kind == "text:credential-lure" else lures
    assert find_kinds(check, open_letter(written, AWAY), 0.5) == [kind]


# Letters that only sound like lures, by where they lead.
HONEST = {
    AWAY: [
        "Minutes\nI put the minutes on the share, have a look.",
        "Walk\nThe mailbox at the corner was painted red.",
        "Wallet\nI lost my wallet on the train, have you seen it?",
        "News\nThe airdrop of blankets reached the village on Monday.",
        "Router\nA firmware update for the router is out, see the page of the maker.",
        "Walk\nThe court next to our office was painted.",
        "Re: car\nI paid the parking fine yesterday.",
        "News\nThe Belastingdienst moved, here is an article about it.",
        "Colis\nMerci pour le colis, il est arrivé hier.",
        "Release 2.0\nCongratulations to Nathan for the release, notes are here.",
        "Workshop\nThe prize for the best paper went to Ann.",
        "Taxes\nThe tax return is due in July; talk to your accountant.",
        # Through a mailing service.
        "Reset your password\nYou asked to reset your password. If it was you, choose a new one here.",
        "Rechnung\nKonto und Rechnung liegen bei.",
        "A book\nThe account of the battle was limited to what he saw.",
        "Встреча\nПодтвердите участие во встрече в четверг.",  # confirms a meeting
        "会议\n会议时间已确认，请准时参加。",
        "会議資料\n明日の会議の資料を添付します。",
        "Seminar\nPlease confirm your attendance by Friday.",
        "Dîner\nMerci de confirmer votre présence au dîner.",
        "Lost and found\nMy wallet was in the blue jacket.",
        "Closing\nThe general ledger was closed for March.",
        "News\nThe minister's statement is here.",
    ],
    HOME: [
        "Ann shared budget.xlsx\nAnn shared the file with you.",
        "Storage\nYour mailbox is at 80 percent; see the settings.",
        # A carrier's own notice.
        "Delivery tomorrow\nYour package arrives tomorrow between 2 and 4. Track your package.",
        "Order 4711\nYour order has been shipped.",
        "Your points\nYour points: 120. Redeem them in our shop.",
        "Refund\nYour refund for order 4711 was sent to your card.",
        "Payslip\nYour payslip is ready in the staff portal.",
        # A real password reset.
        "Reset your password\nYou asked to reset your password. If it was you, choose a new one here.",
        # A bank's warning.
        (
            "How to spot phishing\nBeware of phishing emails: we will never ask you to verify your account by email. "
            "Report phishing to us."
        ),
        "Release 4.2\nConnect your wallet in the settings of our site.",
        "Your statement\nYour statement is available in your account.",
    ],
    "": [
        "Re: plans\nMy inbox is full, I will answer next week.",
        "Paket\nDas Paket kam gestern an, vielen Dank!",
        "Your news\nCongratulations on your new job! See you on Friday.",
        "Payroll\nThe payroll run is on Thursday.",
        "Limited\nYour account has been limited. Please verify your account.",  # nothing to follow
    ],
}


@pytest.mark.parametrize(("link", "written"), list_rows(HONEST))
def test_what_only_sounds_like_a_lure(link: str, written: str) -> None:
    assert not find_kinds(lures, open_letter(written, link), 0.5)
    assert not find_kinds(credential_lure, open_letter(written, link), 0.5)


# Messages in the place of a name.
@pytest.mark.parametrize(
    ("text", "fields", "found"),
    [
        ("Hello ✅ +$1,989 ➡️ https://elsewhere.example/x\nThank you for joining.", "", True),
        ("Username: www.elsewhere.example - 146 821 USD\nTo set your password visit our site.", "", True),
        ("Hello ✅ +$1,989 ➡️ https://www.sender.example/x\nThank you for joining.", "", False),
        ("Hello ✅ +$1,989 ➡️ https://elsewhere.example/x\n", "In-Reply-To: <1@x>\n", True),
        ("Hello ✅ +$1,989 ➡️ https://elsewhere.example/x\n", LIST, True),
        ("Hello Ann, see https://elsewhere.example/x for the minutes.", "", False),
        ("Hello Ann, the ticket costs $1,200 at https://elsewhere.example/x as we said.", "", False),
        ("Username: ann\nhttps://elsewhere.example/x", "", False),
        ("Hi ✅ +$4,811 ➡️ ok.me/rCQE1, one last step to confirm your account!", "", True),
        ("Hi ✅ +$4,811 ➡️ sender.example/rCQE1, one last step to confirm your account!", "", False),
        ("Hi Ann, $4,811 is the price in the list at ok.me/rCQE1.", "", False),
    ],
)
def test_planted_link(text: str, fields: str, found: bool) -> None:
    assert find_kinds(planted_link, letter(text, "Welcome", fields=fields)) == ["text:planted-link"] * found


def test_people_and_lists_that_are_known_greet_as_they_like() -> None:
    text = "Hello ✅ +$1,989 ➡️ https://elsewhere.example/x\n"
    assert not list(planted_link(know_sender(letter(text, fields="In-Reply-To: <1@x>\n"))))
    assert not list(planted_link(know_member(letter(text, fields=LIST))))
    assert list(planted_link(know_sender(letter(text))))


@pytest.mark.parametrize(
    ("name", "strength"),
    [
        ("Personal invitation (receive $3,300) open the link", 1.0),
        ("Your prize is ready at https://elsewhere.example/x", 1.0),
        ("Hello. You have a new transaction 21337712216. Your order 2672333", 0.7),
        ("Ann Example, Institute of Applied Physics, Room 4711", None),
        ("Dr. Ann Maria Example-Longname, M.Sc.", None),
        ("Accounts payable of Example Gardens No. 12345678", None),
        ("Win $5", None),
        ("ann.example.of.the.gardens@house.example", None),
        ("", None),
    ],
)
def test_planted_name(name: str, strength: float | None) -> None:
    message = Message(recipients=(Address(name, "ann", "house.example"),))
    assert find_strengths(planted_name, Reading(message)) == ([] if strength is None else [strength])


def test_known_lists_name_their_recipients_as_they_like() -> None:
    fields = (Field("list-post", "<mailto:l@lists.example>", b""),)
    message = Message(
        headers=Headers(fields), recipients=(Address("Your prize of $3,300 is ready, open it", "a", "b.example"),)
    )
    assert find_strengths(planted_name, Reading(message)) == [1.0], "anybody can name a list"
    assert list(planted_name(know_member(Reading(message)))) == []


# What a lure may lead to, and explain, where its sender is known.
@pytest.mark.parametrize(
    ("check", "text", "subject"),
    [
        (lures, "You can claim your tokens now. Eligible wallets only.", "Genesis airdrop"),
        (lures, "Your tax statement is now available. Federal court notice.", "IRS statement"),
        (credential_lure, "Your account has been limited. Please verify your account.", "Limited"),
    ],
)
def test_a_lure_that_leads_home_needs_a_known_sender(check: Check, text: str, subject: str) -> None:
    home = letter(text, subject, link=HOME)
    away = find_strengths(check, letter(text, subject, link=AWAY))
    assert max(away) >= 0.5
    for stranger in (home, know_sender(home, SELDOM), know_sender(home, aligned=False)):
        assert find_strengths(check, stranger) == away
    assert all(finding.strength < 0.2 for finding in check(know_sender(home)))


@pytest.mark.parametrize(
    ("check", "text", "subject"),
    [
        (credential_lure, "Please verify your account within 24 hours. Click the link below.", "Confirm"),
        (credential_lure, "Your account has been limited. Please verify your account.", "Limited"),
        (lures, "Your parcel is waiting. Pay the customs fee for your package within 24 hours.", "Parcel"),
        (lures, "Your mailbox is full. Upgrade your mailbox, verify your password.", "Mailbox full"),
        (brand_mention, "Your Google account: verify your account to sign in.", "Sign-in"),
    ],
)
def test_a_lure_says_less_where_dmarc_proves_the_sender_and_all_links_lead_there(
    check: Check, text: str, subject: str
) -> None:
    home = letter(text, subject, link=HOME)
    plain = find_strengths(check, home)
    assert max(plain) >= 0.3
    factor = calculations()["link-away"].coefficients["proven_home"].value
    assert find_strengths(check, prove(home, "sender.example")) == pytest.approx(
        [each * factor for each in plain], abs=0.01
    )
    away = letter(f"{text} https://elsewhere.example/", subject, link=HOME)
    for other in (prove(home, "other.example"), prove(away, "sender.example")):
        assert find_strengths(check, other) == plain


def prove(reading: Reading, domain: str) -> Reading:
    dmarc = Dmarc("pass", domain, dkim_aligned=True)
    return msgspec.structs.replace(reading, authentication=Authentication(dmarc=dmarc))


@pytest.mark.parametrize(
    "more",
    [
        "Beware of phishing emails. Report phishing to us: we will never ask you for your password.",
        "We met in the garden and spoke of the harvest, which was good this year. " * 200,
    ],
)
def test_a_warning_or_a_long_text_explains_the_mail_of_a_known_sender_only(more: str) -> None:
    text = "Your account has been limited.\n{}\nPlease verify your account."
    (alone,) = credential_lure(letter(text.format(""), "Limited", link=AWAY))
    explained = letter(text.format(more), "Limited", link=AWAY)
    (claimed,) = credential_lure(explained)
    (known,) = credential_lure(know_sender(explained))
    assert claimed.strength >= alone.strength
    assert known.strength == pytest.approx(claimed.strength / 2, abs=0.01)


def test_prose_below_a_lure_does_not_weaken_it() -> None:
    lure, prose = "Your mailbox quota has been exceeded. Upgrade your mailbox to release messages.", " word" * 2_000
    alone, below = (list(lures(letter(text, link=AWAY))) for text in (lure, f"{lure}\n{prose}"))
    assert alone
    assert [finding.strength for finding in below] == [finding.strength for finding in alone]


# Haste, and letters that only mention it.
@pytest.mark.parametrize(
    ("text", "subject", "kinds"),
    [
        ("Act now! This offer expires today. Don't delay.", "Final notice", ["text:urgency"]),
        ("Handeln Sie jetzt, nur noch heute, sonst läuft es heute ab. Dringend!", "Letzte Mahnung", ["text:urgency"]),
        ("Please send me the minutes as soon as possible.", "Minutes", []),
        ("We will answer within 24 hours.", "Your ticket", []),
    ],
)
def test_urgency(text: str, subject: str, kinds: list[str]) -> None:
    assert find_kinds(urgency, letter(text, subject), 0.5) == kinds


def test_a_known_sender_may_press() -> None:
    claimed = letter("Act now! This offer expires today. Don't delay.", "Final notice", fields=UNSUBSCRIBE)
    (finding,) = urgency(claimed)
    (known,) = urgency(know_sender(claimed))
    assert finding.strength == 1.0
    assert known.strength == 0.5


# Companies that are spoken for, and companies that are spoken of.
LIMITED = "Your account has been limited. Please verify your account."


@pytest.mark.parametrize(
    ("subject", "text", "link", "sender", "kinds"),
    [
        ("Your Netflix account", LIMITED, AWAY, "x@sender.example", ["text:brand-without-link"]),
        (
            "PayPal: Konto gesperrt",
            "Bestätigen Sie Ihre Daten.",
            AWAY,
            "x@sender.example",
            ["text:brand-without-link"],
        ),
        ("Notice", f"Netflix\n{LIMITED}", AWAY, "x@sender.example", ["text:brand-without-link"]),
        ("【重要】三井住友カード", LIMITED, AWAY, "x@sender.example", ["text:brand-without-link"]),
        ("Сбербанк: вход", LIMITED, AWAY, "x@sender.example", ["text:brand-without-link"]),
        ("【重要】三井住友カード", LIMITED, AWAY, "info@vpass.ne.jp", []),
        ("北京东路", LIMITED, AWAY, "x@sender.example", []),
        ("Your Netflix account", LIMITED, "https://www.netflix.com/x", "x@sender.example", []),  # leads there
        ("Your Netflix account", LIMITED, AWAY, "info@netflix.com", []),  # comes from there
        ("Netflix has a new film", "Shall we watch it?", AWAY, "x@sender.example", []),  # speaks of it
        ("Your account", LIMITED, AWAY, "x@sender.example", []),
        ("Your Netflix account", LIMITED, "", "x@sender.example", []),
    ],
)
def test_brand_mention(subject: str, text: str, link: str, sender: str, kinds: list[str]) -> None:
    reading = letter(text, subject, link=link, sender=sender, envelope=sender)
    assert find_kinds(brand_mention, reading) == kinds


def test_members_of_a_known_list_speak_of_companies() -> None:
    posted = letter(LIMITED, "Your Netflix account", link=AWAY, fields=LIST)
    assert find_kinds(brand_mention, posted) == ["text:brand-without-link"]
    assert not list(brand_mention(know_member(posted)))
