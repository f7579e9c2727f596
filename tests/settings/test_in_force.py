"""Settings for people: all of them, and no secret."""

from pathlib import Path

import pytest

from gatepost.process.hiding import hide
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import differing_settings, load, settings_in_force


def test_every_setting_is_shown_and_no_secret(tmp_path: Path) -> None:
    data = DataFolder(tmp_path)
    both = load(prepare(data, None))
    guard, abby = settings_in_force("guard.yml", both.guard), settings_in_force("abby.yml", both.abby)
    assert ("guard.yml", "mainWorkerCount", "20") in guard
    assert ("abby.yml", "listen.port", "9081") in abby
    assert ("abby.yml", "staticApiTokens[0].name", "first") in abby
    assert ("abby.yml", "staticApiTokens[0].token", "(hidden)") in abby
    token = data.token.read_text().strip()
    assert not any(token in value for _, _, value in (*guard, *abby))


def test_addresses_lose_their_passwords(tmp_path: Path) -> None:
    both = load(prepare(DataFolder(tmp_path), None))
    storage = both.abby.storage.model_copy(update={"url": "postgresql://ann:geheim@db.example/mail"})
    shown = dict(line[1:] for line in settings_in_force("abby.yml", both.abby.model_copy(update={"storage": storage})))
    assert shown["storage.url"] == "postgresql://(hidden)@db.example/mail"
    assert differing_settings(both.abby.model_copy(update={"storage": storage}))["storage.url"] == shown["storage.url"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:a/b?c@db.example/mail", "postgresql://(hidden)@db.example/mail"),
        (
            "postgresql://db.example/mail?user=ann&password=hush&sslmode=require",
            "postgresql://db.example/mail?user=ann&password=(hidden)&sslmode=require",
        ),
        ("s3://bucket/mail?aws_secret_access_key=hush", "s3://bucket/mail?aws_secret_access_key=(hidden)"),
        ("postgresql://db.example/mail?p%61ssword=hush&a=b", "postgresql://db.example/mail?p%61ssword=(hidden)&a=b"),
        ("postgresql://db.example/mail?a=b;PASSWORD=hush#x", "postgresql://db.example/mail?a=b;PASSWORD=(hidden)#x"),
        ("postgresql:///mail?sslpassword=hush", "postgresql:///mail?sslpassword=(hidden)"),
        ("az://box/mail?sv=1&sig=hush&account_key=hush", "az://box/mail?sv=1&sig=(hidden)&account_key=(hidden)"),
        ("sqlite:gatepost.db", "sqlite:gatepost.db"),
        ("ann@example.org", "ann@example.org"),
    ],
)
def test_credentials_are_hidden_wherever_they_stand(url: str, shown: str) -> None:
    assert hide(url) == shown
