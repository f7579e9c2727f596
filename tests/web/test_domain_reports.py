"""The pages of domain reports: who sees which domains, the figures, the next step, and hostile names as plain text."""

from typing import Any

from gatepost.domain_reports import DomainReport, SourceRow
from gatepost.times import now

TODAY = now() // 86_400_000


def keep(site: Any, tenant: str | None, domain: str = "y.example", *, day: int = TODAY, **changes: Any) -> None:
    rows = changes.pop(
        "rows",
        (
            SourceRow("192.0.2.1", 90, True, True, "none", (domain, domain, domain, "")),
            SourceRow("198.51.100.9", 10, False, False, "reject", (domain, "", "forger.example", "")),
        ),
    )
    passed = sum(row.count for row in rows if row.passed)
    failed = sum(row.count for row in rows if not row.passed)
    stated = {"policy": "none", "published": "p=none", "passed": passed, "failed": failed, "rows": rows, **changes}
    kind = stated.pop("kind", "dmarc")
    begins = day * 86_400
    report = DomainReport(kind, domain, "google.com", f"{domain}{day}{kind}", begins, begins + 86_399, **stated)
    assert site.run(site.store.reported_domains.keep(tenant, report)) == "kept"


def test_a_tenant_sees_its_domains_and_the_next_step(site: Any, tenant: str) -> None:
    for day in range(TODAY - 19, TODAY + 1):
        keep(site, tenant, day=day)
    keep(site, None, "op1.example")
    visitor = site.visitor(tenant=tenant)
    page = visitor.get("/domain-reports").text
    assert "1 domain, 2,000 messages in 30 days" in page
    assert 'href="/domain-reports/y.example?"' in page
    assert "op1.example" not in page
    page = visitor.get("/domain-reports/y.example").text
    assert "1,800 of 2,000 messages, on 20 days" in page
    assert "Look at the sources below, of which no mail passed." in page
    assert "then publish p=quarantine" in page
    assert "SPF domain forger.example" in page
    assert "0 held as suspicious, 200 refused by their receivers" in page
    assert "google.com" in page
    assert visitor.get("/domain-reports/op1.example").status_code == 404
    assert visitor.get("/domain-reports/y.example?span=week").text.count("700 messages") == 1


def test_the_deployment_sees_all_and_chooses(site: Any, tenant: str) -> None:
    keep(site, tenant)
    keep(site, None, "op2.example", policy="reject", rows=(SourceRow("192.0.2.1", 5, True, True, "none", ()),))
    visitor = site.visitor()
    page = visitor.get("/domain-reports").text
    assert f'href="/domain-reports/y.example?tenant={tenant}"' in page
    assert 'href="/domain-reports/op2.example?"' in page
    assert page.index("y.example") < page.index("op2.example"), "most failures first"
    assert "op2.example" not in visitor.get(f"/domain-reports?tenant={tenant}").text
    assert visitor.get(f"/domain-reports/y.example?tenant={tenant}").status_code == 200
    assert visitor.get("/domain-reports/y.example").status_code == 404
    assert "The policy is reject" in visitor.get("/domain-reports/op2.example").text


def test_tls_and_failures(site: Any, tenant: str) -> None:
    expired = SourceRow("mx.y.example", 3, result="certificate-expired", details=("192.0.2.33",))
    keep(site, tenant, kind="tls", policy="sts", published="sts", passed=120, failed=3, rows=(expired,))
    refused = SourceRow("198.51.100.9", 1, result="dmarc", details=("reject", ""))
    keep(site, tenant, kind="failure", policy="", published="", rows=(refused,))
    visitor = site.visitor(tenant=tenant)
    assert "No reports yet" in visitor.get("/domain-reports").text
    assert "1 domain, 123 sessions in 30 days" in visitor.get("/domain-reports?kind=tls").text
    page = visitor.get("/domain-reports/y.example?kind=tls").text
    assert "certificate-expired" in page
    assert "Next step" not in page
    assert "198.51.100.9" in visitor.get("/domain-reports/y.example?kind=failure").text


def test_names_that_strangers_choose_are_text(site: Any, tenant: str) -> None:
    evil = "<script>alert(1)</script>"
    row = SourceRow(evil, 5, False, False, evil, (evil, evil, evil, evil))
    keep(site, tenant, policy=evil[:20], published=evil, rows=(row,))
    for path in ("/domain-reports", "/domain-reports/y.example"):
        assert "<script>alert" not in site.visitor(tenant=tenant).get(path).text


def test_many_domains_come_in_pages(site: Any, tenant: str) -> None:
    for number in range(101):
        keep(site, tenant, f"d{number:03}.example")
    visitor = site.visitor(tenant=tenant)
    first, second = (visitor.get(f"/domain-reports?page={page}").text for page in (1, 2))
    assert "Page 1 of 2" in first
    assert "d100.example" not in first
    assert "d100.example" in second
    assert "Page 2 of 2" in visitor.get("/domain-reports?page=99999").text
    assert "Page 1 of 2" in visitor.get("/domain-reports?page=x").text
