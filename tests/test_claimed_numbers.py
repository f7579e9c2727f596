"""Numbers that sentences of the pages name, beside those of the code: a number that changes makes its sentence fail."""

import pytest
from tests.doc_blocks import ROOT

from gatepost.api import messages as message_api
from gatepost.api.call_limits import LIMITS
from gatepost.checks import composites as conditional_findings
from gatepost.cli import demo
from gatepost.findings import kinds
from gatepost.guard.answers import reputation
from gatepost.policy import conditions
from gatepost.policy.rules import MAX_RULES, shipped_policy
from gatepost.store import held_search, messages, quarantine
from gatepost.store.paging import ROW_BUDGET
from gatepost.store.second_factors import MAX_KEYS
from gatepost.web import openid, routing, second_factors
from gatepost.web.credentials import RECOVERY_CODES
from gatepost.web.pages.sign_in import SESSION_SECONDS

# Page, sentence, what it says, what the code has.
NUMBERS: list[tuple[str, str, object, object]] = [
    (
        "messages-api.md",
        "at most 30,000 rows of results (up to 120,000 of held mail)",
        (30_000, 120_000),
        (ROW_BUDGET, ROW_BUDGET * held_search._TEXTS_REACH),
    ),
    (
        "messages-api.md",
        "compares at most 100 records of results, or 200 of held mail",
        (100, 200),
        (messages.EXAMINED, quarantine.EXAMINED),
    ),
    ("messages-api.md", "| request body | 64 KiB |", 64 << 10, message_api.MAX_BODY),
    ("messages-api.md", "| messages on a page | 500 |", 500, message_api.MAX_PAGE),
    ("messages-api.md", "| messages in a bulk call | 100, four at a time |", 100, message_api.MAX_ACTIONS),
    (
        "messages-api.md",
        "searches, readings, bulk calls | 32, 8, 8 |",
        [32, 8, 8],
        [LIMITS["search"].in_all, LIMITS["view"].in_all, LIMITS["bulk action"].in_all],
    ),
    ("reputation.md", "| Five messages in a row get no answer |", 5, reputation.MAX_FAILURES),
    ("reputation.md", "muted for a minute", 60, reputation.FAILURE_SECONDS),
    ("reputation.md", "muted for ten minutes", 600, reputation.FAULT_SECONDS),
    ("sign-in.md", "up to ten [security keys or passkeys]", 10, MAX_KEYS),
    ("sign-in.md", "the page shows ten recovery codes, once", 10, RECOVERY_CODES),
    ("sign-in.md", "works once, and ends after five minutes", 300_000, second_factors.CHALLENGE_MILLISECONDS),
    (
        "sign-in.md",
        "end after two hours without use and after twelve hours in any case",
        (2 * 3_600_000, 12 * 3_600),
        (routing.IDLE_MILLISECONDS, SESSION_SECONDS),
    ),
    (
        "sign-in.md",
        "limited to 256 KiB and ten seconds. Endpoints and keys are kept for an hour",
        (256 << 10, 10, 3_600),
        (openid.MAX_ANSWER, openid.REQUEST_SECONDS, openid.KEPT_SECONDS),
    ),
    (
        "sign-in.md",
        "RS256, ES256 and EdDSA; the clocks may differ by a minute",
        ("RS256", "ES256", "EdDSA", 60),
        (*openid.ALGORITHMS, openid.LEEWAY_SECONDS),
    ),
    (
        "rule-language.md",
        "A policy can have 200 rules, a condition 2,000 characters and 10,000 steps over lists",
        (200, 2_000, 10_000),
        (MAX_RULES, conditions.MAX_CONDITION, conditions._MAX_STEPS),
    ),
    ("rule-language.md", "all rules of a message 0.1 s of CPU", 0.1, conditional_findings.MAX_SECONDS),
    (
        "rule-language.md",
        "cut after 2,000 characters and lists after 200 items",
        (2_000, 200),
        (conditions.MAX_TEXT, conditions.MAX_ITEMS),
    ),
    (
        "verdicts.md",
        "Text that reads like wanted mail takes off at most 1.5 points",
        -1.5,
        shipped_policy().kinds[kinds.TEXT_MODEL_WANTED.id].weight,
    ),
    ("../README.md", "refuses a service that has tenants, or more than 50 messages", 50, demo.MAX_EARLIER),
    ("accuracy.md", "takes off at most 1.5 points", -1.5, shipped_policy().kinds[kinds.TEXT_MODEL_WANTED.id].weight),
]


@pytest.mark.parametrize(
    ("page", "sentence", "said", "held"), NUMBERS, ids=[f"{row[0]}: {row[1][:40]}" for row in NUMBERS]
)
def test_a_sentence_names_the_numbers_of_the_code(page: str, sentence: str, said: object, held: object) -> None:
    assert sentence in " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    assert said == held
