"""What rspamd and SpamAssassin make of messages at their default thresholds, as Debian ships them.

rspamd holds what it would reject or mark as spam (actions `reject`, `add header`, `rewrite subject`; greylisting is a
delay and no verdict). SpamAssassin holds from 5.0 points on. Neither was trained, and the name server that they ask
knows no name, as for us; SpamAssassin runs without network tests.

That setup is unfair to rspamd: it gives points to senders whose names do not resolve, to mail that is years old, and to
recipients that the header does not name, and here that is every message, good or bad. So its verdict is given twice:
as it is, and without the symbols that say nothing but this (`OF_THE_SETUP`, chosen by what they mean).
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench import corpus, load, scanning

RSPAMD, SPAMD = "http://127.0.0.1:11333", "http://127.0.0.1:1783"
HOLDING = frozenset({"reject", "add header", "rewrite subject"})
ADD_HEADER = 6.0
CONNECTIONS = 4
OF_THE_SETUP = frozenset(
    "HFILTER_HOSTNAME_UNKNOWN HFILTER_FROMHOST_NORES_A_OR_MX HFILTER_FROMHOST_NORESOLVE_MX HFILTER_HELO_IP_A "
    "HFILTER_HELO_NORES_A_OR_MX HFILTER_HELO_NORESOLVE_MX HFILTER_RCPT_BOUNCEMOREONE RDNS_NONE AUTH_NA AUTH_NA_OR_FAIL "
    "DATE_IN_PAST FORGED_RECIPIENTS".split()
)


@dataclass(frozen=True)
class Opinion:
    """Whether a message is held, and by how many points."""

    held: bool
    score: float


Opinions = list[Opinion | None]
Asked = Callable[[Sequence[corpus.Mail]], dict[str, Opinions]]


class PeersNotRunError(Exception):
    """The peers cannot be started here; the text says why."""


@contextmanager
def running() -> Iterator[tuple[Asked, ...]]:
    """Both peers, each as a question: what of these messages? None where there was no answer."""
    if not scanning.PEERS.exists():
        raise PeersNotRunError("../shared/bench/peers.sh is not present")
    if os.geteuid() != 0:
        raise PeersNotRunError("they are started as root")
    try:
        subprocess.run([scanning.PEERS, "start"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield rspamd, spamassassin
    except subprocess.CalledProcessError as fault:
        raise PeersNotRunError(str(fault)) from None
    finally:
        subprocess.run([scanning.PEERS, "stop"], check=False)


def rspamd(messages: Sequence[corpus.Mail]) -> dict[str, Opinions]:
    """By its action, and by its score without what the setup causes."""
    requests = [scanning.rspamd_request(message) for message in messages]
    told = [_rspamd(answer) for answer in load.send(RSPAMD, requests, CONNECTIONS).answers]
    return {
        "rspamd, as it is": [each and each[0] for each in told],
        "rspamd, setup taken out": [each and each[1] for each in told],
    }


def spamassassin(messages: Sequence[corpus.Mail]) -> dict[str, Opinions]:
    """By its own word."""
    requests = [scanning.spamd_request(message) for message in messages]
    answers = load.send(SPAMD, requests, CONNECTIONS, scanning.spamd_exchange).answers
    return {"SpamAssassin": [_spamd(answer) for answer in answers]}


def _rspamd(answer: bytes) -> tuple[Opinion, Opinion] | None:
    status, _, body = answer.partition(b"\n")
    if b" 200 " not in status + b" ":
        return None
    said = json.loads(body)
    score = float(said["score"])
    caused = sum(symbol["score"] for name, symbol in said["symbols"].items() if name in OF_THE_SETUP)
    return Opinion(said["action"] in HOLDING, score), Opinion(score - caused >= ADD_HEADER, score - caused)


def _spamd(answer: bytes) -> Opinion | None:
    for line in answer.partition(b"\r\n\r\n")[0].lower().split(b"\r\n"):
        if line.startswith(b"spam:"):
            held, _, points = line[5:].partition(b";")
            return Opinion(held.strip() == b"true", float(points.split(b"/")[0]))
    return None
