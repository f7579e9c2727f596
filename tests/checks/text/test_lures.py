"""The checks of `text/lures`: the tricks, and what looks like them."""

from collections.abc import Callable

import pytest
from tests.known_senders import SELDOM, know_member, know_sender

from gatepost.checks.reading import Check, Reading
from gatepost.checks.text.lures import brand_mention, credential_lure, lures, planted_link, planted_name, urgency
from gatepost.findings.kinds import (
    TEXT_AUTHORITY_LURE,
    TEXT_BRAND_WITHOUT_LINK,
    TEXT_CREDENTIAL_LURE,
    TEXT_CRYPTO_LURE,
    TEXT_DOCUMENT_LURE,
    TEXT_MAILBOX_LURE,
    TEXT_PARCEL_LURE,
    TEXT_PLANTED_LINK,
    TEXT_PRIZE_LURE,
    TEXT_REFUND_LURE,
    TEXT_SALARY_LURE,
    TEXT_URGENCY,
    Kind,
)
from gatepost.mail.message import Field, Headers, Message
from gatepost.names import Address

Letter = Callable[..., Reading]
AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"
LIST, UNSUBSCRIBE = "List-Post: <mailto:l@lists.example>\n", "List-Unsubscribe: <https://sender.example/u>\n"


# Documents that somebody shared.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "You have received a secure document. A new document has been shared with you. View document "
                "below: click the button."
            ),
            "Secure document",
            AWAY,
            [TEXT_DOCUMENT_LURE.id],
        ),
        (
            "You have a new voicemail. Caller ID: unknown. Call duration 00:32. Play voicemail here.",
            "New voice message",
            AWAY,
            [TEXT_DOCUMENT_LURE.id],
        ),
        ("I put the minutes on the share, have a look.", "Minutes", AWAY, []),
        ("Ann shared the file with you.", "Ann shared budget.xlsx", HOME, []),
    ],
)
def test_document_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in lures(reading) if finding.strength >= 0.5] == kinds


# Mailboxes in trouble.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            (
                "Your mailbox quota has been exceeded. 7 pending messages are held. Upgrade your mailbox to "
                "release messages."
            ),
            "Mailbox full",
            AWAY,
            [TEXT_MAILBOX_LURE.id],
        ),
        (
            "Ihr Postfach ist voll. Zurückgehaltene Nachrichten warten. Ihr Passwort läuft heute ab, umgehend handeln.",
            "Postfach",
            AWAY,
            [TEXT_MAILBOX_LURE.id],
        ),
        (
            "Su buzón está lleno. Mensajes pendientes retenidos. Verifique su cuenta urgente.",
            "Buzón",
            AWAY,
            [TEXT_MAILBOX_LURE.id],
        ),
        ("Your mailbox is at 80 percent; see the settings.", "Storage", HOME, []),
        ("My inbox is full, I will answer next week.", "Re: plans", "", []),
        ("The mailbox at the corner was painted red.", "Walk", AWAY, []),
    ],
)
def test_mailbox_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in lures(reading) if finding.strength >= 0.5] == kinds


# Tokens, balances and wallets.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("You can claim your tokens now. Eligible wallets only.", "Genesis airdrop", AWAY, [TEXT_CRYPTO_LURE.id]),
        ("Your wallet has been suspended. Validate your wallet.", "Notice", AWAY, [TEXT_CRYPTO_LURE.id]),
        ("Withdraw your remaining funds. Bitcoin mining platform.", "Balance", AWAY, [TEXT_CRYPTO_LURE.id]),
        ("Ihre Krypto-Wallet gesperrt. Airdrop einlösen, Tokens sichern.", "Wallet", AWAY, [TEXT_CRYPTO_LURE.id]),
        ("Получите ваши токены. Кошелек заблокирован.", "Внимание", AWAY, [TEXT_CRYPTO_LURE.id]),
        ("Resgate seus tokens. Sua carteira digital suspensa.", "Aviso", AWAY, [TEXT_CRYPTO_LURE.id]),
        ("You can claim your tokens now. Eligible wallets only.", "Genesis airdrop", HOME, [TEXT_CRYPTO_LURE.id]),
        ("I lost my wallet on the train, have you seen it?", "Wallet", AWAY, []),
        ("The airdrop of blankets reached the village on Monday.", "News", AWAY, []),
        ("A firmware update for the router is out, see the page of the maker.", "Router", AWAY, []),
    ],
)
def test_crypto_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in lures(reading) if finding.strength >= 0.5] == kinds


# Courts, fines and taxes.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Your tax statement is now available. Federal court notice.", "IRS statement", AWAY, [TEXT_AUTHORITY_LURE.id]),
        ("Intimação judicial: processo trabalhista.", "Intimação oficial", AWAY, [TEXT_AUTHORITY_LURE.id]),
        ("Ihr Bußgeldbescheid liegt vor. Offene Forderung begleichen.", "Behörde", AWAY, [TEXT_AUTHORITY_LURE.id]),
        ("Votre amende impayée: avis d'infraction.", "Amende routière", AWAY, [TEXT_AUTHORITY_LURE.id]),
        ("Multa de tráfico pendiente. Notificación judicial.", "Multa de tráfico", AWAY, [TEXT_AUTHORITY_LURE.id]),
        ("Неоплаченный штраф. Судебный приказ вынесен.", "Штраф", AWAY, [TEXT_AUTHORITY_LURE.id]),
        ("国税電子申告: 税金の未納があります。国税庁", "税金の重要なお知らせ", AWAY, [TEXT_AUTHORITY_LURE.id]),
        ("Your tax statement is now available. Federal court notice.", "IRS statement", HOME, [TEXT_AUTHORITY_LURE.id]),
        ("The court next to our office was painted.", "Walk", AWAY, []),
        ("I paid the parking fine yesterday.", "Re: car", AWAY, []),
        ("The Belastingdienst moved, here is an article about it.", "News", AWAY, []),
    ],
)
def test_authority_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    found = [finding.kind for finding in lures(reading) if finding.strength >= 0.5]
    assert [kind for kind in found if kind == TEXT_AUTHORITY_LURE.id] == kinds


# Tokens and wallets, statements, and those who write about them honestly.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kind", "found"),
    [
        (
            "You are eligible for the airdrop. Connect your wallet to claim your tokens before Friday.",
            "Season 2 rewards",
            AWAY,
            TEXT_CRYPTO_LURE,
            True,
        ),
        (
            "You have a refund of 272 USDT.ERC20 available. Click here to claim your refund in USDT.",
            "Refund",
            AWAY,
            TEXT_CRYPTO_LURE,
            True,
        ),
        (
            "The verification process for your wallet is awaiting completion. Proceed to wallet verification.",
            "Verify",
            AWAY,
            TEXT_CRYPTO_LURE,
            True,
        ),
        ("Connect your wallet in the settings of our site.", "Release 4.2", HOME, TEXT_CRYPTO_LURE, False),
        ("My wallet was in the blue jacket.", "Lost and found", AWAY, TEXT_CRYPTO_LURE, False),
        ("The general ledger was closed for March.", "Closing", AWAY, TEXT_CRYPTO_LURE, False),
        (
            "Your statement is available for viewing. Review your statement online: View document.",
            "Statement for viewing",
            AWAY,
            TEXT_DOCUMENT_LURE,
            True,
        ),
        ("Your statement is available in your account.", "Your statement", HOME, TEXT_DOCUMENT_LURE, False),
        ("The minister's statement is here.", "News", AWAY, TEXT_DOCUMENT_LURE, False),
    ],
)
def test_tokens_and_statements(letter: Letter, text: str, subject: str, link: str, kind: Kind, found: bool) -> None:
    strengths = [each.strength for each in lures(letter(text, subject, link=link)) if each.kind == kind.id]
    assert [strength for strength in strengths if strength >= 0.5] == strengths * found


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
def test_planted_link(letter: Letter, text: str, fields: str, found: bool) -> None:
    reading: Reading = letter(text, "Welcome", fields=fields)
    assert [finding.kind for finding in planted_link(reading)] == [TEXT_PLANTED_LINK.id] * found


def test_people_and_lists_that_are_known_greet_as_they_like(letter: Letter) -> None:
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
    assert [finding.strength for finding in planted_name(Reading(message))] == ([] if strength is None else [strength])


def test_known_lists_name_their_recipients_as_they_like() -> None:
    fields = (Field("list-post", "<mailto:l@lists.example>", b""),)
    message = Message(
        headers=Headers(fields), recipients=(Address("Your prize of $3,300 is ready, open it", "a", "b.example"),)
    )
    assert [finding.strength for finding in planted_name(Reading(message))] == [1.0], "anybody can name a list"
    assert list(planted_name(know_member(Reading(message)))) == []


# Parcels that wait, and parcels that come.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Your package is on hold. Pay the customs fee of 1.99 within 24 hours to reschedule your delivery.",
            "Delivery problem",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Ihr Paket konnte nicht zugestellt werden. Bitte die Zollgebühr zahlen und die Lieferadresse bestätigen.",
            "Ihr Paket",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Votre colis est en attente. Réglez les frais de livraison et confirmer votre livraison.",
            "Colis",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Sua encomenda foi retida. Pague a taxa de importação e liberar sua encomenda.",
            "Correios",
            AWAY,
            [TEXT_PARCEL_LURE.id],
        ),
        (
            "Your package arrives tomorrow between 2 and 4. Track your package.",
            "Delivery tomorrow",
            HOME,
            [],
        ),  # a carrier's own notice
        ("Your order has been shipped.", "Order 4711", HOME, []),
        ("Das Paket kam gestern an, vielen Dank!", "Paket", "", []),
        ("Merci pour le colis, il est arrivé hier.", "Colis", AWAY, []),
    ],
)
def test_parcel_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in lures(reading) if finding.strength >= 0.5] == kinds


# Prizes for nothing, and real ones.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Congratulations! You have been selected. Answer a few questions and claim your reward today.",
            "You have won",
            AWAY,
            [TEXT_PRIZE_LURE.id],
        ),
        (
            "Herzlichen Glückwunsch! Sie haben gewonnen. Jetzt teilnehmen und Gutschein sichern.",
            "Gewinnspiel",
            AWAY,
            [TEXT_PRIZE_LURE.id],
        ),
        ("Félicitations, vous avez gagné un cadeau. Réclamez votre cadeau.", "Gagnant", AWAY, [TEXT_PRIZE_LURE.id]),
        ("Parabéns! Você ganhou um prêmio. Resgate seu prêmio agora.", "Prêmio", AWAY, [TEXT_PRIZE_LURE.id]),
        ("Congratulations on your new job! See you on Friday.", "Your news", "", []),
        ("Congratulations to Nathan for the release, notes are here.", "Release 2.0", AWAY, []),
        ("Your points: 120. Redeem them in our shop.", "Your points", HOME, []),
        ("The prize for the best paper went to Ann.", "Workshop", AWAY, []),
    ],
)
def test_prize_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in lures(reading) if finding.strength >= 0.5] == kinds


# Refunds and fines that wait for a click.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "You are eligible for a tax refund. Claim your refund now, click here.",
            "Tax refund notification",
            AWAY,
            [TEXT_REFUND_LURE.id],
        ),
        (
            "Hiermit erhalten Sie Ihre Steuererstattung vom Finanzamt. Klicken Sie hier, dringend.",
            "Steuererstattung",
            AWAY,
            [TEXT_REFUND_LURE.id],
        ),
        ("The tax return is due in July; talk to your accountant.", "Taxes", AWAY, []),
        ("Your refund for order 4711 was sent to your card.", "Refund", HOME, []),
    ],
)
def test_refund_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in lures(reading) if finding.strength >= 0.5] == kinds


# Pay and benefits.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Your salary adjustment and the revised employee handbook are ready. View document now.",
            "HR Department",
            AWAY,
            [TEXT_SALARY_LURE.id],
        ),
        (
            "Ihre Gehaltsanpassung der Personalabteilung: Dokument anzeigen. Klicken Sie hier.",
            "Gehaltserhöhung",
            AWAY,
            [TEXT_SALARY_LURE.id],
        ),
        ("The payroll run is on Thursday.", "Payroll", "", []),
        ("Your payslip is ready in the staff portal.", "Payslip", HOME, []),
    ],
)
def test_salary_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in lures(reading) if finding.strength >= 0.5] == kinds


# Lures for passwords, and mail that only sounds like them.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        (
            "Your account has been limited. Please verify your account within 24 hours.",
            "Account limited",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        (
            "Ihr Konto wurde vorübergehend gesperrt. Bestätigen Sie Ihre Daten innerhalb von 24 Stunden.",
            "Konto gesperrt",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        (
            "Votre compte a été suspendu. Vérifiez votre compte sous 24 heures, cliquez ici.",
            "Urgent",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        ("Su cuenta ha sido suspendida. Verifique su cuenta en 24 horas.", "Aviso", AWAY, [TEXT_CREDENTIAL_LURE.id]),
        (
            "Sua conta foi bloqueada. Atualize seus dados imediatamente, clique aqui.",
            "Aviso",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        (
            "Il tuo conto è stato sospeso. Verifica il tuo account entro 24 ore.",
            "Avviso",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        (
            "Uw account is tijdelijk geblokkeerd. Bevestig uw gegevens binnen 24 uur.",
            "Actie vereist",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        (
            "Konto zostało zablokowane. Zweryfikuj swoje konto w ciągu 24 godzin.",
            "Pilne",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        (
            "Ваш аккаунт был заблокирован. Подтвердите ваш аккаунт в течение 24 часов.",
            "Срочно",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        ("Hesabınız askıya alındı. Hesabınızı doğrulayın, 24 saat içinde.", "Uyarı", AWAY, [TEXT_CREDENTIAL_LURE.id]),
        ("您的账户已被冻结。请点击这里验证您的账户。", "通知", AWAY, [TEXT_CREDENTIAL_LURE.id]),
        (
            "アカウントが停止されました。24時間以内にアカウントの確認をお願いします。",
            "重要なお知らせ",
            AWAY,
            [TEXT_CREDENTIAL_LURE.id],
        ),
        (
            "You asked to reset your password. If it was you, choose a new one here.",
            "Reset your password",
            HOME,
            [],
        ),  # a real password reset
        (
            "You asked to reset your password. If it was you, choose a new one here.",
            "Reset your password",
            AWAY,
            [],
        ),  # through a mailing service
        (
            "Beware of phishing emails: we will never ask you to verify your account by email. Report phishing to us.",
            "How to spot phishing",
            HOME,
            [],
        ),  # a bank's warning
        ("Your account has been limited. Please verify your account.", "Limited", HOME, [TEXT_CREDENTIAL_LURE.id]),
        ("Your account has been limited. Please verify your account.", "Limited", "", []),  # nothing to follow
        ("Konto und Rechnung liegen bei.", "Rechnung", AWAY, []),
        ("The account of the battle was limited to what he saw.", "A book", AWAY, []),
        ("Подтвердите участие во встрече в четверг.", "Встреча", AWAY, []),  # confirms a meeting
        ("会议时间已确认，请准时参加。", "会议", AWAY, []),
        ("明日の会議の資料を添付します。", "会議資料", AWAY, []),
        ("Please confirm your attendance by Friday.", "Seminar", AWAY, []),
        ("Merci de confirmer votre présence au dîner.", "Dîner", AWAY, []),
    ],
)
def test_credential_lure(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in credential_lure(reading) if finding.strength >= 0.5] == kinds


# What a lure may lead to, and explain, where its sender is known.
@pytest.mark.parametrize(
    ("check", "text", "subject"),
    [
        (lures, "You can claim your tokens now. Eligible wallets only.", "Genesis airdrop"),
        (lures, "Your tax statement is now available. Federal court notice.", "IRS statement"),
        (credential_lure, "Your account has been limited. Please verify your account.", "Limited"),
    ],
)
def test_a_lure_that_leads_home_needs_a_known_sender(letter: Letter, check: Check, text: str, subject: str) -> None:
    home = letter(text, subject, link=HOME)
    away = [finding.strength for finding in check(letter(text, subject, link=AWAY))]
    assert away
    for stranger in (home, know_sender(home, SELDOM), know_sender(home, aligned=False)):
        assert [finding.strength for finding in check(stranger)] == away
    assert all(finding.strength < 0.2 for finding in check(know_sender(home)))


@pytest.mark.parametrize(
    "more",
    [
        "Beware of phishing emails. Report phishing to us: we will never ask you for your password.",
        "We met in the garden and spoke of the harvest, which was good this year. " * 200,
    ],
)
def test_a_warning_or_a_long_text_explains_the_mail_of_a_known_sender_only(letter: Letter, more: str) -> None:
    text = "Your account has been limited.\n{}\nPlease verify your account."
    (alone,) = credential_lure(letter(text.format(""), "Limited", link=AWAY))
    explained = letter(text.format(more), "Limited", link=AWAY)
    (claimed,) = credential_lure(explained)
    (known,) = credential_lure(know_sender(explained))
    assert claimed.strength >= alone.strength
    assert known.strength == pytest.approx(claimed.strength / 2, abs=0.01)


def test_prose_below_a_lure_does_not_weaken_it(letter: Letter) -> None:
    lure, prose = "Your mailbox quota has been exceeded. Upgrade your mailbox to release messages.", " word" * 2_000
    alone, below = (list(lures(letter(text, link=AWAY))) for text in (lure, f"{lure}\n{prose}"))
    assert alone
    assert [finding.strength for finding in below] == [finding.strength for finding in alone]


# Haste, and letters that only mention it.
@pytest.mark.parametrize(
    ("text", "subject", "link", "kinds"),
    [
        ("Act now! This offer expires today. Don't delay.", "Final notice", "", [TEXT_URGENCY.id]),
        (
            "Handeln Sie jetzt, nur noch heute, sonst läuft es heute ab. Dringend!",
            "Letzte Mahnung",
            "",
            [TEXT_URGENCY.id],
        ),
        ("Please send me the minutes as soon as possible.", "Minutes", "", []),
        ("We will answer within 24 hours.", "Your ticket", "", []),
    ],
)
def test_urgency(letter: Letter, text: str, subject: str, link: str, kinds: list[str]) -> None:
    reading: Reading = letter(text, subject, link=link)
    assert [finding.kind for finding in urgency(reading) if finding.strength >= 0.5] == kinds


def test_a_known_sender_may_press(letter: Letter) -> None:
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
        ("Your Netflix account", LIMITED, AWAY, "x@sender.example", [TEXT_BRAND_WITHOUT_LINK.id]),
        (
            "PayPal: Konto gesperrt",
            "Bestätigen Sie Ihre Daten.",
            AWAY,
            "x@sender.example",
            [TEXT_BRAND_WITHOUT_LINK.id],
        ),
        ("Notice", f"Netflix\n{LIMITED}", AWAY, "x@sender.example", [TEXT_BRAND_WITHOUT_LINK.id]),
        ("【重要】三井住友カード", LIMITED, AWAY, "x@sender.example", [TEXT_BRAND_WITHOUT_LINK.id]),
        ("Сбербанк: вход", LIMITED, AWAY, "x@sender.example", [TEXT_BRAND_WITHOUT_LINK.id]),
        ("【重要】三井住友カード", LIMITED, AWAY, "info@vpass.ne.jp", []),
        ("北京东路", LIMITED, AWAY, "x@sender.example", []),
        ("Your Netflix account", LIMITED, "https://www.netflix.com/x", "x@sender.example", []),  # leads there
        ("Your Netflix account", LIMITED, AWAY, "info@netflix.com", []),  # comes from there
        ("Netflix has a new film", "Shall we watch it?", AWAY, "x@sender.example", []),  # speaks of it
        ("Your account", LIMITED, AWAY, "x@sender.example", []),
        ("Your Netflix account", LIMITED, "", "x@sender.example", []),
    ],
)
def test_brand_mention(letter: Letter, subject: str, text: str, link: str, sender: str, kinds: list[str]) -> None:
    reading = letter(text, subject, link=link, sender=sender, envelope=sender)
    assert [finding.kind for finding in brand_mention(reading)] == kinds


def test_members_of_a_known_list_speak_of_companies(letter: Letter) -> None:
    posted = letter(LIMITED, "Your Netflix account", link=AWAY, fields=LIST)
    assert [finding.kind for finding in brand_mention(posted)] == [TEXT_BRAND_WITHOUT_LINK.id]
    assert not list(brand_mention(know_member(posted)))
