"""Texts that open an account or a machine to a stranger (`text/lures`), and offers of work (`text/fraud`)."""

import tomllib
from pathlib import Path

import msgspec
import pytest
from tests.checks.readings import letter
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.checks.reading import Check, Reading
from gatepost.checks.text.fraud import job_offer
from gatepost.checks.text.lures import consent_lure, device_code, invented_thread, pasted_command
from gatepost.files.values import File

AWAY = "https://elsewhere.example/x"
GRANT = "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?client_id=8d1f&scope=Mail.Read"
LIST = "List-Post: <mailto:l@lists.example>\n"
SENTENCES = Path(__file__).parent.parent / "lure_sentences"
LANGUAGES = sorted(file.stem for file in SENTENCES.glob("*.toml"))
CHECKS = {
    "command": pasted_command,
    "device-code": device_code,
    "consent": consent_lure,
    "job": job_offer,
    "thread": invented_thread,
}


def measure(check: Check, reading: Reading) -> float:
    """The strength of the one finding, 0 for none."""
    return sum(finding.strength for finding in check(reading))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("theme", CHECKS)
def test_lures_of_every_language_are_found(language: str, theme: str) -> None:
    its = tomllib.loads((SENTENCES / f"{language}.toml").read_text("utf-8"))[theme]
    lure, honest = (letter("\n".join(its[sort]), "-", link=AWAY) for sort in ("lure", "honest"))
    assert measure(CHECKS[theme], lure) >= 0.4
    assert measure(CHECKS[theme], honest) == 0


@pytest.mark.parametrize(
    ("text", "link", "least", "most"),
    [
        ("Press Windows + R, then press Ctrl + V and hit Enter to prove that you are human.", AWAY, 0.9, 1.0),
        ("Press Windows + R, then press Ctrl + V and hit Enter.", "", 0.9, 1.0),
        ("Open PowerShell and paste the line. Press Ctrl and V.", "", 0.7, 0.7),
        ("Act within 24 hours: press Windows + R and follow the steps on the page.", "", 0.6, 0.7),
        ("Open the page, copy the line, press Windows + R and insert it.", AWAY, 0.6, 0.7),
        ("The print queue: press Windows + R, type control printers and confirm.", "", 0, 0),
        ("Paste the command into the Run dialog, as in the last lesson.", "", 0, 0),
        ("The captain gave the command to run for the harbour.", AWAY, 0, 0),
        ("Press Ctrl and P to print the page.", AWAY, 0, 0),
    ],
)
def test_pasted_command(text: str, link: str, least: float, most: float) -> None:
    assert least <= measure(pasted_command, letter(text, link=link)) <= most


def test_one_step_that_two_books_know_is_one_step() -> None:
    """Keys have the same names in many languages: `windows + r` stands inside what another book finds."""
    assert measure(pasted_command, letter("Press Windows + R, then press Ctrl once.")) == 0


def test_only_those_who_are_known_explain_commands() -> None:
    text = "Press Windows + R, then press Ctrl + V and hit Enter. Paste the command into the Run dialog."
    alone = measure(pasted_command, letter(text))
    claimed = letter(text, fields=f"{LIST}In-Reply-To: <1@x>\n")
    for reading in (claimed, know_sender(claimed, SELDOM), know_sender(claimed, aligned=False)):
        assert measure(pasted_command, reading) == alone
    assert 0 < measure(pasted_command, know_sender(claimed)) < alone / 2
    assert 0 < measure(pasted_command, know_member(claimed)) < alone / 2


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        (
            (
                "To join the meeting, enter the code below on the Microsoft sign-in page: C7KFQ2W9X. "
                "Or open microsoft.com/devicelogin yourself."
            ),
            1.0,
            1.0,
        ),
        ("Your Teams call is waiting. Go to microsoft.com/devicelogin and type WDJB-MJHT there.", 0.8, 1.0),
        ("A document has been shared with you. Go to microsoft.com/devicelogin.", 0.6, 0.7),
        ("Go to microsoft.com/devicelogin. When prompted, enter the following code from the screen.", 0.8, 0.8),
        ("The screen in room 4 shows a code; go to microsoft.com/devicelogin with it, dial 555-0100 for help.", 0, 0),
        ("Register the device with the code that the television shows.", 0, 0),
        ("Your code is 493021. It expires in ten minutes.", 0, 0),
        ("Enter the code SPRING-2026 at the checkout before the meeting.", 0, 0),
    ],
)
def test_device_code(text: str, least: float, most: float) -> None:
    for link in ("", "https://microsoft.com/devicelogin"):
        assert least <= measure(device_code, letter(text, link=link)) <= most


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("C7KFQ2W9X", "C7KFQ2W9X"),
        ("WDJB-MJHT", "WDJB-MJHT"),
        ("ABC-DEF-GHIJ", "ABC-DEF-GHIJ"),
        ("555-0100", ""),
        ("MICROSOFT", ""),
        ("20261110", ""),
        ("XC7KFQ2W9XXX", ""),
    ],
)
def test_codes_are_told_from_words_and_numbers(text: str, code: str) -> None:
    (found,) = device_code(letter(f"To join the meeting open microsoft.com/devicelogin: {text}"))
    assert found.facts["code"] == code


def test_nobody_is_excused_for_a_device_code() -> None:
    """Accounts that were taken over write to those who know them."""
    reading = letter("To join the meeting, open microsoft.com/devicelogin: WDJB-MJHT", fields=LIST)
    alone = measure(device_code, reading)
    assert alone > 0
    assert measure(device_code, know_sender(reading)) == measure(device_code, know_list(reading)) == alone


@pytest.mark.parametrize(
    ("text", "link", "least", "most"),
    [
        (
            "A document has been shared with you. Grant the app access and click Accept on the permission screen.",
            AWAY,
            1.0,
            1.0,
        ),
        ("Grant the application access and click Accept on the permission screen.", GRANT, 0.8, 0.8),
        ("Allow the app to read your emails.", AWAY, 0.4, 0.4),
        ("Allow the app to read your emails.", "https://www.microsoft.com/", 0, 0.1),
        ("Allow the app to read your emails.", "", 0, 0),
        ("Parents must sign the consent form before the school trip.", AWAY, 0, 0),
        ("Please fill in the application for the parking permit.", AWAY, 0, 0),
    ],
)
def test_consent_lure(text: str, link: str, least: float, most: float) -> None:
    assert least <= measure(consent_lure, letter(text, link=link)) <= most


def test_a_known_service_asks_for_permission() -> None:
    text = "Allow the app to read your emails. See https://www.sender.example/why"
    reading = letter(text, link=GRANT)
    assert measure(consent_lure, reading) == measure(consent_lure, know_sender(reading, SELDOM)) > 0
    assert measure(consent_lure, know_sender(reading)) == 0


@pytest.mark.parametrize(
    ("text", "sender", "fields", "least", "most"),
    [
        (
            "Make 350 dollars a day from home, no experience is required. Message us on WhatsApp.",
            "Mia <mia@gmail.com>",
            "",
            1.0,
            1.0,
        ),
        ("Rating hotels: weekly pay of $900.", "Jobs <jobs@agency.example>", "", 0.6, 0.6),
        ("No experience is required. Write to us on Telegram.", "Jobs <jobs@agency.example>", "", 0.6, 0.6),
        ("No experience is required: https://wa.me/4477009", "Jobs <jobs@agency.example>", "", 0.6, 0.6),
        ("No experience is required.", "Jobs <jobs@gmail.com>", "", 0.5, 0.5),
        ("No experience is required.", "Jobs <jobs@agency.example>", "Reply-To: mia@gmail.com\n", 0.5, 0.5),
        ("No experience is required for the summer at our nursery.", "Nursery <jobs@nursery.example>", "", 0, 0),
        ("Thank you for your application; come for a talk on Monday.", "Ben <ben@gmail.com>", "", 0, 0),
        ("We look for a gardener with two years of experience; find us on Telegram.", "B <b@n.example>", "", 0, 0),
        ("The new colleague starts on May 2.", "Ben <ben@gmail.com>", "", 0, 0),
        ("Ann worked from home and wrote on WhatsApp.", "Ben <ben@gmail.com>", "", 0, 0),
        ("The telegram of 1914 is in the museum.", "Museum <m@museum.example>", "", 0, 0),
    ],
)
def test_job_offer(text: str, sender: str, fields: str, least: float, most: float) -> None:
    assert least <= measure(job_offer, letter(text, sender=sender, fields=fields)) <= most


def test_job_boards_that_are_known_send_offers() -> None:
    text = "Rating hotels: weekly pay of $900. No experience is required."
    claimed = letter(text, fields=f"{LIST}List-Unsubscribe: <https://sender.example/u>\n")
    alone = measure(job_offer, letter(text))
    assert measure(job_offer, claimed) == measure(job_offer, know_sender(claimed, SELDOM)) == alone > 0
    assert measure(job_offer, know_sender(claimed)) == measure(job_offer, know_member(claimed)) == 0
    assert 0 < measure(job_offer, know_sender(letter(text))) < alone / 2


def test_a_long_letter_says_less_about_a_job() -> None:
    short, long = ("Rating hotels.\n" + "The garden was green. " * n + "\nWeekly pay of $900." for n in (1, 400))
    assert 0 < measure(job_offer, letter(long)) < measure(job_offer, letter(short))


@pytest.mark.parametrize(
    ("text", "link", "strength"),
    [
        ("As discussed on the phone, please see the attached document.", AWAY, 0),
        ("Here is the contract you requested. As agreed, please open the link.", AWAY, 1.0),
        ("Here is the contract you requested. As agreed, please open the link.", "", 0),
        ("It was good to talk to you at the fair.", AWAY, 0),
        ("As discussed, we meet on Tuesday at ten.", AWAY, 0),
    ],
)
def test_invented_thread(text: str, link: str, strength: float) -> None:
    assert measure(invented_thread, letter(text, link=link)) == strength


def test_a_known_sender_has_talked_to_the_reader() -> None:
    text = "As discussed, please see the attached document.\n> Ann wrote: here is the file you asked for\n"
    claimed = letter(text, "Re: figures", link=AWAY, fields=f"{LIST}In-Reply-To: <1@x>\nReferences: <1@x>\n")
    for reading in (claimed, know_sender(claimed, SELDOM), know_sender(claimed, aligned=False)):
        assert measure(invented_thread, reading) == 1.0
    assert measure(invented_thread, know_sender(claimed)) == measure(invented_thread, know_member(claimed)) == 0


def test_an_invented_thread_hands_over_a_file() -> None:
    reading = letter("Here is the contract you requested. As agreed, please open the attachment.")
    assert measure(invented_thread, reading) == 0
    with_file = msgspec.structs.replace(reading, files=(File("2", b"%PDF-", "pdf", "0" * 64, names=("c.pdf",)),))
    assert measure(invented_thread, with_file) == 1.0


def test_one_phrase_counts_for_strangers() -> None:
    reading = letter("As discussed on the phone, please see the attached document.", link=AWAY)
    remembered = msgspec.structs.replace(reading.sender_history, ready=True)
    assert measure(invented_thread, msgspec.structs.replace(reading, sender_history=remembered)) == 1.0
    assert measure(invented_thread, reading) == 0, "nothing is remembered of anybody"
