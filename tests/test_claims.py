"""Claims of the pages, each with what holds it: a fact that is looked up here, a test that shows it, or both.

A claim that is reworded has to be reworded here, and whoever does so sees what it rests on. A fact that changes makes
its sentence fail.
"""

import re
import tomllib
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.doc_blocks import ROOT

from gatepost import kinds
from gatepost.api.call_limits import LIMITS, CallKind
from gatepost.api.lists import MAX_COMMENT, MAX_ENTRIES
from gatepost.api.openapi import LISTS_VERSION, SCANNING_VERSION
from gatepost.client.calls import RETRIED, Retries
from gatepost.policy.rules import shipped_policy
from gatepost.settings.keys import AbbySettings, GuardSettings, HistorySettings, QuarantineSettings
from gatepost.settings.values import needs_restart
from gatepost.store.learning import MAX_PER_DAY, MAX_POOL

GUARD = GuardSettings.model_validate({"scanSources": {"restApi": {}, "smtp": {}, "milter": {}}})
ABBY = AbbySettings.model_validate({"serviceProviders": {"core": {"hosts": ["https://127.0.0.1:9785"]}}})
RETRIES = Retries()
GIB = 1 << 30

# What opens connections to other machines, by what the pages say of it. Mail is read by none of these modules.
CONNECTING = {
    "abby/core_connections.py": "its cores",
    "client/__init__.py": "the Python client",
    "events/output.py": "receivers of events",
    "events/webhook.py": "receivers of events",
    "feeds/run.py": "feeds",
    "guard/answers/clamd.py": "ClamAV",
    "guard/answers/dns.py": "DNS",
    "guard/quarantine/raw_store.py": "an object store",
    "smtp/ldap.py": "LDAP directories",
    "smtp/routing.py": "next hops",
    "store/": "PostgreSQL",
    "web/openid.py": "OpenID Connect provider",
}
_CONNECTS = re.compile(
    r"\b(?:import|from) (?:httpx|aiohttp|requests|asyncpg|obstore|smtplib|http\.client|urllib\.request)\b"
    r"|\bopen_connection\(|\bcreate_connection\(|\bopen_unix_connection\("
)


def connects_only_as_said() -> bool:
    source = ROOT / "src" / "gatepost"
    found = {
        str(file.relative_to(source)) for file in source.rglob("*.py") if _CONNECTS.search(file.read_text("utf-8"))
    }
    return all(any(name.startswith(known) for known in CONNECTING) for name in found) and len(found) >= 10


def has_limit(kind: CallKind, in_all: int, per_tenant: int, per_caller: int) -> bool:
    limit = LIMITS[kind]
    return (limit.in_all, limit.per_tenant, limit.per_caller) == (in_all, per_tenant, per_caller)


def listens(source: str, port: int) -> bool:
    sources = GUARD.scan_sources
    if source == "abby":
        return ABBY.listen.port == port
    if source == "restApi":
        return sources.rest_api is not None and sources.rest_api.port == port
    if source == "smtp":
        return sources.smtp is not None and sources.smtp.port == port
    return sources.milter is not None and sources.milter.addresses == (f"127.0.0.1:{port}",)


def encrypted_is_clean() -> bool:
    rule = shipped_policy().kinds[kinds.LIMIT_ENCRYPTED.id]
    return (rule.weight, rule.verdict) == (0.0, "clean")


def takes_python(version: str) -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return bool(project["requires-python"] == f">={version}")


class Claim(NamedTuple):
    """A sentence of a page, or the part of it that claims; `test` is `file::function` below `tests`."""

    page: str
    sentence: str
    fact: Callable[[], bool] | None = None
    test: str = ""


CLAIMS = [
    Claim(
        "integrating.md",
        "five attempts, pauses from 0.5 s doubling up to 30 s, or as long as `Retry-After` asks",
        lambda: (RETRIES.attempts, RETRIES.first, RETRIES.longest) == (5, 0.5, 30.0),
        "blackbox/test_client_retries.py::test_it_gives_up_after_its_attempts",
    ),
    Claim("integrating.md", "| 429, 503 | yes, after `Retry-After` seconds |", lambda: {429, 503} <= RETRIED),
    Claim("integrating.md", "| 502, 504 | yes |", lambda: {502, 504} <= RETRIED),
    Claim("integrating.md", "it leaves a 500 to you", lambda: 500 not in RETRIED),
    Claim("integrating.md", "8 for a key, 8 for a tenant, 32 in all", lambda: has_limit("stream", 32, 8, 8)),
    Claim("integrating.md", "2 for a key, 3 for a tenant, 24 in all", lambda: has_limit("dry run", 24, 3, 2)),
    Claim("integrating.md", "`maxGuardRequestsInProcessing`, 20 |", lambda: GUARD.maximum == 20),
    Claim("integrating.md", "`analysisTimeout`, 30 s", lambda: GUARD.analysis_timeout == 30_000),
    Claim("integrating.md", "`stageLimit`, 5 s", lambda: GUARD.stage_limit == 5_000),
    Claim(
        "integrating.md",
        "| length of an entry; of a comment | 1,000 characters each |",
        lambda: MAX_COMMENT == 1_000,
        "blackbox/test_lists.py::test_a_comment_has_at_most_a_thousand_characters_and_null_is_absent",
    ),
    Claim("lists.md", "A call takes at most 500 entries", lambda: MAX_ENTRIES == 500),
    Claim("messages-api.md", "| searches of one token at once | 4 |", lambda: LIMITS["search"].per_caller == 4),
    Claim("messages-api.md", "| bulk calls of one token at once | 2 |", lambda: LIMITS["bulk action"].per_caller == 2),
    Claim(
        "verdicts.md",
        "Within seconds, near-copies of it are judged by the report (`campaign:marked`",
        lambda: "campaign:marked" in shipped_policy().kinds,
        "abby/test_message_api.py::test_a_report_is_on_the_trail_and_marks_the_text",
    ),
    Claim("verdicts.md", "get the tag `limit:encrypted`, which weighs nothing", encrypted_is_clean),
    Claim("threat-model.md", "such mail is `clean` unless something else is found", encrypted_is_clean),
    Claim(
        "faq.md",
        "Rate limits and greylisting are there, and off by default",
        lambda: not GUARD.flow_control.is_on,
        "smtp/test_flow_control.py::test_it_is_off_by_default",
    ),
    Claim("faq.md", "`history.headers: false` leaves the header section out", lambda: HistorySettings().headers),
    Claim("faq.md", "It fetches no link of a message", connects_only_as_said),
    Claim(
        "policy.md",
        "`systemctl reload gatepost`, or SIGHUP. No restart is needed.",
        lambda: not any(needs_restart(GuardSettings, f"policy.{key}") for key in ("file", "tenants", "outbound")),
        "service/test_live_keys.py::test_what_is_live_is_read_by_the_next_generation",
    ),
    Claim(
        "versioning.md",
        "the Email Scanning API `1.1.0`, the List API `1.0.0`",
        lambda: (SCANNING_VERSION, LISTS_VERSION) == ("1.1.0", "1.0.0"),
    ),
    Claim(
        "versioning.md",
        "No version opens the data of a newer one",
        test="store/test_upgrading.py::test_a_newer_schema_is_refused",
    ),
    Claim(
        "glossary.md",
        "a way by which messages reach a core: `restApi`, `smtp`, `milter`, `spamd` or `rspamd`",
        lambda: (
            {each.alias for each in type(GUARD.scan_sources).model_fields.values()}
            == {"restApi", "smtp", "milter", "spamd", "rspamd"}
        ),
    ),
    Claim("requirements.md", "| 9081 | abby", lambda: listens("abby", 9081)),
    Claim("requirements.md", "| 9785 | guard: internal HTTPS source", lambda: listens("restApi", 9785)),
    Claim("requirements.md", "| 10025 | guard: SMTP", lambda: listens("smtp", 10025)),
    Claim("requirements.md", "| 8894 | guard: milter", lambda: listens("milter", 8894)),
    Claim("requirements.md", "Neither makes any other connection", connects_only_as_said),
    Claim("requirements.md", "CPython 3.11 or newer", lambda: takes_python("3.11")),
    Claim("requirements.md", "`workerMemory` (default 1 GiB)", lambda: GUARD.worker_memory == GIB),
    Claim(
        "requirements.md",
        "at most `quarantine.maxSize`, 20 GiB by default",
        lambda: QuarantineSettings().max_size == 20 * GIB,
    ),
    Claim("learning.md", "A pool has at most 10,000 reports", lambda: MAX_POOL == 10_000),
    Claim("learning.md", "adds at most 500 reports a day", lambda: MAX_PER_DAY == 500),
    Claim(
        "web-interface.md",
        "it is excluded from statistics, quarantine, learning and campaign detection",
        test="guard/answers/test_campaigns.py::test_a_trial_is_compared_and_not_remembered",
    ),
    Claim(
        "web-interface.md",
        "excluded from statistics, quarantine, learning",
        test="guard/quarantine/test_quarantine.py::test_a_trial_is_not_held",
    ),
    Claim(
        "web-interface.md",
        "they are defined in `abby.yml` or on the page **Feeds**",
        test="web/test_feeds_pages.py::test_a_feed_is_defined_changed_paused_run_and_deleted",
    ),
    Claim(
        "web-interface.md",
        "The result is stored as a trial: searches find it",
        test="web/test_message_view.py::test_a_scan_is_a_trial_and_no_mail",
    ),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page}: {claim.sentence[:40]}")
def test_a_claim_stands_in_its_page_and_holds(claim: Claim) -> None:
    page = " ".join((ROOT / "docs" / claim.page).read_text("utf-8").split())
    assert claim.sentence in page
    assert claim.fact or claim.test, "a claim needs what holds it"
    if claim.fact:
        assert claim.fact()
    if claim.test:
        file, _, name = claim.test.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8")


def test_there_are_many_of_them() -> None:
    assert len(set(CLAIMS)) == len(CLAIMS) >= 30


def test_a_connection_that_no_page_names_would_be_seen() -> None:
    assert _CONNECTS.search("    import httpx\n")
    assert _CONNECTS.search("await asyncio.open_connection(host, 80)")
    assert not _CONNECTS.search("from gatepost.smtp import replies")
