"""Wanted mail that is held, by class and language: what products send.

These numbers only fall. What holds a receipt today would hold a user's receipt tomorrow. The shipped model has read
these notices, so the gate for it says that nothing else holds them; the honest figures are those with whole products
left out, which take longer.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.letters import write_corpus
from tools.wanted_mail import WantedMail, count_by, judge_bounces, judge_folder, render, train_left_out

MADE, REAL, LURES = 0, 2, 91
BOUNCES = 2
# With whole products left out: good mail that was made and that is real, and lures.
LEFT_OUT = (0, 2, 72)


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


@pytest.mark.long
@pytest.mark.process
@pytest.mark.shared
def test_wanted_mail_of_products_that_were_left_out_arrives(shared: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shared("mail-dev-3")
    write_corpus(tmp_path)
    found = list(judge_folder(folder, train_left_out([folder, tmp_path])))
    assert len(found) == 1_152
    made, real, lures = LEFT_OUT
    good = [each for each in found if each.is_good]
    assert sum(each.is_held and each.is_made for each in good) <= made, "\n".join(render(found))
    assert sum(each.is_held and not each.is_made for each in good) <= real, "\n".join(render(found))
    assert sum(each.is_held for each in found if not each.is_good) >= lures
    made_mail = [each for each in good if each.is_made]
    # One message of a language of 31 is 3.2 %.
    for group, most in (("form", 0.02), ("language", 0.03)):
        assert [row for row in count_by(made_mail, group) if row.held > max(1, most * row.of)] == []


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
