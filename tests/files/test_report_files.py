"""Reports about domains are read as seven generators write them, and whatever strangers send costs bounded work."""

import gzip
import io
import zipfile
import zlib

import msgspec
import pytest
from tests.files.report_samples import (
    BEGIN,
    DAY,
    FAILURE,
    FASTMAIL,
    GOOGLE,
    MICROSOFT,
    MIMECAST,
    OPENDMARC,
    RSPAMD,
    TLS,
    YAHOO,
    aggregate,
    bare,
    gzipped,
    mail,
    record,
    zipped,
)
from tests.variants import one_in

from gatepost.domain_reports import MAX_COUNT, MAX_ROWS, DomainReport, DomainReports, SourceRow
from gatepost.files.report_files import read_domain_reports

NAME = "r.example!y.example!1763251200!1763337599"
FORMS = {
    "google": mail(("google.com!y.example!1.zip", "application/zip", zipped(GOOGLE))),
    "microsoft": mail(("protection.outlook.com!y.example!1.xml.gz", "application/gzip", gzipped(MICROSOFT))),
    "yahoo": mail(("yahoo.com!y.example!1.xml.gz", "application/octet-stream", gzipped(YAHOO))),
    "mimecast": bare(zipped(MIMECAST), "application/x-zip-compressed", f"{NAME}.zip"),
    "fastmail": bare(gzipped(FASTMAIL), "application/gzip", f"{NAME}.xml.gz"),
}


def read_one(raw: bytes) -> DomainReport:
    found = read_domain_reports(raw)
    assert len(found.reports) == 1, found.problems
    # As it goes from a worker to guard, which checks every bound.
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=DomainReports) == found
    return found.reports[0]


def test_google() -> None:
    report = read_one(FORMS["google"])
    row = SourceRow("2001:db8::25", 7, True, False, "none", ("y.example", "y.example", "bounces.esp.example", ""))
    assert report == DomainReport(
        "dmarc", "y.example", "google.com", "12345678901234567890", BEGIN, BEGIN + DAY - 1, "none",
        "p=none; sp=none; np=none; adkim=r; aspf=r; pct=100", 7, 0, (row,),
    )  # fmt: skip


def test_microsoft() -> None:
    report = read_one(FORMS["microsoft"])
    assert (report.reporter, report.policy, report.passed, report.failed) == ("Enterprise Outlook", "quarantine", 40, 3)
    assert [(row.source, row.count, row.dkim, row.spf, row.result) for row in report.rows] == [
        ("192.0.2.5", 40, True, True, "none"),
        ("192.0.2.77", 3, False, False, "quarantine"),
    ]


def test_yahoo() -> None:
    report = read_one(FORMS["yahoo"])
    assert (report.reporter, report.policy, report.failed) == ("Yahoo", "reject", 2)
    assert report.rows == (
        SourceRow("198.51.100.9", 2, False, False, "reject", ("y.example", "", "forger.example", "")),
    )


def test_mimecast() -> None:
    report = read_one(FORMS["mimecast"])
    assert (report.domain, report.reporter, report.passed) == ("y.example", "Mimecast.Org", 11)
    details = ("news.y.example", "", "news.y.example", "forwarded")
    assert report.rows == (SourceRow("192.0.2.5", 11, False, True, "none", details),)


def test_fastmail_and_rfc_9990() -> None:
    report = read_one(FORMS["fastmail"])
    assert (report.reporter, report.report_id, report.passed) == ("Fastmail Pty Ltd", "667788", 5)
    assert report.published == "p=quarantine; sp=none; np=reject; testing=y; fo=1"
    assert report.rows[0].result == "pass"


def test_rspamd() -> None:
    report = read_one(mail((f"{NAME}.xml.gz", "application/gzip", gzipped(RSPAMD))))
    assert (report.reporter, report.published, report.passed) == ("R & D", "p=none; adkim=r; aspf=s; pct=100", 3)
    details = ("y.example", "y.example", "", "sampled_out")
    assert report.rows == (SourceRow("2001:db8::25", 3, True, False, "none", details),)


def test_opendmarc() -> None:
    report = read_one(mail((f"{NAME}.xml", "application/gzip", gzipped(OPENDMARC))))
    assert (report.reporter, report.policy, report.failed) == ("mx.r.example", "reject", 2)
    details = ("y.example", "forger.example", "forger.example", "local_policy")
    assert report.rows == (SourceRow("198.51.100.9", 2, False, False, "reject", details),)


@pytest.mark.parametrize("kind", ["text/xml", "application/octet-stream", "application/zip", "text/plain"])
@pytest.mark.parametrize("packed", one_in(2, ["plain", "zip", "gzip", "gzip in zip"]))
def test_content_and_not_its_name_decides(kind: str, packed: str) -> None:
    content = {
        "plain": GOOGLE.encode(), "zip": zipped(GOOGLE), "gzip": gzipped(GOOGLE), "gzip in zip": zipped(gzipped(GOOGLE))
    }[packed]  # fmt: skip
    if kind.startswith("text/") and packed != "plain":
        kind = "application/pdf"
    if kind.startswith("text/"):
        raw = mail((f"{NAME}.dat", "application/octet-stream", content)).replace(
            b"application/octet-stream", kind.encode()
        )
    else:
        raw = mail((f"{NAME}.dat", kind, content))
    assert read_one(raw).report_id == "12345678901234567890"


def test_tls_reports_are_one_for_each_policy() -> None:
    found = read_domain_reports(mail(("r!y.example!1!2.json.gz", "application/tlsrpt+gzip", gzipped(TLS))))
    first, second = found.reports
    assert (first.kind, first.domain, first.reporter, first.policy) == ("tls", "y.example", "Google Inc.", "sts")
    assert (first.passed, first.failed, first.begins) == (120, 4, BEGIN)
    assert first.rows == (
        SourceRow("mx.y.example", 3, result="certificate-expired", details=("2001:db8::1",)),
        SourceRow("old.y.example", 1, result="starttls-not-supported", details=("192.0.2.33",)),
    )
    assert (second.domain, second.policy, second.passed) == ("z.y.example", "no-policy-found", 9)
    assert first.report_id != second.report_id


def test_a_failure_report_names_no_person() -> None:
    report = read_one(FAILURE)
    assert (report.kind, report.domain, report.reporter, report.failed) == ("failure", "y.example", "mx.r.example", 1)
    assert report.rows == (SourceRow("198.51.100.9", 1, result="dmarc", details=("reject", "")),)
    assert "ann" not in repr(report)
    assert "person" not in repr(report)
    assert not read_domain_reports(FAILURE.replace(b"auth-failure", b"abuse")).reports


def test_several_reports_in_one_mail_and_one_twice() -> None:
    files = [(f"{n}.xml.gz", "application/gzip", gzipped(aggregate(number=str(n)))) for n in range(30)]
    found = read_domain_reports(mail(*files, *files))
    assert [each.report_id for each in found.reports] == [str(n) for n in range(20)]


def test_records_that_are_alike_are_one_and_those_beyond_the_limit_keep_their_sums() -> None:
    alike = read_one(mail(("r.xml", "text/xml", aggregate(*(record() for _ in range(50))).encode())))
    assert [(row.source, row.count) for row in alike.rows] == [("192.0.2.1", 50)]
    many = [record(f"10.{n >> 8}.{n & 255}.1", 2, dkim="pass" if n % 2 else "fail", spf="fail") for n in range(5_000)]
    report = read_one(mail(("r.xml.gz", "application/gzip", gzipped(aggregate(*many)))))
    assert len(report.rows) <= MAX_ROWS
    assert report.passed == report.failed == 5_000
    assert report.left_out == 5_000 - (MAX_ROWS - 8)


BOMB = gzip.compress(b"<feedback>" + b" " * (60 << 20), 9)
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True)
) + "]>"  # fmt: skip
XML = aggregate().encode()
HEAD, TAIL = XML.split(b"<record>", 1)[0], b"</feedback>"


def wrapped(times: int) -> bytes:
    content: bytes = XML
    for _ in range(times):
        content = zipped(content, "r.zip")
    return content


def many_files() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for n in range(2_000):
            archive.writestr(f"{n}.xml", b"<feedback/>")
    return target.getvalue()


# The flag of encryption, in the head of the file and in the directory.
ENCRYPTED = zipped(XML).replace(b"PK\x03\x04\x14\0\0", b"PK\x03\x04\x14\0\1")
ENCRYPTED = ENCRYPTED.replace(b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\1")

HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "blanks": b" \r\n" * 1_000,
    "no XML": b"<feedback",
    "another root": b"<?xml version='1.0'?><html><feedback/></html>",
    "an empty report": b"<feedback/>",
    "a document type": b"<!DOCTYPE feedback>" + XML[38:],
    "billions of laughs": LAUGHS.encode() + b"<feedback>&i;</feedback>",
    "an external entity": b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><feedback><a>&e;</a></feedback>',
    "a parameter entity": b'<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1/x"> %p;]><feedback/>',
    "an entity that is not declared": XML.replace(b"r.example</org_name>", b"&x;</org_name>"),
    "a gzip bomb": BOMB,
    "a zip with a bomb": zipped(BOMB),
    "a zip in a zip in a zip in a zip": wrapped(4),
    "two thousand files": many_files(),
    "half a gzip": gzipped(XML)[:-20],
    "gzip with a wrong sum": gzipped(XML)[:-8] + b"\0" * 8,
    "half a zip": zipped(XML)[: len(zipped(XML)) // 2],
    "gzip of nothing": gzipped(b""),
    "zlib without a head": zlib.compress(XML),
    "deep elements": HEAD + b"<a>" * 10_000,
    "deep and closed": b"<feedback>" + b"<a>" * 1_000 + b"</a>" * 1_000 + TAIL,
    "many elements": b"<feedback>" + b"<a/>" * 1_000_001 + TAIL,
    "many attributes": b"<feedback " + b" ".join(b'a%d="x"' % n for n in range(20_000)) + b"/>",
    "one attribute of a megabyte": b'<feedback a="' + b"x" * (1 << 20) + b'"/>',
    "a name of a megabyte": b"<feedback><" + b"a" * (1 << 20) + b"/></feedback>",
    "a text of ten megabytes": b"<feedback><a>" + b"x" * (10 << 20) + b"</a></feedback>",
    "no end": XML[:-20],
    "bytes behind the end": XML + b"<more/>",
    "wrong nesting": XML.replace(b"</row>", b"</raw>"),
    "NUL": XML.replace(b"r.example", b"r\0example"),
    "invalid UTF-8": XML.replace(b"r.example", b"r\xff\xfe\xfdexample"),
    "an unknown encoding": XML.replace(b'encoding="UTF-8"', b'encoding="x-evil"'),
    "UTF-7": XML.replace(b'encoding="UTF-8"', b'encoding="UTF-7"'),
    "no domain": XML.replace(b"<domain>y.example</domain><p>", b"<p>"),
    "a domain that is an address": aggregate(domain="192.0.2.1").encode(),
    "a domain with a path": aggregate(domain="../../etc/passwd").encode(),
    "a domain with markup": aggregate(domain="&lt;script&gt;.example").encode(),
    "a domain of 10,000 letters": aggregate(domain="a" * 10_000 + ".example").encode(),
    "no period": aggregate(begin="", end="").encode(),
    "a period that ends before it begins": aggregate(begin=BEGIN + 1, end=BEGIN).encode(),
    "a period with letters": aggregate(begin="soon").encode(),
    "a negative period": aggregate(begin=-5).encode(),
    "a period beyond all dates": aggregate(begin="9" * 400, end="9" * 400).encode(),
    "a TLS report without a period": TLS.replace("date-range", "range").encode(),
    "a TLS report with a list of nothing": b'{"policies": []}',
    "a TLS report of numbers": b'{"policies": [1, {"policy": 3}], "date-range": {"start-datetime": 1}}',
    "JSON that is deep": b'{"policies": ' + b"[" * 100_000,
    "JSON that is cut": TLS.encode()[:-30],
    "JSON with half a character": b'{"policies": "\\ud800"}',
    "a program": b"MZ" + b"\0" * 5_000,
    "HTML": b"<html><script>feedback</script></html>",
    "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><feedback/></svg>",
    "an encrypted zip": ENCRYPTED,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_no_reports(name: str) -> None:
    found = read_domain_reports(mail(("r.xml", "application/octet-stream", HOSTILE[name])))
    assert found.reports == ()
    assert all(len(each) <= 255 and each.isprintable() for each in found.problems)


def test_there_are_enough_hostile_ones() -> None:
    assert len(HOSTILE) >= 50


ODD = {
    "count": ("<count>1</count>", "<count>-5</count>", 0),
    "no count": ("<count>1</count>", "<count></count>", 1),
    "a count beyond all mail": ("<count>1</count>", "<count>" + "9" * 40 + "</count>", 0),
    "no source": ("192.0.2.1", "", 1),
    "a source that is a name": ("192.0.2.1", "mail.example", 1),
    "a disposition of its own": ("<disposition>none<", "<disposition>evil<", 1),
    "upper case": ("<feedback>", "<FEEDBACK>", 1),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_records_do_not_cost_the_report(name: str) -> None:
    before, after, count = ODD[name]
    text = aggregate().replace(before, after)
    if name == "upper case":
        text = text.replace("</feedback>", "</FEEDBACK>")
    report = read_one(mail(("r.xml", "text/xml", text.encode())))
    assert report.messages == count
    assert all(row.result in ("none", "quarantine", "reject", "pass") for row in report.rows)


def test_counts_that_add_up_beyond_all_mail_stay_within_their_bound() -> None:
    report = read_one(mail(("r.xml", "text/xml", aggregate(*(record(count="9" * 15) for _ in range(5))).encode())))
    assert [row.count for row in report.rows] == [MAX_COUNT]
    assert report.messages == MAX_COUNT


def test_text_of_a_report_is_cut_and_plain() -> None:
    text = aggregate(number="\u202e" + "x" * 1_000).replace(
        "r.example</org_name>", "<![CDATA[<b>\u0007&\n]]></org_name>"
    )
    report = read_one(mail(("r.xml", "text/xml", text.replace("\u0007", "").encode())))
    assert report.reporter == "<b>&"
    assert len(report.report_id) == 255
    assert report.report_id.isascii()
