"""The rehearsal of a company's day, in short; and that its account finds what is lost and doubled."""

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from bench.rehearsal import missing, rehearse, report
from bench.rehearsal.mail import DAY, MAILBOXES, Sent, letters
from bench.rehearsal.reconcile import Outcome, find_unsure

ONE, TWO, THREE, FOUR, FIVE = ((f"m{number}@rehearsal.example", "u1@example.com") for number in range(5))


def test_a_day_has_all_its_parts_and_a_letter_to_everybody() -> None:
    day = list(letters(1.0, 600.0))
    assert {letter.part for letter in day} == DAY.keys()
    assert all(before.seconds <= after.seconds for before, after in pairwise(day))
    named = Counter((letter.name, each) for letter in day for each in letter.recipients)
    assert set(named.values()) == {1}, "each pair is sent once"
    assert len({each for name, each in named if name.startswith("news@")}) == MAILBOXES


def test_the_account_finds_what_is_lost_and_doubled() -> None:
    outcome = Outcome(
        accepted=dict.fromkeys((ONE, TWO, THREE, FOUR, FIVE), "night"),
        delivered=Counter({ONE: 1, TWO: 2, THREE: 1}),
        held=Counter({THREE: 1}),
        bounced={FOUR[0]},
        unsure={TWO[0]},
        without_bytes=[],
        answers_without_record=[],
    )
    outcome.judge()
    assert (outcome.lost, outcome.doubled, outcome.unexplained) == ([FIVE], [TWO, THREE], [THREE])
    assert outcome.defects == 2
    row = next(line for line in outcome.describe(Sent()) if line.startswith("| night"))
    assert row == "| night | 0 | 5 | 3 | 1 | 1 | 1 | 2 |"


def test_servers_that_were_not_sure_are_found_in_their_logs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "Nov 19 mx postfix/cleanup[7]: 4Aa: message-id=<m1@rehearsal.example>\n"
        "Nov 19 mx postfix/cleanup[7]: 4Bb: message-id=<m2@rehearsal.example>\n"
        "Nov 19 mx postfix/smtp[8]: 4Aa: to=<u1@example.com>, relay=127.0.0.1[127.0.0.1]:1, delay=1, dsn=4.4.2, "
        "status=deferred (lost connection with 127.0.0.1[127.0.0.1] while sending end of data -- message may be sent "
        "more than once)\n"
        "Nov 19 mx postfix/smtp[8]: 4Bb: to=<u1@example.com>, relay=none, delay=1, dsn=4.4.1, "
        "status=deferred (connect to 127.0.0.1[127.0.0.1]:1: Connection refused)\n"
    )
    assert find_unsure(log) == {"m1@rehearsal.example"}


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(3_600)
@pytest.mark.skipif(missing() is not None, reason=f"not run: {missing()}")
def test_nothing_is_lost_or_doubled_on_a_day_of_a_company() -> None:
    with tempfile.TemporaryDirectory(prefix="gatepost-rehearsal-") as name:
        Path(name).chmod(0o755)
        rehearsal, outcome = rehearse(Path(name), 0.5, 3.0, is_short=True)
    said = report(rehearsal, outcome, 0.5, 3.0)
    assert outcome.defects == 0, said
    assert outcome.days == 3, said
    assert len(outcome.accepted) > MAILBOXES
    assert "failed:" not in said
