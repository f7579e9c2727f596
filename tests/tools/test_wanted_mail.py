"""Wanted mail that is held, by class and language: what products send that nothing here has learnt from.

These numbers only fall. What holds a receipt today would hold a user's receipt tomorrow.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.wanted_mail import WantedMail, count_by, judge_bounces, judge_folder, render

MADE, REAL, LURES = 16, 4, 78
BOUNCES = 2
# The classes and languages of which more than one in a hundred is held.
MOST = {
    "form": "other 6 newsletter 4 shipping 3 confirm 2 refund 1 invoice 1 reminder 1 order 1 security 1".split(),
    "language": "ja 6 pt 4 zh 3 pl 2 ko 2 fr 1 uk 1 ar 1".split(),
}


@pytest.fixture(scope="module")
def found(shared: Callable[[str], Path]) -> list[WantedMail]:
    return list(judge_folder(shared("mail-dev-3")))


@pytest.mark.shared
def test_wanted_mail_arrives(found: list[WantedMail]) -> None:
    good = [each for each in found if each.is_good]
    held = [each for each in good if each.is_held]
    assert (len(good), len(found) - len(good)) == (1_021, 131)
    assert sum(each.is_made for each in held) <= MADE, "\n".join(render(found))
    assert sum(not each.is_made for each in held) <= REAL, "\n".join(render(found))
    assert sum(each.is_held for each in found if not each.is_good) >= LURES


@pytest.mark.shared
@pytest.mark.parametrize("group", ["form", "language"])
def test_no_class_and_no_language_is_held_more_than_others(found: list[WantedMail], group: str) -> None:
    most = dict(zip(MOST[group][::2], map(int, MOST[group][1::2]), strict=True))
    rows = count_by((each for each in found if each.is_good), group)
    assert [row for row in rows if row.share > 0.01 and row.held > most.get(row.name, 0)] == []


@pytest.mark.shared
def test_bounces_arrive(shared: Callable[[str], Path]) -> None:
    """Of every mail system that an archive has, in their own forms, and with whatever they return."""
    found = list(judge_bounces(shared("mail-dev")))
    held = [(path, report.verdict, report.score) for path, report in found if report.decision != "deliver"]
    assert len(found) == 529
    assert len(held) <= BOUNCES, held


def test_a_folder_is_judged_with_its_dns(tmp_path: Path) -> None:
    """The zone proves the sender by its host, and the same letter from another host is a forgery."""
    letter = b"From: Shop <desk@shop.example>\r\nSubject: Your order\r\n\r\nYour order was sent today.\r\n"
    (tmp_path / "letter.eml").write_bytes(letter)
    names = "path product label class language origin client helo mail_from rcpt_to".split()
    hosts = {"ham": "192.0.2.9", "phish": "192.0.2.66"}
    rows = [
        ["letter.eml", "a", label, "order", "en", "made", host, "mail.shop.example", "desk@shop.example", "b@y.example"]
        for label, host in hosts.items()
    ]
    (tmp_path / "INDEX.tsv").write_text("".join("\t".join(row) + "\n" for row in [names, *rows]))
    texts = {"shop.example": "v=spf1 ip4:192.0.2.9 -all", "_dmarc.shop.example": "v=DMARC1; p=reject"}
    (tmp_path / "zone.json").write_text(json.dumps({name: {"TXT": [text]} for name, text in texts.items()}))
    good, forged = judge_folder(tmp_path)
    assert (good.is_good, good.is_held, good.form) == (True, False, "order")
    assert (forged.is_good, forged.is_held) == (False, True)
    command = [sys.executable, "-m", "tools.wanted_mail", str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180).stdout
    assert "good mail that was made: 0 of 1 held\n" in shown
    assert "lures: 1 of 1 held\n" in shown
