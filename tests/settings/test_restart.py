"""Which keys a running service takes over, and which hold for one machine alone."""

from collections.abc import Iterator

import pytest

from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import (
    Section,
    at_start,
    find_section,
    group,
    is_local,
    keep_restart_keys,
    list_changes,
    live,
    needs_restart,
)

MODELS: tuple[type[Section], ...] = (GuardSettings, AbbySettings)


def walk(model: type[Section]) -> Iterator[tuple[type[Section], str]]:
    """Every field of a section and of those below it."""
    for name, field in model.model_fields.items():
        yield model, name
        inner, _ = find_section(field.annotation)
        if inner:
            yield from walk(inner)


@pytest.mark.parametrize("model", MODELS)
def test_every_key_says_when_a_change_of_it_holds(model: type[Section]) -> None:
    for section, name in walk(model):
        field = section.model_fields[name]
        inner, is_list = find_section(field.annotation)
        said = field.json_schema_extra
        assert isinstance(said, dict), f"{section.__name__}.{name} is neither live nor at_start nor a group"
        if inner is None or is_list:
            assert said.get("live") or said.get("restart"), f"{section.__name__}.{name} is live, or holds at the start"


def test_the_interface_ties_processing_to_a_restart_and_all_else_is_taken_over() -> None:
    for key in ("mainWorkerCount", "maxGuardRequestsInProcessing", "guardRequestThrottleThreshold"):
        assert needs_restart(GuardSettings, key)
    for key in ("policy.file", "tenants", "log.level", "reputation.zones", "maxThrottleDelay", "analysisTimeout"):
        assert not needs_restart(GuardSettings, key)
    for key in ("staticApiTokens", "serviceProviders.core.hosts", "feeds", "tls.certificate", "connections.maximum"):
        assert not needs_restart(AbbySettings, key)
    assert is_local(AbbySettings, "tls.certificate")
    assert not is_local(AbbySettings, "staticApiTokens")


def test_a_section_with_a_mark_speaks_for_the_keys_below_it() -> None:
    for key in ("events", "events.webhooks[0].url", "events.mail", "storage.url"):
        assert needs_restart(GuardSettings, key)
    for key in ("storage", "storage.url", "events.file.path", "tls.key", "arc.key.file", "dkim.keys[1].selector"):
        assert is_local(GuardSettings, key)
    assert not is_local(GuardSettings, "events.webhooks[0].ca")
    # What is below a key are names of the user.
    assert not needs_restart(GuardSettings, "tenants.storage.example")
    assert not is_local(GuardSettings, "tenants.tls")


class _Inner(Section):
    old: int = at_start(1, description="needs a restart")
    new: int = live(1, description="is taken over")


class _Outer(Section):
    silent: int = 1
    inner: _Inner = group(_Inner(), description="two keys")
    absent: _Inner | None = group(None, description="off if not set")


def test_a_key_that_says_nothing_holds_after_a_restart() -> None:
    before, after = _Outer(), _Outer(silent=2, inner=_Inner(old=2, new=2), absent=_Inner())
    kept, waiting = keep_restart_keys(before, after)
    assert waiting == ("silent", "inner.old", "absent")
    assert kept == _Outer(silent=1, inner=_Inner(old=1, new=2))


def test_what_needs_a_restart_keeps_its_value_and_is_named() -> None:
    before = GuardSettings.model_validate({"mainWorkerCount": 4, "scanSources": {"restApi": {"port": 9785}}})
    after = GuardSettings.model_validate(
        {
            "mainWorkerCount": 8,
            "analysisTimeout": 9_000,
            "scanSources": {"restApi": {"port": 9786, "keep": "held"}, "smtp": {}},
        }
    )
    kept, waiting = keep_restart_keys(before, after)
    assert waiting == ("mainWorkerCount", "scanSources.restApi.port", "scanSources.smtp")
    assert (kept.main_worker_count, kept.analysis_timeout, kept.scan_sources.smtp) == (4, 9_000, None)
    rest = kept.scan_sources.rest_api
    assert rest
    assert (rest.port, rest.keep) == (9785, "held")
    assert list(list_changes(before, kept)) == ["analysisTimeout", "scanSources.restApi.keep"]
