"""Mail to nobody."""

import pytest

from gatepost.checks.headers.no_recipients import check
from gatepost.findings import Reading
from gatepost.kinds import HEADER_NO_RECIPIENTS
from gatepost.mail.reader import read


@pytest.mark.parametrize(
    ("field", "kinds"),
    [
        ("", [HEADER_NO_RECIPIENTS.id]),
        ("To: undisclosed-recipients:;\n", [HEADER_NO_RECIPIENTS.id]),
        ("To: ann@corp.example\n", []),
        ("Cc: ann@corp.example\n", []),
        ("List-Post: <mailto:l@lists.example>\n", []),
    ],
)
def test_unnamed_recipient(field: str, kinds: list[str]) -> None:
    message = read(f"From: x@shop.example\n{field}Subject: x\n\ntext\n".encode())
    assert [finding.kind for finding in check(Reading(message))] == kinds
