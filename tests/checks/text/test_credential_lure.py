"""Lures for passwords, and mail that only sounds like them."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.credential_lure import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_CREDENTIAL_LURE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


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
        ("Your account has been limited. Please verify your account.", "Limited", HOME, []),  # leads home
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
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
