"""Settings of signing in: what contradicts itself is refused, and the client secret is not shown."""

from pathlib import Path

import pytest
from tests.data_folders import write_files

from gatepost.settings.faults import ConfigError
from gatepost.settings.files import load_abby, settings_in_force

CORE = 'serviceProviders: {core: {hosts: ["https://127.0.0.1:9785"]}}\n'
ACCESS = "access: [{claim: groups, value: admins, role: administrator}]"
PROVIDER = f"issuer: https://id.example, clientId: gatepost, clientSecret: very-secret-words, {ACCESS}"
URL = "publicUrl: https://mail.example\n"


def load(folder: Path, text: str) -> object:
    return load_abby(write_files(folder, abby=CORE + text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"signIn: {{openidConnect: {{{PROVIDER}}}}}", "needs publicUrl"),
        ("signIn: {passwords: false}", "must leave a way to sign in"),
        ("signIn: {secondFactor: [king]}", "signIn.secondFactor"),
        ("signIn: {secondFactorTenants: [somebody]}", "must be a tenant's uid"),
        (f"{URL}signIn: {{openidConnect: {{{PROVIDER.replace('https://id', 'http://id')}}}}}", "https://host"),
        (f"{URL}signIn: {{openidConnect: {{{PROVIDER}, scopes: [profile]}}}}", "must have openid"),
        (f"{URL}signIn: {{openidConnect: {{{PROVIDER.replace(ACCESS, 'access: []')}}}}}", "access"),
        ("publicUrl: https://user:pass@mail.example", "must be of the form https"),
        ("staticApiTokens: [{name: a}]", "either a token or a tokenHash"),
        ("staticApiTokens: [{name: a, tokenHash: abc}]", "tokenHash"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(tmp_path, text)


def test_the_client_secret_is_hidden(tmp_path: Path) -> None:
    settings = load(tmp_path, f"{URL}signIn: {{passwords: false, openidConnect: {{{PROVIDER}}}}}")
    lines = settings_in_force("abby.yml", settings)  # type: ignore[arg-type]
    assert ("abby.yml", "signIn.openidConnect.clientSecret", "(hidden)") in lines
    assert "very-secret-words" not in str(lines)
