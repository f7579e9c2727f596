"""Reports about domains: a day for a thousand domains, read, stored and shown.

Five reporters send a report of ten records on each of the domains, on each of the last seven days. Reading is that of a
mail with the gzip file in it, as a worker does it. Pages are asked for over TLS from a service of its own on SQLite,
after one round that is not counted. CPU time is that of the process that answers.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

import msgspec
import psutil
from tests.files.report_samples import aggregate, gzipped, mail, record

from bench.visiting import PASSWORD, Service
from gatepost.domain_reports import DomainReport
from gatepost.files.report_files import read_domain_reports
from gatepost.store import open_store

DOMAINS, REPORTERS, RECORDS, DAYS, ROUNDS = 1_000, 5, 10, 7, 15
DAY = 86_400
READ = 200


def _build(domain: int, reporter: int, day: int) -> bytes:
    name = f"d{domain:04}.example"
    records = [
        record(
            f"192.0.{reporter}.{number}",
            20 - number,
            dkim="pass" if number < 8 else "fail",
            spf="fail",
            header_from=name,
        )
        for number in range(RECORDS)
    ]
    text = aggregate(*records, domain=name, begin=day * DAY, end=day * DAY + DAY - 1, number=f"{day}-{reporter}")
    return mail((f"r{reporter}.example!{name}!{day}.xml.gz", "application/gzip", gzipped(text)))


def run() -> str:
    """The table as markdown."""
    today = int(time.time()) // DAY
    mails = [_build(number, number % REPORTERS, today) for number in range(READ)]
    begun = time.process_time()
    read = [read_domain_reports(raw).reports[0] for raw in mails]
    reading = (time.process_time() - begun) / READ * 1e3
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        writing = asyncio.run(_fill(data, read[0], today))
        service = Service(data, "smtp://127.0.0.1:9")
        try:
            rows = _measure_pages(service)
        finally:
            service.stop()
        size = sum(file.stat().st_size for file in data.glob("gatepost.db*"))
    a_day = REPORTERS * DOMAINS
    stored = f"{DOMAINS:,} domains, {REPORTERS * DOMAINS * DAYS:,} reports"
    return "\n".join(
        (
            f"| {stored} | median, ms | slowest, ms | CPU, ms |",
            "|---|---:|---:|---:|",
            *rows,
            "",
            f"Reading a report of {RECORDS} records takes {reading:.1f} ms of CPU, writing one {writing:.2f} ms.",
            f"A day of {a_day:,} reports: {a_day * (reading + writing) / 1e3:.0f} s of CPU.",
            f"The database has {size / 1e6:.0f} MB after {DAYS} days.",
        )
    )


async def _fill(data: Path, model: DomainReport, today: int) -> float:
    """Store all days; the CPU time of writing a report, in milliseconds."""
    store = open_store("sqlite:gatepost.db", data)
    begun, written = time.process_time(), 0
    try:
        for day in range(today - DAYS + 1, today + 1):
            for number in range(DOMAINS):
                reports = [
                    msgspec.structs.replace(
                        model,
                        domain=f"d{number:04}.example",
                        reporter=f"r{reporter}.example",
                        report_id=f"{day}",
                        begins=day * DAY,
                        ends=day * DAY + DAY - 1,
                    )
                    for reporter in range(REPORTERS)
                ]
                outcomes = await asyncio.gather(*(store.reported_domains.keep(None, each) for each in reports))
                assert set(outcomes) == {"kept"}
                written += len(outcomes)
    finally:
        await store.close()
    return (time.process_time() - begun) / written * 1e3


def _measure_pages(service: Service) -> list[str]:
    service.user("bench", "administrator")
    client = service.client
    client.headers["Accept"] = "text/html"
    assert client.post("/sign-in", data={"name": "bench", "password": PASSWORD}).status_code == 303
    process, rows = psutil.Process(service.pid), []
    pages = (
        ("all domains, 30 days", "/domain-reports"),
        ("all domains, 7 days", "/domain-reports?span=week"),
        ("the tenth page", "/domain-reports?page=10"),
        ("one domain, 30 days", "/domain-reports/d0500.example"),
        ("one domain, a year", "/domain-reports/d0500.example?span=year"),
    )
    for what, path in pages:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        spent, times = sum(process.cpu_times()[:2]), []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            client.get(path)
            times.append((time.perf_counter() - begun) * 1e3)
        spent = (sum(process.cpu_times()[:2]) - spent) / ROUNDS * 1e3
        rows.append(f"| {what} | {median(times):.0f} | {max(times):.0f} | {spent:.0f} |")
    return rows
