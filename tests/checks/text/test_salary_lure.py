"""Pay and benefits."""

from collections.abc import Callable

import pytest

from gatepost.checks.text.lures import check
from gatepost.findings import Reading
from gatepost.kinds import TEXT_SALARY_LURE

Letter = Callable[..., Reading]

AWAY = "https://elsewhere.example/x"
HOME = "https://www.sender.example/x"


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
    assert [finding.kind for finding in check(reading) if finding.strength >= 0.5] == kinds
