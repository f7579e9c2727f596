"""Forwards of phishing to the people who take reports, by every source that there is.

What anybody sends to them alone is delivered unless it is malware, and what own people attach to it teaches. The same
mail to anybody else is held. It runs as an operator runs it: one service with all sources, asked over their ports.
"""

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator

import httpx
import pytest
from tests.blackbox.all_sources import SOURCES, TOKEN, Answer, House, Letter, forward, open_house

OWN, STRANGER = "203.0.113.9", "192.0.2.66"
DESK, ABUSE, BOB = "security@house.example", "Abuse@house.example", "bob@house.example"
EICAR = "X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + "EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    more = f"reportMailboxes: ['{DESK}', '{ABUSE}']\nlearning: {{reportHosts: ['203.0.113.0/24']}}\n"
    with open_house({}, more) as opened:
        yield opened


PHISH_HEAD = (
    "From: IT Service <it@mailbox-quota.example>\r\nTo: ann@house.example\r\nSubject: Your mailbox is full\r\n"
    "Date: Tue, 10 Nov 2026 08:55:00 +0000\r\nMessage-ID: <{mark}@mailbox-quota.example>\r\n"
)
PHISH_TEXT = (
    "Dear user {mark},\r\n\r\nyour mailbox is full. Verify your password within 24 hours, or your account will be"
    " suspended:\r\n\r\nhttps://mailbox-quota.example/login/{mark}\r\n\r\nIT Service\r\n"
)
INLINE = (
    "Is this one real?\r\n\r\nAnn\r\n\r\n---------- Forwarded message ---------\r\n"
    "From: IT Service <it@mailbox-quota.example>\r\nDate: Tue, 10 Nov 2026 at 08:55\r\n"
    "Subject: Your mailbox is full\r\nTo: Ann <ann@house.example>\r\n\r\n\r\n" + PHISH_TEXT
)
PAGE = (
    '<div dir="ltr">Please look at this.</div><br><div class="gmail_quote"><div dir="ltr" class="gmail_attr">'
    "---------- Forwarded message ---------<br>From: <b>IT Service</b></div><p>Your mailbox is full. Verify your"
    " password within 24 hours, or your account will be suspended.</p>"
    '<a href="https://mailbox-quota.example/login/{mark}">Verify now</a></div>\r\n'
)
MIXED = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n"
# How mail programs forward: in the letter, as a page with the letter quoted, and with the message attached.
FORWARDS = {
    "inline": f"Content-Type: text/plain; charset=utf-8\r\n\r\n{INLINE}",
    "quoted page": f"Content-Type: text/html; charset=utf-8\r\n\r\n{PAGE}",
    "attached": (
        f"{MIXED}I did not click.\r\n\r\nAnn\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n"
        f"Content-Disposition: attachment; filename=mail.eml\r\n\r\n{PHISH_HEAD}\r\n{PHISH_TEXT}\r\n--b--\r\n"
    ),
    "malware": f"{MIXED}Look.\r\n--b\r\nContent-Type: application/octet-stream; name=a.com\r\n\r\n{EICAR}\r\n--b--\r\n",
}


def write_forward(form: str, *recipients: str) -> Letter:
    """A forward of an own user. Each is another one, so that none is a copy of one that was sent before."""
    mark = uuid.uuid4().hex
    head = (
        f"X-Envelope-To: {', '.join(recipients)}\r\nFrom: Ann <ann@house.example>\r\nTo: {recipients[0]}\r\n"
        f"Subject: Fwd: Your mailbox is full\r\nDate: Tue, 10 Nov 2026 09:12:00 +0000\r\n"
        f"Message-ID: <{mark}@house.example>\r\n"
    )
    return Letter((head + FORWARDS[form].replace("{mark}", mark)).encode(), "ann@house.example", recipients)


def tell(source: str, address: str) -> dict[str, str]:
    """What a source says of the client at that address."""
    told = {"smtp": forward(address), "milter": {"address": address}, "rspamd": {"IP": address}}
    return told.get(source, {"remoteAddress": address} if source == "rest" else {})


def send(house: House, source: str, address: str, letter: Letter) -> Answer:
    async def do() -> Answer:
        return await SOURCES[source](house, tell(source, address), letter)

    return asyncio.run(do())


@pytest.mark.parametrize("form", ["inline", "quoted page", "attached"])
@pytest.mark.parametrize("source", SOURCES)
def test_forwards_are_delivered_to_those_who_take_reports(house: House, source: str, form: str) -> None:
    for address in (OWN, STRANGER):
        assert send(house, source, address, write_forward(form, DESK)) == Answer(held=False)
    assert send(house, source, STRANGER, write_forward(form, BOB)) == Answer(held=True)


@pytest.mark.parametrize("source", SOURCES)
def test_malware_is_held_and_so_is_mail_that_others_get_too(house: House, source: str) -> None:
    assert send(house, source, OWN, write_forward("malware", DESK)) == Answer(held=True)
    if source != "spamd":  # a client of spamd names one recipient
        assert send(house, source, OWN, write_forward("inline", ABUSE, DESK)) == Answer(held=False)
        assert send(house, source, OWN, write_forward("inline", DESK, BOB)) == Answer(held=True)


def test_a_header_names_no_mailbox(house: House) -> None:
    """A client of spamd need not name the recipient; then a sender could."""
    letter = write_forward("inline", DESK)
    assert send(house, "spamd", STRANGER, letter._replace(recipients=())) == Answer(held=True)


def count_reports(house: House) -> tuple[int, int]:
    command = [sys.executable, "-m", "gatepost", "learn", "list", "--json", "--config", str(house.folder)]
    said = subprocess.run(
        [*command, "--data", str(house.folder)], capture_output=True, text=True, check=True, timeout=180
    )
    pools = json.loads(said.stdout)["pools"]
    return sum(each["unwanted"] for each in pools), sum(each["wanted"] for each in pools)


@pytest.mark.parametrize(("source", "taught"), [("smtp", 1), ("milter", 1), ("rspamd", 1), ("rest", 1), ("spamd", 0)])
def test_what_is_attached_teaches_where_the_client_is_told_and_listed(house: House, source: str, taught: int) -> None:
    unwanted, wanted = count_reports(house)
    send(house, source, STRANGER, write_forward("attached", DESK))
    send(house, source, OWN, write_forward("attached", BOB))
    send(house, source, OWN, write_forward("inline", DESK))
    assert count_reports(house) == (unwanted, wanted)
    send(house, source, OWN, write_forward("attached", DESK))
    assert count_reports(house) == (unwanted + taught, wanted)


def test_the_ledger_says_why(house: House) -> None:
    send(house, "rest", STRANGER, write_forward("inline", DESK))
    url, headers = f"http://127.0.0.1:{house.abby}/v1/messages", {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(headers=headers, trust_env=False, timeout=60) as client:
        (found,) = client.post(f"{url}/search", json={"recipient": DESK, "limit": 1}).json()["messages"]
        newest = client.get(f"{url}/{found['ggrid']}").json()
    assert (newest["verdict"], newest["decision"]) == ("phishing", "deliver")
    assert "recipient:report-mailbox" in newest["tags"]
    assert newest["ledger"]["reason"].startswith(
        "Every recipient is a mailbox that takes reports, so it is delivered. "
    )
