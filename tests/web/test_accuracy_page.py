"""The page of accuracy: what counts as a mistake, against which numbers, and who sees whose."""

import re
from typing import Any

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Decision, Verdict
from gatepost.store.audit import CLI, Actor
from gatepost.store.feedback import MailReport, ReportedMessage
from gatepost.store.message_records import TRIAL, MessageRecord
from gatepost.times import now

ANN, BOB = Actor("user", "ann"), Actor("user", "bob")
DAY = 86_400_000


def decide(
    site: Any,
    tenant: str,
    verdict: Verdict,
    decision: Decision,
    subject: str = "Offer",
    *tags: str,
    ago: int = 0,
    source: str = "",
) -> str:
    report = Report(verdict, decision, tags, 600, "", subject=subject)
    moment = now() - ago
    envelope = Envelope("shop@x.example", ("bob@rcpt.example",), tenant=tenant)
    record = MessageRecord(new_id(), moment, moment, envelope, 1, "00" * 32, report, source=source)
    site.run(site.store.messages.record(record))
    if decision == "quarantine":
        site.run(site.store.quarantine.hold(record))
    ggrid: str = record.ggrid
    return ggrid


def rows(page: str, section: str) -> dict[str, list[str]]:
    """The cells of a table by its first one."""
    table = page[page.index(f'id="{section}"') :].partition("</table>")[0]
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL):
        cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        if cells:
            found[cells[0]] = cells[1:]
    return found


def test_what_people_say_is_counted_by_verdict_and_finding(site: Any, tenant: str) -> None:
    spam = [decide(site, tenant, "spam", "quarantine", f"Spam {n}", "text:model-spam") for n in range(8)]
    phish = [decide(site, tenant, "phishing", "quarantine", f"Lure {n}", "url:lookalike-domain") for n in range(2)]
    clean = [decide(site, tenant, "clean", "deliver", f"Letter {n}") for n in range(10)]
    report = site.store.feedback.report_wrong
    site.run(site.store.quarantine.mark_released_to(spam[0], "bob@rcpt.example", ANN, new_id()))
    site.run(report(spam[1], "should have been delivered", BOB, tenant))
    site.run(report(spam[2], "should have been held", BOB, tenant))
    site.run(report(phish[0], "should have been held", ANN, tenant))
    # Who changes their mind is taken at the last word.
    site.run(report(phish[1], "should have been delivered", ANN, tenant))
    site.run(report(phish[1], "should have been held", ANN, tenant))
    site.run(report(clean[0], "should have been held", ANN, tenant))
    mailed = MailReport(new_id(), tenant, Actor("mail", "carol@x.example"), True, (ReportedMessage("11" * 32, b""),))
    site.run(site.store.feedback.report_mail(mailed))

    page = site.visitor(tenant=tenant).get("/accuracy").text
    found = rows(page, "verdicts")
    assert found["spam"] == ["8", "2", "25 %", "1", "0", "0", "–"]
    assert found["phishing"] == ["2", "0", "0 %", "2", "0", "0", "–"]
    assert found["clean"] == ["0", "0", "–", "0", "10", "1", "10 %"]
    assert found["All"] == ["10", "2", "20 %", "3", "10", "1", "10 %"]
    assert "5 of 10 held messages were released, reported or deleted by hand" in page
    assert "1 as unwanted, 0 as wanted" in page
    assert rows(page, "mistaken").keys() == {"Spam 0", "Spam 1"}
    assert rows(page, "missed").keys() == {"Letter 0"}
    ((title, numbers),) = rows(page, "findings").items()
    assert numbers == ["2", "8", "25 %"]
    assert title != "text:model-spam", "findings have their titles"


def test_messages_of_another_period_and_trials_do_not_count(site: Any, tenant: str) -> None:
    old = decide(site, tenant, "spam", "quarantine", "Old", ago=20 * DAY)
    tried = decide(site, tenant, "spam", "quarantine", "Tried", source=TRIAL)
    for ggrid in (old, tried):
        site.run(site.store.feedback.report_wrong(ggrid, "should have been delivered", ANN, tenant))
    visitor = site.visitor(tenant=tenant)
    assert "No mail yet" in visitor.get("/accuracy", params={"span": "week"}).text
    month = visitor.get("/accuracy", params={"span": "month"}).text
    assert rows(month, "verdicts")["spam"][:2] == ["1", "1"]
    assert rows(month, "mistaken").keys() == {"Old"}


def test_a_message_that_was_deleted_and_restored_was_not_confirmed(site: Any, tenant: str) -> None:
    ggrid = decide(site, tenant, "spam", "quarantine", "Twice")
    visitor = site.visitor(tenant=tenant)
    site.run(site.store.quarantine.delete(ggrid, ANN, for_good=False))
    assert rows(visitor.get("/accuracy").text, "verdicts")["spam"][3] == "1"
    site.run(site.store.quarantine.restore(ggrid, ANN))
    assert rows(visitor.get("/accuracy").text, "verdicts")["spam"][3] == "0"


def test_a_tenant_sees_its_own_and_the_deployment_sees_all(site: Any, tenant: str) -> None:
    ggrid = decide(site, tenant, "spam", "quarantine", "Theirs <b>alone</b>")
    site.run(site.store.feedback.report_wrong(ggrid, "should have been delivered", CLI))
    other = site.visitor(tenant=site.new_tenant())
    assert "Theirs" not in other.get("/accuracy").text
    assert other.get("/accuracy", params={"tenant": tenant}).status_code == 404
    everybody = site.visitor()
    assert "Theirs &lt;b&gt;alone&lt;/b&gt;" in everybody.get("/accuracy").text
    assert "Theirs" in everybody.get("/accuracy", params={"tenant": tenant}).text
    assert everybody.get("/accuracy", params={"span": "' OR 1=1"}).status_code == 200
