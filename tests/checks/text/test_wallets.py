"""Wallet addresses, and long words that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.checks.text.extortion import MAX_TRIED, find_wallets

BASE58 = "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"
BECH32 = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
TAPROOT = "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr"
ETHEREUM = "0x52908400098527886E0F7030069857D2E4169EE7"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"Pay to {BASE58}.", [BASE58]),
        (f"({BECH32})", [BECH32]),
        (BECH32.upper(), [BECH32.upper()]),
        (TAPROOT, [TAPROOT]),
        (ETHEREUM, [ETHEREUM]),
        ("4" + "B" * 46 + "9" * 48, ["4" + "B" * 46 + "9" * 48]),
        (BASE58[:-1] + "3", []),  # the checksum is wrong
        (BECH32[:-1] + "p", []),
        (f"x{BASE58}", []),  # inside a longer word
        ("3aa2b0ba2b1d4f8e9c0d1e2f3a4b5c6d", []),  # a hash
        ("1234567890123456789012345678901234", []),
        ("", []),
    ],
)
def test_wallets(text: str, found: list[str]) -> None:
    assert list(find_wallets(text)) == found


def test_the_work_is_bounded() -> None:
    assert len(list(find_wallets(f"{ETHEREUM} " * 1000))) == MAX_TRIED


@given(st.text(alphabet="bc10xBCLMT348qpzry9aA ", max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert all(wallet in text for wallet in find_wallets(text))
