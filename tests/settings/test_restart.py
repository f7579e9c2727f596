"""Which keys a running service takes over, and which hold for one machine alone."""

import pytest

from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.section import (
    LOCAL_KEYS,
    RESTART_KEYS,
    Section,
    is_local,
    keep_restart_keys,
    list_changes,
    needs_restart,
)

MODELS: dict[str, type[Section]] = {"guard.yml": GuardSettings, "abby.yml": AbbySettings}


@pytest.mark.parametrize("table", [RESTART_KEYS, LOCAL_KEYS], ids=["restart", "local"])
def test_every_key_of_the_tables_exists(table: dict[str, tuple[str, ...]]) -> None:
    from tools.configuration_reference import find_section

    for file, keys in table.items():
        for key in keys:
            model: type[Section] | None = MODELS[file]
            for step in key.split("."):
                assert model is not None
                fields = {field.alias: field for field in model.model_fields.values()}
                assert step in fields, (file, key)
                model = find_section(fields[step].annotation)[0]


def test_the_interface_ties_processing_to_a_restart_and_all_else_is_taken_over() -> None:
    for key in ("mainWorkerCount", "maxGuardRequestsInProcessing", "guardRequestThrottleThreshold"):
        assert needs_restart("guard.yml", key)
    for key in ("policy.file", "tenants", "log.level", "reputation.zones", "maxThrottleDelay", "analysisTimeout"):
        assert not needs_restart("guard.yml", key)
    for key in ("staticApiTokens", "serviceProviders.core.hosts", "feeds", "tls.certificate", "connections.maximum"):
        assert not needs_restart("abby.yml", key)
    assert is_local("abby.yml", "tls.certificate")
    assert not is_local("abby.yml", "staticApiTokens")


def test_what_needs_a_restart_keeps_its_value_and_is_named() -> None:
    before = GuardSettings.model_validate({"mainWorkerCount": 4, "scanSources": {"restApi": {"port": 9785}}})
    after = GuardSettings.model_validate(
        {
            "mainWorkerCount": 8,
            "analysisTimeout": 9_000,
            "scanSources": {"restApi": {"port": 9786, "keep": "held"}, "smtp": {}},
        }
    )
    kept, waiting = keep_restart_keys("guard.yml", before, after)
    assert waiting == ("mainWorkerCount", "scanSources.restApi.port", "scanSources.smtp")
    assert (kept.main_worker_count, kept.analysis_timeout, kept.scan_sources.smtp) == (4, 9_000, None)
    rest = kept.scan_sources.rest_api
    assert rest
    assert (rest.port, rest.keep) == (9785, "held")
    assert list(list_changes(before, kept)) == ["analysisTimeout", "scanSources.restApi.keep"]
