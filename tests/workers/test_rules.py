"""What an operator adds to sealed workers: YARA rules that the loader compiles, and an antivirus that guard asks."""

from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.workers.pools import running

from gatepost.analysis.report import Report
from gatepost.policy.rules import OwnRule, shipped_policy
from gatepost.questions import Answers, Antivirus, AskAntivirus, Questions
from gatepost.scanning.spool import BytesBody
from gatepost.workers import warmup
from gatepost.workers.jobs import Job
from gatepost.workers.pool import PoolSettings
from gatepost.workers.protocol import JUDGE
from gatepost.workers.supervisor import SealError

RULES = 'import "pe"\nrule Invoice { strings: $a = "invoice" condition: $a }\nrule Program { condition: pe.is_pe }'


def mail(content: bytes) -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@sender.example", "hello"
    message.set_content("see the file\n")
    message.add_attachment(content, maintype="application", subtype="octet-stream", filename="a.bin")
    return message.as_bytes()


async def reports(rules: Path, *raws: bytes) -> list[Report]:
    settings = PoolSettings(1, 60.0, 20.0, 256 << 20, rules=str(rules))
    expression = OwnRule('subject.matches("^h[a-z]{2}lo$")', "Greeting", "spam", weight=0.1)
    policy = msgspec.structs.replace(shipped_policy(), rules={"greeting": expression})
    async with running(settings, policy=policy) as pool:
        return [await pool.run(Job(JUDGE, "x", warmup.ENVELOPE, BytesBody(raw), warmup.NOW)) for raw in raws]


async def test_rules_are_tried_in_sealed_workers(tmp_path: Path) -> None:
    (tmp_path / "own.yar").write_text(RULES, "utf-8")
    hit, miss = await reports(tmp_path, mail(b"an invoice\n"), mail(b"a letter\n"))
    assert (hit.verdict, "file:yara" in hit.tags) == ("policy", True)
    assert {"rule:greeting"} <= set(hit.tags) & set(miss.tags), "a regular expression in a condition"
    assert [line.facts for line in hit.lines if line.kind == "file:yara"] == [{"rule": "Invoice", "source": "own.yar"}]
    assert miss.outcomes == ()
    assert "file:yara" not in miss.tags


async def test_faulty_rules_stop_the_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yar").write_text("rule x {", "utf-8")
    with pytest.raises(SealError):
        await reports(tmp_path)
    assert "yara.folder has a faulty rule in bad.yar, line 1" in capfd.readouterr().err


async def test_the_antivirus_is_asked_where_there_is_one() -> None:
    asked: list[Questions] = []

    async def answer(_job: Job[Any], questions: Questions) -> Answers:
        asked.append(questions)
        known = warmup.answers_to(questions)
        return tuple(
            Antivirus("found", "Test.Bad") if isinstance(question, AskAntivirus) else given
            for question, given in zip(questions, known, strict=True)
        )

    async def judge(*, antivirus: bool) -> Report:
        async with running(PoolSettings(1, 60.0, 20.0, 256 << 20, antivirus=antivirus), answer) as pool:
            return await pool.run(Job(JUDGE, "x", warmup.ENVELOPE, BytesBody(mail(b"x")), warmup.NOW))

    assert "file:antivirus" in (await judge(antivirus=True)).tags
    assert any(AskAntivirus() in questions for questions in asked)
    asked.clear()
    assert (await judge(antivirus=False)).verdict == "clean"
    assert not any(AskAntivirus() in questions for questions in asked)
