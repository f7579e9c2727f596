"""What a sender writes excuses nothing: no check reads such a field but for what is named here; held mail stays held.

The table of claims and of what proves each is in `docs/verdicts.md`; the proofs are properties of `Reading`.
"""

import ast

import pytest
from bench.claims import Result, list_additions, list_held, measure
from bench.corpus import NotPresentError
from tests.source_trees import ROOT, parse_source

CLAIMED = frozenset(
    "list-unsubscribe list-unsubscribe-post list-id list-post mailing-list x-mailing-list precedence in-reply-to "
    "references auto-submitted resent-from x-forwarded-for feedback-id arc-seal".split()
)
# The reading tells claims from proof. Elsewhere the fields are shown as tags of bulk mail, or their absence speaks
# against a reply.
READ_OPENLY = frozenset({"reading.py", "headers/bulk_mail.py", "headers/replies.py"})
CHECKS = ROOT / "checks"
HELD = 60
# Of so many messages with one thing added this part may be delivered.
MOST_DELIVERED = 0.02


@pytest.mark.variant
def test_no_check_reads_what_a_sender_writes_to_be_excused() -> None:
    found = {
        (str(path.relative_to(CHECKS)), node.value)
        for path in CHECKS.rglob("*.py")
        for node in ast.walk(parse_source(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in CLAIMED
    }
    assert {each for each in found if each[0] not in READ_OPENLY} == set()


# A list brings these about itself; what is said in a post it does not.
ABOUT_LISTS = frozenset(
    "files/malware.py headers/bulk_mail.py headers/fields.py headers/replies.py links/hosts.py text/learned.py "
    "sender/authentication.py sender/envelope.py sender/history.py sender/mailboxes.py sender/sending_host.py".split()
)


def test_a_known_list_excuses_no_text() -> None:
    """Checks of wording and of links ask for a known member of the list, or for a known sender."""
    found = {
        str(path.relative_to(CHECKS)) for path in CHECKS.rglob("*.py") if ".is_known_list" in path.read_text("utf-8")
    }
    # What a list is and who wrote in it is told by the reading itself.
    assert found - {"reading.py"} == ABOUT_LISTS


def test_claims_deliver_no_held_mail() -> None:
    """Claims in the header alone; what is added to the text is measured by `python -m bench.claims`."""
    try:
        held = list(list_held(HELD))
    except NotPresentError as fault:
        pytest.skip(f"not run: {fault}")
    fields = ("unsubscribe", "precedence", "list", "answer", "automatic", "service", "forwarded", "signature")
    additions = list_additions(pairs=False)
    results = [measure(held, name, additions[name]) for name in fields]
    assert [result for result in results if not _stays_held(result)] == []


def _stays_held(result: Result) -> bool:
    return result.delivered <= MOST_DELIVERED * result.held and result.never_delivered == 0
