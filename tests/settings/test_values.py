"""Single values of the configuration."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gatepost.settings import values
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.scan_sources import SmtpSettings
from gatepost.settings.values import split_address

BAD_NAMES = ["", "a b", *"http://x a/b 127.0.0.1:9 999.1.1.1 * a.1 fe80::1%eth0 {mta_host} [::1]".split()]
BAD_HOPS = "h:25 smtp:// smtps://h smtp://h:x smtp://u:p@h smtp://u@h smtp://h:0 smtp://h?x smtp://{h}".split()
BAD_CLAMD = ["", "host:99999", "host", "x:0", ":1"]
BAD_NETWORKS = ["192.0.2.0/33", "x", "0.0.0.0/0", "::/0", "64.0.0.0/2"]
BAD_HOSTS = [
    *"http://h https:// h:9785 https://u@h https://h/p https://h?q https://[x https://h https://h:0".split(),
    *"https://{mta_host}:9785 https://999.1.1.1:1".split(),
]


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
        (values.Host, ["0.0.0.0", "::1", "mail.example"], BAD_NAMES),
        (values.Hosts, ["::", ["127.0.0.1", "::1"]], [[], ["*"], *BAD_NAMES]),
        (values.ClamdAddress, ["127.0.0.1:3310", "/run/clamd.sock", "av.example:3310"], BAD_CLAMD),
        (values.Nameserver, ["192.0.2.53:53", "::1"], ["ns.example", "192.0.2.300"]),
        (values.Network, ["192.0.2.1", "192.0.2.0/24", "2001:db8::/32"], BAD_NETWORKS),
        (values.Network, ["10.0.0.0/8", "fc00::/7", "8.0.0.0/8"], ["2000::/3"]),
        (values.ListenAddress, ["127.0.0.1:9090", "[::1]:9090"], ["127.0.0.1", "[::1]", "x:y"]),
        (values.CoreHost, ["https://h:9785", "https://h:443", "https://[::1]:9785/"], BAD_HOSTS),
        (values.NextHop, ["smtp://h:25", "smtp://h"], BAD_HOPS),
        (values.StorageUrl, ["sqlite:a.db", "postgresql://u:p@h/d"], ["", "sqlite:", "a.db", "postgresql:x"]),
        (values.QuarantineUrl, ["file:///var/q", "s3://bucket/x"], ["ftp://x", "s3:", "/var/q"]),
        (values.TenantUid, ["0198C5A2-7c11-7d3e-9f00-00000000aa01"], ["x", ""]),
        (values.Domain, ["example.com", "EXAMPLE.com."], ["", "*.example.com", "a@b", "a b", "co.uk", "192.0.2.1"]),
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
    assert GuardSettings(main_worker_count=7, guard_request_throttle_threshold=5).threshold == 5


def test_nothing_is_coerced_and_nothing_changes() -> None:
    with pytest.raises(ValidationError):
        SmtpSettings.model_validate({"port": "25"})
    with pytest.raises(ValidationError):
        GuardSettings().main_worker_count = 3  # type: ignore[misc]


def test_other_providers_are_accepted() -> None:
    stated = {"serviceProviders": {"core": {"hosts": ["https://h:9785"]}, "search": {"hosts": 3}}}
    assert AbbySettings.model_validate(stated).service_providers.core.long_request_timeout == 3_600_000


@pytest.mark.parametrize(
    "address", ["udp://h", "udp://h:514", "tcp://192.0.2.1:601", "tls://[2001:db8::1]:6514", "unix:/dev/log"]
)
def test_syslog_addresses(address: str) -> None:
    assert TypeAdapter(values.SyslogAddress).validate_python(address) == address


@pytest.mark.parametrize(
    "address", ["h:514", "syslog://h", "udp://", "udp://h/x", "udp://u@h", "unix:log", "tcp://h:0"]
)
def test_other_syslog_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="must be"):
        TypeAdapter(values.SyslogAddress).validate_python(address)


@pytest.mark.parametrize("url", ["https://h/p?q=1", "https://h:8443", "http://127.0.0.1:8080/x", "http://localhost/"])
def test_webhooks(url: str) -> None:
    assert TypeAdapter(values.WebhookUrl).validate_python(url) == url


@pytest.mark.parametrize(
    "url",
    ["http://h/", "http://10.0.0.1/", "ftp://h/", "https://", "https://u:p@h/", "https://h/#x", "https://h/ä", "h",
     "http://127.0.0.1.example/", "https://<host>/"],
)  # fmt: skip
def test_other_webhooks_are_refused(url: str) -> None:
    with pytest.raises(ValidationError, match=r"must|still"):
        TypeAdapter(values.WebhookUrl).validate_python(url)


@pytest.mark.parametrize("address", ["", "ann", "Ann <a@b.example>", "a@b@c.example", "a b@c.example", "a@b\r\nBcc: x"])
def test_what_is_no_mail_address(address: str) -> None:
    with pytest.raises(ValidationError, match="must be an address"):
        TypeAdapter(values.MailAddress).validate_python(address)
