"""Single values of the configuration."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gatepost.settings import values
from gatepost.settings.keys import AbbySettings, GuardSettings, SmtpSettings
from gatepost.settings.values import split_address

BAD_HOSTS = ["http://h", "https://", "h:9785", "https://u@h", "https://h/p", "https://h?q", "https://[x"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", ("192.0.2.1", 53)),
        ("192.0.2.1:5353", ("192.0.2.1", 5353)),
        ("::1", ("::1", 53)),
        ("[::1]", ("::1", 53)),
        ("[::1]:5353", ("::1", 5353)),
        ("2001:db8::", ("2001:db8::", 53)),
        ("host.example:1", ("host.example", 1)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert split_address(text, 53) == address


@pytest.mark.parametrize(
    "text", ["", ":53", "[::1", "[::1]53", "a:b", "a:65536", "a:-1", "a:", "a:٣", f"a:{'9' * 5000}"]
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        split_address(text, 53)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (values.Host, ["0.0.0.0", "::1", "mail.example"], ["", "a b", "http://x", "a/b"]),
        (values.Nameserver, ["192.0.2.53:53", "::1"], ["ns.example", "192.0.2.300"]),
        (values.Network, ["192.0.2.1", "192.0.2.0/24", "2001:db8::/32"], ["192.0.2.0/33", "x"]),
        (values.ListenAddress, ["127.0.0.1:9090", "[::1]:9090"], ["127.0.0.1", "[::1]", "x:y"]),
        (values.CoreHost, ["https://h:9785", "https://h", "https://[::1]:9785/"], BAD_HOSTS),
        (values.NextHop, ["smtp://h:25", "smtp://h"], ["h:25", "smtp://", "smtps://h", "smtp://h:x"]),
        (values.StorageUrl, ["sqlite:a.db", "postgresql://u:p@h/d"], ["", "sqlite:", "a.db", "postgresql:x"]),
        (values.QuarantineUrl, ["file:///var/q", "s3://bucket/x"], ["ftp://x", "s3:", "/var/q"]),
        (values.TenantUid, ["0198C5A2-7c11-7d3e-9f00-00000000aa01"], ["x", ""]),
        (values.Domain, ["example.com", "EXAMPLE.com."], ["", "*.example.com", "a@b", "a b"]),
        (values.Secret, ["64 hex digits", "x"], ["", " x", "x\n", "ü"]),
    ],
)  # fmt: skip
def test_kinds_of_value(kind: Any, good: list[str], bad: list[str]) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(kind)
    for text in good:
        adapter.validate_python(text)
    for text in bad:
        with pytest.raises(ValidationError):
            adapter.validate_python(text)


def test_limits_follow_the_worker_count() -> None:
    assert (GuardSettings().maximum, GuardSettings().threshold) == (20, 20)
    assert GuardSettings(main_worker_count=7).maximum == 7
    assert GuardSettings(main_worker_count=7, max_guard_requests_in_processing=9).threshold == 7


def test_nothing_is_coerced_and_nothing_changes() -> None:
    with pytest.raises(ValidationError):
        SmtpSettings.model_validate({"port": "25"})
    with pytest.raises(ValidationError):
        GuardSettings().main_worker_count = 3  # type: ignore[misc]


def test_other_providers_are_accepted() -> None:
    stated = {"serviceProviders": {"core": {"hosts": ["https://h"]}, "search": {"hosts": 3}}}
    assert AbbySettings.model_validate(stated).service_providers.core.long_request_timeout == 3_600_000
