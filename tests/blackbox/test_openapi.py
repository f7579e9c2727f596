"""What the OpenAPI documents say is what the running service does: schemathesis calls it in many ways, and in every way
it knows where there is time.

Requests are generated when a test runs: at collection, as its decorator does it, they took a fifth of the time, in
every process of a parallel run.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import FlakyFailure
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.core.result import Ok
from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test
from schemathesis.openapi.checks import RejectedPositiveData
from tests.blackbox.conftest import READER
from tests.variants import one_in

from gatepost.api.openapi import LISTS_API, SCANNING, Interface, document

SOME = [HypothesisTestMode.EXAMPLES, HypothesisTestMode.FUZZING]
# Also the edges of every type and length, and one step beyond each.
EVERY = [*SOME, HypothesisTestMode.COVERAGE]


def labels(interface: Interface, *, on_record: bool = False) -> list[str]:
    """The operations of an interface: those on messages that are on record, or all others."""
    found = [f"{each.method.upper()} {each.path}" for each in interface.operations]
    return [label for label in found if (" /v1/messages/" in label or " /v1/heldMessages/" in label) == on_record]


SCANS, RECORDS, LISTS = labels(SCANNING), labels(SCANNING, on_record=True), labels(LISTS_API)


@cache
def load_operations(of_lists: bool) -> dict[str, Any]:
    load_all_checks()
    schema = schemathesis.openapi.from_dict(document(LISTS_API if of_lists else SCANNING))
    found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
    return {operation.label: operation for operation in found}


def try_operation(label: str, call: Callable[[Any], None], modes: list[HypothesisTestMode], examples: int) -> None:
    """Make so many requests of an operation, the same in each run."""
    operation = load_operations(label in LISTS)[label]
    stated = settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )

    def called(case: Any) -> None:
        call(case)

    config = HypothesisTestConfig(project=operation.schema.config, modes=modes, settings=stated)
    try:
        create_test(operation=operation, test_func=called, config=config)()
    except FlakyFailure as failure:
        # Python before 3.11.5 now and then fails to parse sources while other threads run, which hypothesis does to
        # name its strategies (https://github.com/python/cpython/issues/106905). It says so by this exception alone.
        if not all(isinstance(each, SystemError) for each in failure.exceptions):
            raise
        create_test(operation=operation, test_func=called, config=config)()


@pytest.fixture
def patient(start: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A service that lets one guess; schemathesis tries wrong tokens too."""
    monkeypatch.setattr("gatepost.abby.authenticator.FREE_GUESSES", 1_000_000)
    return start()


@pytest.fixture
def patient_lists(lists: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("gatepost.abby.authenticator.FREE_GUESSES", 1_000_000)
    return lists


def call_scanning(case: Any, patient: Any) -> None:
    try:
        case.call_and_validate(base_url=patient.url, headers={"Authorization": f"Bearer {READER}"}, verify=patient.ca)
    except* AcceptedNegativeData as accepted:
        # To violate a pattern schemathesis appends "*", which any text without CR, LF and NUL may hold.
        wrong = [failure for failure in accepted.exceptions if "violates `pattern`" not in str(failure)]
        assert not wrong, wrong


@pytest.mark.parametrize("label", SCANS)
def test_it_does_what_it_says(label: str, patient: Any) -> None:
    try_operation(label, lambda case: call_scanning(case, patient), SOME, 5)


@pytest.mark.long
@pytest.mark.parametrize("label", SCANS)
def test_it_does_what_it_says_in_every_way(label: str, patient: Any) -> None:
    try_operation(label, lambda case: call_scanning(case, patient), EVERY, 20)


def call_records(case: Any, lists: Any) -> None:
    try:
        case.call_and_validate(base_url=lists.url, headers={"Authorization": f"Bearer {READER}"}, verify=lists.ca)
    except* RejectedPositiveData as rejected:
        # To a schema 220.0 is an integer; here no number is taken for another. The group's text has the answer.
        if "limit must be a whole number" not in rejected.message:
            raise


# One engine will do: what is tried is how requests are read. PostgreSQL takes less than SQLite does.
@pytest.mark.parametrize("lists", ["postgresql"], indirect=True)
@pytest.mark.parametrize("label", one_in(4, RECORDS))
def test_operations_on_messages_do_what_they_say(label: str, patient_lists: Any) -> None:
    try_operation(label, lambda case: call_records(case, patient_lists), SOME, 3)


@pytest.mark.long
@pytest.mark.parametrize("lists", ["postgresql"], indirect=True)
@pytest.mark.parametrize("label", RECORDS)
def test_operations_on_messages_do_what_they_say_in_every_way(label: str, patient_lists: Any) -> None:
    try_operation(label, lambda case: call_records(case, patient_lists), EVERY, 6)


def call_lists(case: Any, lists: Any) -> None:
    try:
        case.call_and_validate(base_url=lists.url, headers={"Authorization": f"apikey {lists.key}"}, verify=lists.ca)
    except* RejectedPositiveData as rejected:
        # Which texts are entries of a list is more than a schema can say.
        wrong = [failure for failure in rejected.exceptions if "invalid_entry" not in str(failure)]
        assert not wrong, wrong


@pytest.mark.parametrize("lists", ["sqlite", pytest.param("postgresql", marks=pytest.mark.variant)], indirect=True)
@pytest.mark.parametrize("label", one_in(2, LISTS))
def test_the_list_api_does_what_it_says(label: str, patient_lists: Any) -> None:
    try_operation(label, lambda case: call_lists(case, patient_lists), SOME, 4)


@pytest.mark.long
@pytest.mark.parametrize("label", LISTS)
def test_the_list_api_does_what_it_says_in_every_way(label: str, patient_lists: Any) -> None:
    try_operation(label, lambda case: call_lists(case, patient_lists), EVERY, 10)


def test_no_operation_is_left_out() -> None:
    assert sorted([*SCANS, *RECORDS]) == sorted(load_operations(False))
    assert sorted(LISTS) == sorted(load_operations(True))
