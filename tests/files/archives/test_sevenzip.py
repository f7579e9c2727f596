"""7z archives: every usual coder is undone, passwords from the mail open what is locked, and no damage raises."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.opening import damaged, open_file

from gatepost.files.archives import libarchive, sevenzip
from gatepost.files.archives.sevenzip import decode_bcj2
from gatepost.files.values import MAX_ATTEMPTS, MAX_READ, MAX_SLOW, Trait, UnpackBudget

PAYLOAD = b"the payload that must be found"
# Made with 7-Zip from a file of that text, and (bcj, bcj2, delta) from the code that `branches` gives.
SAMPLES: dict[str, str] = {
    "lzma2": (
        "N3q8ryccAATYtepXaQAAAAAAAAAgAAAAAAAAAN4t/X8BAB10aGUgcGF5bG9hZCB0aGF0IG11c3QgYmUgZm91bmQAAACBMweuD9As9LyfP0dB"
        "Bwq+u4ROvmUObybQwezCgbN5gZdZefgrJofIGTeQ+KrJWao7g7TIcVxn+ufaNmnvBT4PZrsOHyAXBiIBCUcABwsBAAEjAwEBBV0AEAAADFQK"
        "AV/zaIgAAA=="
    ),
    "lzma1": (
        "N3q8ryccAAT4kqzbIwAAAAAAAABAAAAAAAAAALjFwbQAOhoIzna+cn0rNQ1Ac8Wi6QvpYNTohD4QYEBTJsPjCbn6wAEEBgABCSMABwsBAAEj"
        "AwEBBV0AEAAADB4ACAoBot2KuwAABQEZBgAAAAAAABEPAGkAbgAuAHQAeAB0AAAAAAA="
    ),
    "bcj2": (
        "N3q8ryccAASWkHsh+QAAAAAAAAB0AAAAAAAAABtdAakASAPMF3Bje7oGSvmF1ba6fEzsJz1m4G6HL2joAOxnWmRrl2N6dPPll3tlRXw89tgk"
        "23/5xJq+260VCxpBanONQZmslZOHHJ1iCgHGFKnwutjYCGj9mz1bAaNrA9lroFPBwhjhFD16nMTLXv9nvWH2n2l6CLUZ/jDPLka2cvDwkZX+"
        "IKb7t28fkR3OJItrw62CXY9gpGxAGl7ywrYL+KxoktVguxuCTJcPaDRoWbaKHDsImo7S1Fg2jhSTe8l0WjzvICGZKOqo+LFeIWOv1+TLVlAK"
        "jKtRLp2h9AnJ3wAAEASMcZ/5YedIcgAAAAAAAABgBo1QetfUAAABBAYABAmA3gsFCwAHCwEABCMDAQEFXQAQAAAjAwEBBV0AEAAAIwMBAQVd"
        "ABAAABQDAwEbBAEFAAQBAwICBgEADCAAgmCCgAAICgEDB/L3AAAFARkIAAAAAAAAAAAREwBjAG8AZABlAC4AYgBpAG4AAAAAAA=="
    ),
    "bcj": (
        "N3q8ryccAATpWyxjsgAAAAAAAABEAAAAAAAAACy+DB/gAn8Aql0ASAPMF3Bje7n4FgOwQWP2FduBlrqUpaxEgy30FIQvR4gZUbEvqHuQAFZC"
        "0N1HAW6zc0RA4HDBrWKiohHUmLv/WRiuII4rJZkIknVavcOqL/VCwiQ/vppJHrkDVwGtaDtQCTKDwH2p1XR3vqeh+D+zLMPg6YqR5Zt8jfl/"
        "LH9A3qdDHlzDTwHRXVIewq0FXGvcPnwdywqvribUwH1J4MOyFxrCTXB2TRphCJYAAQQGAAEJgLIABwsBAAIhIQEABAMDAQMBAAyCgIKAAAgK"
        "AQMH8vcAAAUBGQEAERMAYwBvAGQAZQAuAGIAaQBuAAAAAAA="
    ),
    "delta": (
        "N3q8ryccAASzlFsaiwEAAAAAAABEAAAAAAAAALUw0efgAn8Bg10ASAPMF3QeiYiXZcXbMSqXceu4cwTCk7FNdtc/UIRk3OVv+EOtUmMH39Mq"
        "vEPeKwnOT6TjH0h0wVadbSSb8YsTAV4D5TL55NZl15zqWZZvitMOXRN4n5CgoUImpi1laZpwRtNgUGvA/UUTpCnJdhOKPn5cpj8K8b8umnJg"
        "w7zjd5l8FUJVCvW9Py++oA8zcx4iARuV5Rq7ONqaeoqk2WWnBCq5a4YCkVzQhgY5C94DxtmaUWrifZuXc+WTQlh1SbgB0F4db9eyuZ1yfe4/"
        "P9mdcudy77dIX3c6vCya92ptkXG+/ITMykLGS8Wi7pdw2TJxy+12wozKxZ3qly0zAUYU70uKQBnONfcOtvDZUUAlXN9gJ5/6+u4iKL1lMNBf"
        "mc0WZp1Bi+iK905WLf3L3NA2lmTsa7K8J9BaLbN6Zye95pjdWU/ouS+xLL0ZSH7JeSmvVyO3fL+1Nw/JE9tWlGA3b+GroWmKvdJmwq101Qvk"
        "UR2zflL83wDEVVCPhtThc0VFVwljAAEEBgABCYGLAAcLAQACISEBACEDAQMBAAyCgIKAAAgKAQMH8vcAAAUBGQIAABETAGMAbwBkAGUALgBi"
        "AGkAbgAAAAAA"
    ),
    "ppmd": (
        "N3q8ryccAAQJSSZQHgAAAAAAAABAAAAAAAAAAKsE34oAc/JvVqCSp2BgSDqRmXaSsnKZcRZhVsXhStmMVfoBBAYAAQkeAAcLAQABIwMEAQUG"
        "AAABAAweAAgKAaLdirsAAAUBGQYAAAAAAAARDwBpAG4ALgB0AHgAdAAAAAAA"
    ),
    "bz": (
        "N3q8ryccAAT7g7uTPwAAAAAAAABAAAAAAAAAADenBNlCWmg5MUFZJlNZJ7wC0wAADRGAQAA3R84gIAAimmaho2p6hQwAAhmHd1nVSImywiXd"
        "cclR8XckU4UJAnvALTABBAYAAQk/AAcLAQABAwQCAgweAAgKAaLdirsAAAUBGQwAAAAAAAAAAAAAAAARDwBpAG4ALgB0AHgAdAAAAAAA"
    ),
    "df": (
        "N3q8ryccAASNbCu3IwAAAAAAAABAAAAAAAAAALrLkGIBHgDh/3RoZSBwYXlsb2FkIHRoYXQgbXVzdCBiZSBmb3VuZAEEBgABCSMABwsBAAED"
        "BAEIDB4ACAoBot2KuwAABQEZDAAAAAAAAAAAAAAAABEPAGkAbgAuAHQAeAB0AAAAAAA="
    ),
    "cp": (
        "N3q8ryccAASTHkpuHgAAAAAAAAAwAAAAAAAAAKQgmhp0aGUgcGF5bG9hZCB0aGF0IG11c3QgYmUgZm91bmQBBAYAAQkeAAcLAQABAQAMHgAI"
        "CgGi3Yq7AAAFAREPAGkAbgAuAHQAeAB0AAAAAAA="
    ),
    "aes": (
        "N3q8ryccAASXvaEDMAAAAAAAAABQAAAAAAAAAGgfhuLa+gVTEklkWmKsEzxQCpo4Hu29Dh6VCDe6unPs1smscoYrJOSPOBHn90NFngI0E38B"
        "BAYAAQkwAAcLAQACJAbxBwESUw+cOsSxktfdU77UuuO49Hc+ISEBAAEADCIeAAgKAaLdirsAAAUBGQEAEQ8AaQBuAC4AdAB4AHQAAAAAAA=="
    ),
    "aeshe": (
        "N3q8ryccAATJX6ycgAAAAAAAAAAuAAAAAAAAAILkTwsli+cmp7BF1Ffk2GCaDAv136DVBOfQFakKYW3hlbrsrDHCCmjVAaXGPd6UTxLUjDkc"
        "pQa3624/rVGEskXYqX7rD2OmmaLCz4HBnn8W8ydSzAP6Wsth7QfdgMxNEQBzqhLJiBFawUJwc+XmElgUgevGN5GaS/m8FBSwGL74dYlf4BcG"
        "MAEJUAAHCwEAASQG8QcBElMP1/PHDsHrL99cOQSLb0QoaQxQCgEsNCoOAAA="
    ),
}


def sample(name: str) -> bytes:
    return base64.b64decode(SAMPLES[name])


def branches() -> bytes:
    """A little x86 code with calls, jumps and conditional jumps."""
    code = bytearray()
    for number in range(40):
        near, far = 1000 - len(code), 0x400 - len(code) - 5
        code += b"\x90\x0f\x84" + near.to_bytes(4, "little", signed=True)
        code += b"\xe8" + far.to_bytes(4, "little", signed=True) + bytes([0x55, 0x8B, number])
        if number % 5 == 0:
            code += b"\xe9" + (0x200 - len(code)).to_bytes(4, "little", signed=True)
    return bytes(code)


@pytest.mark.parametrize("name", ["lzma2", "lzma1", "bz", "df", "cp"])
def test_every_usual_coder_is_undone(name: str) -> None:
    outer, inner, *_ = open_file(sample(name))
    assert (inner.names, inner.content, outer.unread) == (("in.txt",), PAYLOAD, ())


@pytest.mark.parametrize("name", ["bcj", "bcj2", "delta"])
def test_filters_for_programs_are_undone(name: str) -> None:
    outer, inner = open_file(sample(name))
    assert (inner.names, inner.content, outer.unread) == (("code.bin",), branches(), ())


def test_empty_files_keep_their_names() -> None:
    assert [file.names[0] for file in open_file(sample("lzma2"))[1:]] == ["in.txt", "empty.txt"]


def test_a_rare_coder_is_read_by_libarchive_or_said() -> None:
    outer, inner = open_file(sample("ppmd"))
    assert inner.names == ("in.txt",)
    expected = (PAYLOAD, ()) if libarchive.is_installed() else (b"", ("unsupported",))
    assert (inner.content, outer.unread) == expected


@pytest.mark.parametrize("name", ["aes", "aeshe"])
def test_the_password_in_the_mail_opens_it(name: str) -> None:
    outer, inner = open_file(sample(name), "Your invoice. The password is 7361.")
    assert (inner.names, inner.content) == (("in.txt",), PAYLOAD)
    assert outer.unread == ()
    assert outer.traits == (Trait("opened-with-password", "7361"),)


def test_without_the_password_it_is_said() -> None:
    budget = UnpackBudget()
    outer, inner = open_file(sample("aes"), "The password comes by telephone.", budget)
    assert (outer.unread, inner.names, inner.content) == (("encrypted",), ("in.txt",), b"")
    assert 0 < budget.attempts <= MAX_ATTEMPTS


def test_encrypted_names_are_said() -> None:
    outer, inner = open_file(sample("aeshe"))
    assert (outer.unread, inner.path) == (("encrypted",), "1/a.bin/unnamed")


def test_key_derivation_beyond_reason_is_not_tried() -> None:
    """2^62 rounds of SHA-256 in one byte of the header."""
    content = sample("aes")
    place = content.index(b"\x06\xf1\x07\x01") + 5
    patched = content[:place] + bytes([content[place] | 0x3F]) + content[place + 1 :]
    assert open_file(patched, "password 7361")[0].unread == ("encrypted",)


def test_branches_have_a_budget() -> None:
    out, steps = decode_bcj2([b"\xe8" * 10_000, b"", b"", bytes(10_000)], 10_000, 100)
    assert steps == 100
    assert len(out) <= 101


@given(st.sampled_from([sample(name) for name in sorted(SAMPLES)]).flatmap(damaged))
def test_no_damage_raises(content: bytes) -> None:
    budget = UnpackBudget(max_bytes=1 << 20)
    list(sevenzip.read_members(content, budget, ("7361",)))
    assert budget.spent <= 1 << 20
    assert budget.read <= MAX_READ
    assert budget.slow <= MAX_SLOW


@given(st.binary(max_size=300))
def test_no_directory_raises(header: bytes) -> None:
    start = b"7z\xbc\xaf\x27\x1c\0\4" + bytes(4) + bytes(8) + len(header).to_bytes(8, "little") + bytes(4)
    list(sevenzip.read_members(start + header, UnpackBudget()))
    list(sevenzip.read_members(start + b"\x01" + header, UnpackBudget()))
