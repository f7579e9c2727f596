"""What an attempt costs does not tell whether it was nearly right: asserted by work that is done, not by time."""

import ast
import asyncio
import hmac
import re
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher, extract_parameters
from tests.source_trees import walk_source

import gatepost
from gatepost.abby.authenticator import Tokens
from gatepost.settings.keys import StaticApiTokenSettings
from gatepost.web.credentials import PasswordHashes

PACKAGE = Path(gatepost.__file__).parent


def test_every_token_is_compared_whichever_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    stated = [StaticApiTokenSettings(name=f"t{n}", token=f"{n:02}" * 32, permissions=[]) for n in range(9)]
    tokens, lengths = Tokens(stated), list[tuple[int, int]]()
    compare = hmac.compare_digest

    def counted(first: Any, second: Any) -> bool:
        lengths.append((len(first), len(second)))
        return compare(first, second)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    done = []
    for presented in (b"00" * 32, b"08" * 32, b"0" * 64, b"", b"x" * 100_000, b"00" * 31 + b"01"):
        lengths.clear()
        tokens.find(presented)
        done.append(tuple(lengths))
    assert set(done) == {((32, 32),) * 9}, "hashes of one length, all of them, each time"


def test_a_name_that_nobody_has_costs_a_password_check(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, kept: str, password: str) -> bool:
        hashed.append(kept)
        return bool(verify(self, kept, password))

    monkeypatch.setattr(PasswordHasher, "verify", counted)

    async def attempts() -> None:
        passwords = PasswordHashes()
        kept = await passwords.hash("right")
        for stored, password, expected in (
            (kept, "right", True),
            (kept, "wrong", False),
            (None, "right", False),
            (None, "", False),
            (kept, "x" * 10_000, False),
        ):
            hashed.clear()
            assert await passwords.verify(stored, password) is expected
            assert len(hashed) == 1
            assert extract_parameters(hashed[0]) == extract_parameters(kept), "as much memory, as many rounds"

    asyncio.run(attempts())


# Comparisons by `==` whose words say "secret" and that tell strangers nothing: both sides are ours, or public.
HARMLESS = {
    "api/server.py": {"token.strip().lower() != b'upgrade'"},
    "guard/answers/campaigns.py": {"value.signature == signature", "each.signature == mine"},
    "guard/answers/reputation.py": {"self.settings.asks == 'hash'"},
    "service/commands.py": {"entry.token == token"},
    "service/doctor/examination.py": {"zone.settings.asks == 'hash'"},
    "smtp/next_hop.py": {"joint == nonce"},
    "store/second_factors.py": {"secret == stored"},
    "store/sessions.py": {"tuple(proofs[0]) != (proven.password, proven.totp_secret)"},
    "web/credentials.py": {"len(text) == TOTP_SECRET_BYTES * 8 // 5"},
    "web/forms.py": {"name != 'csrf'"},
    "web/pages/account.py": {"wanted == request.form.raw_text('password')"},
    "web/pages/access.py": {"len(kept) == len(tokens)"},
    "web/second_factors.py": {"key.credential == assertion.credential"},
    "web/setting_controls.py": {"key == _CREDENTIALS"},
}
SERVICES = ("abby", "api", "digests", "events", "guard", "milter", "scanning", "service", "smtp", "store", "web")
_SECRET = re.compile(r"secret|token|password|csrf|signature|credential|nonce|hash\b", re.IGNORECASE)


@pytest.mark.variant
def test_secrets_are_compared_in_constant_time() -> None:
    found: dict[str, set[str]] = {}
    for package in SERVICES:
        for file in sorted((PACKAGE / package).rglob("*.py")):
            for node in walk_source(file):
                if isinstance(node, ast.Compare) and any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
                    text = ast.unparse(node)
                    if _SECRET.search(text):
                        found.setdefault(str(file.relative_to(PACKAGE)), set()).add(text)
    assert found == HARMLESS, "use hmac.compare_digest, or say above why it tells nothing"
