"""A day of a company with 20,000 mailboxes in some minutes: is a message lost or doubled, whatever happens?

Postfix receives the mail, and gives each message to one of three Gatepost nodes; a second Postfix takes it from there
to the mailboxes. A twentieth as much comes over REST. The nodes share PostgreSQL with a synchronous standby, behind a
PgBouncer. Meanwhile a policy is published, a node is killed (-9), a disk is full, the primary is lost
and the standby promoted, all nodes restart one after the other, certificates are renewed, and two midnights pass on the
clocks of the nodes alone. With `--before PATH`, a worktree of an older version, all nodes begin with that one and are
upgraded, one after the other where `gatepost upgrade check` allows it, else all at once. At the end, when both queues
of Postfix are empty, each pair of Message-ID and recipient that was accepted must be delivered, held with its bytes, or
bounced. It may be doubled only where a server in front was not sure whether its message was taken (RFC 1047).
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.gateway import postfix_missing
from bench.rehearsal.company import SLOTS, SOURCE, Company, say
from bench.rehearsal.databases import databases_missing
from bench.rehearsal.mail import MAILBOXES, Senders, letters
from bench.rehearsal.reconcile import Outcome, reconcile

MINUTES, RATE = 12.0, 4.0
# Seconds for which a disk is full or the database away, and for which queues may need to become empty at the end.
AWAY, DRAIN = 15.0, 900.0
POLICY = '[verdicts]\nspam = {decision = "quarantine"}\n'


class Rehearsal:
    """One day: mail on one side, what befalls the servers on the other."""

    def __init__(self, company: Company, minutes: float, rate: float, before: Path | None, *, is_short: bool) -> None:
        self.company, self.seconds = company, minutes * 60
        self.senders = Senders(company.front_port, letters(rate, self.seconds))
        self.answered: list[str] = []
        self.failed: list[str] = []
        self.happened: list[str] = []
        self._pace, self._over = 20 / rate, threading.Event()
        # Reloads come behind a midnight and while a campaign is held: what a node tidies, it tidies when it reads its
        # files, and by its clock the bytes of all mail that is about to be held could be hours old.
        self._deeds: list[tuple[str, Callable[[], str | None]]] = [
            *([("upgrade", self._upgrade)] if before else []),
            ("publish", self._publish),
            ("midnight", company.move_clock),
            *([] if is_short else [("rolling restart", self._restart)]),
            ("kill -9", self._kill),
            ("disk full", self._fill_disk),
            ("reloads", company.reload),
            ("failover", lambda: company.databases.fail_over(AWAY)),
            ("certificates", company.renew_certificates),
            ("second midnight", company.move_clock),
            ("second rolling restart", self._restart),
        ]

    def run(self) -> None:
        """Let the day pass."""
        began = time.monotonic()
        scanning = threading.Thread(target=self._scan, daemon=True)
        self.senders.start()
        scanning.start()
        try:
            for number, (name, deed) in enumerate(self._deeds):
                due = began + self.seconds * (number + 0.5) / len(self._deeds)
                time.sleep(max(0.0, due - time.monotonic()))
                self._happen(name, deed)
            assert self.senders.finish(self.seconds + DRAIN), "not everything was sent"
            self._drain()
        finally:
            self._over.set()
            self.senders.stop()
            scanning.join(200)

    def _happen(self, name: str, deed: Callable[[], str | None]) -> None:
        say(name)
        started = time.monotonic()
        said = deed()
        self.company.revive()
        self.happened.append(f"{name}{f' ({said})' if said else ''} {time.monotonic() - started:.0f} s")

    def _upgrade(self) -> str:
        """As `docs/upgrading.md` says."""
        company = self.company
        company.use(SOURCE)
        found = company.check_upgrade()
        say(found)
        at_once = "nothing to upgrade" not in found and "only adds" not in found
        for node in company.running if at_once else ():
            node.stop()
        for node in company.running:
            if not at_once:
                node.stop()
            node.start()
            node.await_service()
        return "all at once" if at_once else "one after the other"

    def _publish(self) -> str | None:
        self.company.edit(policy=POLICY, slots=SLOTS)
        done = self.company.publish("rehearsal")
        return None if done.returncode == 0 else f"failed: {done.stderr.strip()[-200:]}"

    def _restart(self) -> str | None:
        done = self.company.run("restart", "--all", "--wait", "--yes")
        return None if done.returncode == 0 else f"failed: {done.stderr.strip()[-200:]}"

    def _kill(self) -> None:
        node = self.company.nodes[1]
        node.kill()
        time.sleep(AWAY / 3)

    def _fill_disk(self) -> str | None:
        if not self.company.has_disk:
            return "not run: no tmpfs can be mounted"
        self.company.fill_disk()
        time.sleep(AWAY)
        self.company.free_disk()
        return None

    def _drain(self) -> None:
        """Wait until neither Postfix has anything left."""
        end = time.monotonic() + DRAIN
        while queued := {name: count for name in ("front", "behind") if (count := self.company.count_queued(name))}:
            self.company.revive()
            assert time.monotonic() < end, f"still queued: {queued}"
            time.sleep(1)

    def _scan(self) -> None:
        """Scans over REST. What is not answered with 200 is sent again by no one, and counted."""
        with self.company.client() as client:
            while not self._over.wait(self._pace):
                try:
                    answer = self.company.scan(client)
                except httpx.HTTPError as fault:
                    self.failed.append(type(fault).__name__)
                    continue
                if answer.status_code == 200:
                    self.answered.append(json.loads(answer.text)["ggrid"])
                else:
                    self.failed.append(str(answer.status_code))


def rehearse(
    folder: Path, minutes: float, rate: float, before: Path | None = None, *, is_short: bool = False
) -> tuple[Rehearsal, Outcome]:
    """Run one day; raises where the servers do not come so far that it can be judged. The short form has one restart
    of all nodes, behind the second midnight."""
    with contextlib.ExitStack() as stack:
        company = Company(folder, before / "src" if before else SOURCE)
        stack.callback(company.stop)
        company.start()
        rehearsal = Rehearsal(company, minutes, rate, before, is_short=is_short)
        rehearsal.run()
        return rehearsal, reconcile(company, rehearsal.senders.sent, rehearsal.answered)


def missing() -> str | None:
    """Why nothing can be rehearsed here; None where it can."""
    return postfix_missing() or databases_missing()


def run(minutes: float = MINUTES, rate: float = RATE, before: Path | None = None) -> str:
    """Run one day and return its table."""
    if reason := missing():
        return f"not run: {reason}"
    # So that a run which is ended early ends its servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="gatepost-rehearsal-") as name:
        Path(name).chmod(0o755)
        rehearsal, outcome = rehearse(Path(name), minutes, rate, before)
    return report(rehearsal, outcome, minutes, rate)


def report(rehearsal: Rehearsal, outcome: Outcome, minutes: float, rate: float) -> str:
    """The account as markdown."""
    sent = rehearsal.senders.sent
    again = ", ".join(f"{count} × {what}" for what, count in sorted(sent.again.items())) or "none"
    failed = Counter(rehearsal.failed)
    shown = ", ".join(f"{count} × {what}" for what, count in sorted(failed.items())) or "none"
    setting = (
        f"{minutes:g} minutes at {rate:g} messages a second in the mean, {MAILBOXES:,} mailboxes; load of the machine "
        f"at the end: {os.getloadavg()[0]:.1f}. What was done, in its order: {'; '.join(rehearsal.happened)}."
    )
    account = (
        f"**{outcome.defects} defects**: {len(outcome.lost)} recipients lost, {len(outcome.unexplained)} of "
        f"{len(outcome.doubled)} doubled ones without a server that was unsure, {len(outcome.without_bytes)} held "
        f"without bytes, {len(outcome.answers_without_record)} of {len(rehearsal.answered):,} answers over REST not on "
        f"record. Records are of {outcome.days} days. Refused at the border: {sum(sent.refused.values())}; sent again "
        f"by senders: {again}; scans that failed: {shown}."
    )
    faults = [f"- lost: {name} to {recipient}" for name, recipient in outcome.lost[:20]]
    faults += [f"- doubled: {name} to {recipient}" for name, recipient in outcome.unexplained[:20]]
    faults += [f"- without bytes: {ggrid}" for ggrid in outcome.without_bytes[:20]]
    return "\n".join((setting, "", *outcome.describe(sent), "", account, *faults))
