"""What is hidden, in values of any shape and in sentences."""

import pytest

from gatepost.process.hiding import hide, hide_path, hide_text


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        (("auth", "password"), "hush", "(hidden)"),
        (("auth", "password"), 1.5, "(hidden)"),
        (("auth", "password"), None, None),
        (("senderRewriting", "keys", 0), "hush", "(hidden)"),
        (
            ("senderRewriting",),
            {"keys": ["hush", "hush2"], "domain": "a.example"},
            {"keys": ["(hidden)"] * 2, "domain": "a.example"},
        ),
        (("secret",), "${file:/run/secret}", "${file:/run/secret}"),
        (("secret",), "Bearer ${file:/run/secret}", "(hidden)"),
        ((), {"smtp://ann:hush@relay.example": 3}, {"smtp://(hidden)@relay.example": 3}),
        ((), [[{"a": "s3://b/x?secret_key=hush"}]], [[{"a": "s3://b/x?secret_key=(hidden)"}]]),
        ((), "host=db user=ann password='hu sh\\'' sslmode=off", "host=db user=ann password=(hidden) sslmode=off"),
        ((), "postgresql:ann:hush@db", "postgresql:(hidden)@db"),
        (("feeds", 0, "url"), "https://feeds.example/hush/list", "https://feeds.example/(hidden)"),
        (("feeds", 0, "url"), "https://feeds.example/", "https://feeds.example/"),
        (("dkim", "keys", 0, "file"), "/etc/key.pem", "/etc/key.pem"),
        (("tokens",), 5, 5),
    ],
)
def test_values(key: tuple[str | int, ...], value: object, shown: object) -> None:
    assert hide(value, key) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example/T0/hush?key=1", "https://hooks.example/(hidden)"),
        ("https://hooks.example?key=1", "https://hooks.example/(hidden)"),
        ("https://hooks.example", "https://hooks.example"),
        ("https://ann:hu/sh@hooks.example/T0", "https://(hidden)@hooks.example/(hidden)"),
    ],
)
def test_paths_of_webhooks(url: str, shown: str) -> None:
    assert hide_path(url) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "no answer of smtp://ann:hush@relay:25, for ann@example.com",
            "no answer of smtp://(hidden)@relay:25, for ann@example.com",
        ),
        ("smtp://relay:25 answered 550 to ann@example.com", "smtp://relay:25 answered 550 to ann@example.com"),
        ("no such file: /etc/https:/ann:hush@x/ca.pem", "no such file: /etc/https:/(hidden)@x/ca.pem"),
        ("GET https://a.example/?x=1&token=hush failed", "GET https://a.example/?x=1&token=(hidden) failed"),
        ("could not read host=db password = hush", "could not read host=db password = (hidden)"),
        ("dkim=pass spf=fail", "dkim=pass spf=fail"),
    ],
)
def test_sentences(text: str, shown: str) -> None:
    assert hide_text(text) == shown
