"""The Python client against a real service that has reached a limit of one caller."""

from typing import Any

import pytest

from gatepost.api.call_limits import LIMITS, CallLimit
from gatepost.client import ApiError, Client, Retries

NONE_FREE = CallLimit(in_all=9, per_tenant=9, per_caller=0)
ONE_FREE = CallLimit(in_all=9, per_tenant=9, per_caller=1)


def dry_run(lists: Any, pauses: list[float], *, room_after: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Try an entry with a client whose pauses are noted; the service has room after so many of them."""

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == room_after:
            monkeypatch.setitem(LIMITS, "dry run", ONE_FREE)

    monkeypatch.setitem(LIMITS, "dry run", NONE_FREE)
    options: dict[str, Any] = {"ca": lists.ca, "retries": Retries(attempts=3), "sleep": pause}
    with Client(lists.url, api_key=lists.key, **options) as client:
        return client.add_entries("blocked-urls", ["retried.example"], dry_run=True)


def test_a_call_over_a_limit_is_made_again_after_the_time_that_the_service_asks_for(
    lists: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    found = dry_run(lists, pauses, room_after=2, monkeypatch=monkeypatch)
    assert found.dry_run is not None
    assert pauses == [5.0, 5.0], "Retry-After of rate_limited"


def test_it_gives_up_after_its_attempts(lists: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    with pytest.raises(ApiError) as caught:
        dry_run(lists, pauses, room_after=9, monkeypatch=monkeypatch)
    assert (caught.value.status, caught.value.code) == (429, "rate_limited")
    assert pauses == [5.0, 5.0]
