"""Links of digests: what was signed comes back, and nothing else is a link."""

import base64
import random

import pytest

from gatepost.digests.mail import MAX_TEXT, DigestLink, read_link, sign_link
from gatepost.ids import new_id
from gatepost.store.digests import DigestKey

KEY = DigestKey(3, bytes(range(32)), 0)
OTHER = DigestKey(4, bytes(range(1, 33)), 0)
NOW = 1_800_000_000_000
LINK = DigestLink(new_id(), new_id(), NOW + 1_000)


@pytest.mark.parametrize("item", ["018f0000-0000-7000-8000-000000000001", ""])
def test_what_was_signed_comes_back(item: str) -> None:
    link = DigestLink(LINK.digest, item, LINK.expires)
    text = sign_link(link, KEY)
    assert read_link(text, [OTHER, KEY], NOW) == link
    assert text.isascii()
    assert len(text) < MAX_TEXT


def test_it_ends() -> None:
    text = sign_link(LINK, KEY)
    assert read_link(text, [KEY], LINK.expires - 1) == LINK
    assert read_link(text, [KEY], LINK.expires) is None


def test_keys_are_told_apart_by_their_numbers_and_can_be_replaced() -> None:
    text = sign_link(LINK, KEY)
    assert read_link(text, [OTHER, KEY], NOW) == LINK, "a newer key beside it changes nothing"
    assert read_link(text, [OTHER], NOW) is None
    assert read_link(text, [], NOW) is None
    assert read_link(text, [DigestKey(KEY.number, OTHER.secret, 0)], NOW) is None


def test_a_change_of_any_bit_is_a_forgery() -> None:
    raw = base64.urlsafe_b64decode(sign_link(LINK, KEY) + "==")
    for bit in range(len(raw) * 8):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        text = base64.urlsafe_b64encode(bytes(changed)).rstrip(b"=").decode()
        assert read_link(text, [KEY, OTHER], NOW) is None


def test_a_link_has_one_spelling() -> None:
    text = sign_link(LINK, KEY)
    for other in (f"{text}=", f"{text}==", f" {text}", f"{text}\n", text + "A", text[:-1], text.swapcase()):
        assert read_link(other, [KEY], NOW) is None
    if len(text) % 4:
        # The last character has bits to spare.
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        same = [text[:-1] + each for each in alphabet if read_link(text[:-1] + each, [KEY], NOW)]
        assert same == [text]


def test_no_text_is_too_odd() -> None:
    chance = random.Random(7)
    odd = ["", "é", "\0", "/../", "%00", "A" * 10_000, "-" * MAX_TEXT, "\ud800"]
    odd += ["".join(chance.choices("AZaz09-_=+/. é", k=chance.randrange(130))) for _ in range(500)]
    assert [read_link(text, [KEY, DigestKey(0, bytes(32), 0)], 0) for text in odd] == [None] * len(odd)
