"""The native functions and their Python twins give the same, for ordinary and for hostile input."""

import contextlib
import os
import random
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zstandard
from bench import equal
from bench.corpus import NotPresentError, mail
from bench.fuzz.native_twins import WalkedPage, describe_page
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import build_speedups
from tools.second_reader import pack_gloss

from gatepost import speedups
from gatepost.checks import phrases, triggers
from gatepost.checks.sender import sending_host
from gatepost.checks.text import advertising, fraud
from gatepost.files import walk
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.file_types import identify
from gatepost.files.qr_codes import HAS_CELLS, NO_CELLS, SHORT_CELLS, look_for_cells, may_draw_code
from gatepost.files.values import File, UnpackBudget
from gatepost.mail import headers, links, mime, reader
from gatepost.mail.budget import ReadBudget
from gatepost.mail.html import active, document, limits
from gatepost.mail.html.document import BREAK, HtmlPage
from gatepost.mail.message import DRAWS, EMBEDS, IS_HTML, Field, Message, Part
from gatepost.mail.reader import read
from gatepost.near_duplicates import RUN, find_smallest_hashes
from gatepost.textmodel import learnt, words
from gatepost.textmodel.features import Features, extract_features, normalise_word
from gatepost.textmodel.gloss import Letters
from gatepost.textmodel.model import MARK_SCALE, MAX_SHOWN, WINDOW, RowTable, load_shipped_model
from gatepost.textmodel.words import MAX_CHARS

native = speedups.native
pytestmark = pytest.mark.skipif(native is None, reason="not run: the native speedups were not built here")

CONCEPT_BOUNDS = (words.MAX_FOUND, words.NEAR, words.BESIDE)
WORDS = st.lists(st.text(string.ascii_letters + "äß中0$%.", max_size=8), max_size=60)


@given(WORDS, st.integers(1, 20), st.integers(0, 30))
def test_the_same_smallest_hashes(words: list[str], count: int, least: int) -> None:
    assert native.smallest_hashes(words, RUN, count, least) == find_smallest_hashes(words, count, least)


@given(WORDS, st.integers(0, 40), WORDS)
def test_the_same_feature_rows(words: list[str], most: int, others: list[str]) -> None:
    short = [*dict.fromkeys("0" * min(len(word), 9) if word.isdigit() else word for word in words)][:most]
    assert native.feature_row(words, most, others) == learnt.pack_row([*short, *others])


@given(WORDS, WORDS, st.sampled_from(("١٢٣", "²", "12345678901", "\ud800", "中")))
def test_the_same_feature_rows_of_a_message(words: list[str], rest: list[str], odd: str) -> None:
    seen = Features([*words, odd, *words[::-1]], rest, ["#links 0"])
    with pytest.MonkeyPatch.context() as patch:
        ours = learnt.make_row(Message(), seen)
        patch.setattr(learnt, "native", None)
        assert ours == learnt.make_row(Message(), seen)


SPELLED = st.text(st.sampled_from("aavig1ra@0 .-_*~$|:A\xe4\u0430\U0001d400"), max_size=60)
MARKS = st.sampled_from((*"sSoOpPé中& ", "cript:", "&lt;", "ScRiPt", "nload", "nerror", "xpression(", "nmouse"))


@pytest.mark.parametrize(
    ("name", "twin", "texts"),
    [
        ("spelled_places", advertising.find_spelled_places, SPELLED),
        ("split_words", words._WORD.findall, st.text("aZ9 _$€£%!.-\né\u0301\u0661²中\U0001d400\ud800", max_size=40)),
        ("has_latent_marks", active.has_latent_marks, st.lists(MARKS).map("".join)),
        ("fold_ascii", phrases.fold_plain, st.text(string.printable + "\x1c\x1d\x1e\x1f\x00" + "Ee-MmAaIiLl" * 8)),
        ("has_invisible", document.has_invisible, st.text("a\u00ad\u200b\u034f\U000e0001\u2065\u00e9中", max_size=8)),
    ],
)
def test_the_same_of_a_text(name: str, twin: Callable[[str], object], texts: st.SearchStrategy[str]) -> None:
    @given(texts)
    def compare(text: str) -> None:
        assert getattr(native, name)(text) == twin(text)

    compare()


@given(st.text(st.sampled_from("ab \n\t\xe0\xff\xdfA.\u0430\U0001d400"), max_size=40), st.integers(1, 12))
def test_the_same_long_runs(text: str, least: int) -> None:
    assert native.has_long_run(text, least) == advertising.has_long_run(text, least)


NUMBERS = st.sampled_from(
    "8|0|5|o|O|s|l|z|b|| |-|.|(|)|–|—|•|·|/|_|+1 |805|5s5|o1oo|8o5-5s5-0100|8 0 5 5 5 5 0 1 0 0|one |two, |nine-|zero_|"
    "oh |triple.|x|stone|\U0001d7d8|\x80".split("|")
)


@settings(max_examples=400)
@given(st.lists(NUMBERS, max_size=24))
def test_numbers_that_a_look_leaves_out_are_none(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert native.may_spell_number(text) or not fraud.search_disguised_number(text)


@pytest.mark.parametrize(
    "text", ["call (8o5) 5s5-0100 now", "8 0 5 5 5 5 0 1 0 0", "eight zero five, five five five, zero one zero zero"]
)
def test_a_look_finds_numbers_for_people(text: str) -> None:
    assert native.may_spell_number(text)
    assert fraud.find_disguised_number(text)
    assert not native.may_spell_number("call us on monday at 10:30, or write to room 12 of building 7")


@given(st.lists(st.tuples(st.sampled_from("from subject to x-mailer odd".split()), st.binary(max_size=6)), max_size=6))
def test_the_same_signs_of_fields(fields: list[tuple[str, bytes]]) -> None:
    made = tuple(Field(name, "", name.title().encode() + raw if raw[:1] > b"A" else raw) for name, raw in fields)
    given_signs = ({"x-mailer": 2, "to": 1 << 50}, {"from": b"From", "to": b"To"}, 1 << 40)
    assert native.field_signs(made, *given_signs) == triggers.find_field_signs(made, *given_signs)


LINES = st.sampled_from(
    "| |--|-- |__________x|-----BEGIN PGP SIGNATURE-----|> quoted|On Monday Ann wrote:|From: ann|*To*: bob|Subject|"
    "see www.x.example or a@b|http://x.example|100% FREE!!! $5|\x1cA\x0bb|url:x|a|an: b|:|x:|Ann a écrit :|"
    "Ça coûte très peu – “naïve”…|\xa0x\xa0@b|5 €, £7 Œuvre łódź|👉\ufe0f now\u200d ⚠\ufe0f\u200b!|"
    "a\x02\x0eb\x1bc é|x\xad´y|Ærø ß ½ ² 5 €|e\u0301t\u0301|a\u200bb|Straße: ÀÉÎ|письмо|信|"
    "Dear Sir, this is the text of a letter that is long enough to be kept by itself.".split("|")
)


@given(st.lists(LINES, max_size=25))
def test_the_same_written_words(lines: list[str]) -> None:
    _compare_words([], "", ["\n".join(lines)], MAX_CHARS)


@given(
    st.text(st.characters(max_codepoint=127), max_size=300)
    | st.text(st.characters(max_codepoint=0x2E7F))
    | st.text("aZ 1_é€£ßæŁ\u2028👉\U0001fa00\ufe0f\u200d\u0301\xad@./:\n\x02\x1b")
)
def test_the_same_written_words_of_any_text(text: str) -> None:
    _compare_words([text], text[::-1], [text], MAX_CHARS)


@given(st.lists(LINES, max_size=3), LINES, st.lists(st.lists(LINES, max_size=6), max_size=6), st.integers(1, 200))
def test_the_same_words_of_messages(names: list[str], subject: str, texts: list[list[str]], room: int) -> None:
    _compare_words(names, subject, ["\n".join(lines) for lines in texts], room)


def _compare_words(names: list[str], subject: str, texts: list[str], room: int) -> None:
    given_to = (words._PLAIN_LETTERS, words.SPECIALS, words.MAX_NAME_WORDS, room, words.MAX_WORDS)
    ours = native.WordArray.read(names, subject, texts, *given_to)
    if ours is None:
        assert not "".join((*names, subject, *texts)).isascii()
        return
    of_names, of_subject, _ = words.find_words(names, subject, [])
    assert (ours.names, ours.subject) == (of_names, of_subject)
    assert ours.body == words.find_body_words(texts, room)
    assert (len(ours), ours.total) == (len(ours.body), len(of_names) + len(of_subject) + len(ours.body))


@given(WORDS, WORDS, WORDS, WORDS, st.sampled_from(("١٢٣", "²", "12345678901", "中", "")))
def test_the_same_of_word_arrays(
    names: list[str], subject: list[str], body: list[str], marks: list[str], odd: str
) -> None:
    given_to = (names, [*subject, odd], [*body * 3, odd])
    ours, twin = native.WordArray(*given_to), words.MessageWords(*given_to)
    assert (ours.names, ours.subject, ours.body) == given_to
    assert (len(ours), ours.total) == (len(twin), twin.total)
    assert ours.smallest_hashes(RUN, 8, 5) == twin.smallest_hashes(RUN, 8, 5)
    assert learnt.make_message_row(Message(), ours, marks) == learnt.make_message_row(Message(), twin, marks)
    known = tuple(sorted({*body[::2], *(f"s:{word}" for word in subject[::2]), *marks[::2], "free", "c:account"}))
    weights = np.ones((len(known), 3), np.float32)
    tables = [made(known, np.array([], np.int64), weights) for made in (native.RowTable, RowTable)]
    read = (marks, normalise_word, words.load_index().index, 20, 600, 60, 4)
    for mine, other in zip(tables[0].read(ours, *read)[:2], tables[1].read(twin, *read)[:2], strict=True):
        assert sorted(np.frombuffer(mine, np.int32)) == sorted(np.frombuffer(other, np.int32))


SPOKEN = st.lists(
    st.sampled_from("konto account gesperrt 계정이 정지 пожалуйста חשבון the your verify verification rechnung".split())
    | st.text("aäß中계ח0", max_size=9),
    max_size=40,
)


@given(SPOKEN, SPOKEN, st.integers(0, 2**32))
def test_the_same_of_the_second_reader(subject: list[str], body: list[str], seed: int) -> None:
    german = {"konto": "account", "gesperr": "locked", "rechnun": "invoic", "verific": "verify", "ä": "a"}
    tables = {"de": german, "ko": {"계정": "account", "정지": "stop"}, "he": {"חשבון": "account"}}
    gloss = pack_gloss(tables, ["the", "your", "verify", "a"])
    dice = np.random.default_rng(seed)
    stems = len(gloss.stems)
    pairs = np.array([a << 16 | b for a in range(stems) for b in range(a + 1, stems) if dice.random() < 0.5], np.uint32)
    concepts = {"c:account": 0.5, "c:verify": -0.25}
    weights = dice.integers(-64, 64, stems + len(pairs)).astype(np.float32)
    letters = Letters(gloss, pairs, weights, concepts, 0.5)
    again = letters.pack().open()
    given_to: tuple[list[str], ...] = ([], subject, body)
    expected = letters.add_up(subject, body)
    for each in (letters, again):
        found = each._native.read(native.WordArray(*given_to), words.load_index().index, *CONCEPT_BOUNDS)
        assert found == expected


def test_parts_of_a_second_reader_that_do_not_fit_are_refused() -> None:
    whole = [np.zeros(2, np.uint32), np.zeros(2, np.uint8), np.zeros(2, np.uint16), np.zeros(1, np.uint32)]
    right = [*whole, np.zeros(4, np.float32), bytes(3), 0, {}]
    native.Letters(*right)
    wrong = {
        0: np.zeros(3, np.uint32),
        1: np.array([0, 64], np.uint8),
        2: np.array([0, 3], np.uint16),
        3: np.zeros(2, np.uint32),
        4: np.zeros(4, np.float64),
        5: bytes(2),
        6: 64,
    }
    for place, part in wrong.items():
        with pytest.raises(ValueError, match="of a reader"):
            native.Letters(*[part if number == place else each for number, each in enumerate(right)])


@given(WORDS, WORDS, WORDS, st.integers(0, 2**32))
def test_the_same_rows(text: list[str], rest: list[str], marks: list[str], seed: int) -> None:
    dice = random.Random(seed)
    known = sorted({*text[::2], *rest[::2], *marks[::2], "free", "pills"})
    base = len(known) + 1
    keys = sorted({dice.randrange(len(known)) * base + dice.randrange(len(known)) for _ in range(200)})
    weights = np.array([[dice.choice((-2.0, -0.5, 0.25, 1.0, 1.5)) for _ in range(3)] for _ in [*known, *keys]])
    given_to = (tuple(known), np.array(keys, np.int64), weights.astype(np.float32))
    _compare(native.RowTable(*given_to), RowTable(*given_to), text * 5, rest, list(dict.fromkeys(marks)), 20)


@given(st.text("sfc:019abSZ$é", max_size=9) | st.sampled_from(("s:" + "1" * 70, "v1agra", "s:v1agra", "c:4ccount")))
def test_the_same_guesses(word: str) -> None:
    """Every form that an unknown word may stand for is one row, so that the row tells which one was looked for."""
    known = ("nothing", *({normalise_word(word), word.lower()} - {"", word}))
    weights = np.ones((len(known), 3), np.float32)
    given_to = (known, np.array([], np.int64), weights)
    _compare(native.RowTable(*given_to), RowTable(*given_to), [word], [f"s:{word}", word], [], 20)


SIGNS_OF_CONTENT = (
    b"From: a@b.c\r\nTo: d\r\n|from me\n|Dear all:\n|hello |<HTML>|<!DOCTYPE html>|<body|:|<svg|svg+xml|<?xml|<Script>|"
    b"javascript:|onLoad=|data:image/png|;BASE64,|%PDF-|begin 644 x\n|=ybegin |0000644|box-shadow|gradient(|RIFF|MZ|BM|"
    b"(This file must be converted with BinHex|-----BEGIN PGP MESSAGE-----\n|PK\x05\x06|PK\x03\x04|abcdftyp|%FDF-|"
    b"ustar|\x78\x9f\x3e\x22|\0|\xe9|\xe2\x82|\xed\xa0\x80|\x80|\x1b|\x07|\r\n"
).split(b"|")
REPEATED = {b"<td></td>": 121, b"&#9608;": 121, b"\xe2\x96\x88": 121, b"##": 200, b"XX \n": 200, b" ": 40, b"x": 520}
CONTENTS = st.sampled_from(
    [
        *SIGNS_OF_CONTENT,
        *(sign * times for sign, times in REPEATED.items()),
        "⣿".encode() * 61,
        "é中\U0001f600".encode(),
    ]
)


@given(st.lists(CONTENTS, max_size=8), st.integers(0, 3), st.sampled_from(("text/plain", "text/html")))
def test_signs_leave_out_only_what_finds_nothing(pieces: list[bytes], pad: int, kind: str) -> None:
    content = b"\n" * pad + b"".join(pieces)
    signs = native.content_signs(content)
    entity = mime.Entity(types=(kind,))
    budget = ReadBudget()
    if not signs & EMBEDS:
        assert not list(reader._find_embedded("1", entity, content, budget))
        assert not budget.defects
    plain = File("1", content, identify(content), "", (), kind, shown=True)
    if not signs & DRAWS:
        assert not may_draw_code(plain)
    if walk._sort_body(Part("1", content_type=kind, content=content, signs=signs)):
        assert plain.type == ("html" if signs & IS_HTML else "text")
        assert walk._unpack_file(plain, 0, UnpackBudget(), PasswordCandidates(Message())) == (walk._NOTHING, ())


CELLS = (
    *b"<td>|<TD bgcolor=#000>|<div class=x>|<td\xe4>|<em_>|<a-b>|<span|<b>|<t|>|&nbsp;| |\f|</|<tr|<th".split(b"|"),
    *b"<p style='background:#0'>|BackGround|border:|class=|##|#|#0|@@|X|black|BLACK|box-shadow|Box-Shadow".split(b"|"),
    *b"gradient(|x|&#96|&#x25|&#X25|&#|\xe2\x96\x88|\xe2\xac\x9b|\xe2\x9a\xab|\xe2\x97\x8f|\xe2\xa3\xbf".split(b"|"),
    *b"\xe2\xa0\x81|\xe2".split(b"|"),
)


def test_the_same_look_for_cells() -> None:
    chance = random.Random(4711)
    seen = {NO_CELLS: 0, HAS_CELLS: 0, SHORT_CELLS: 0}
    for _ in range(1_500):
        pieces = chance.sample(CELLS, chance.randint(1, 8))
        weights = [chance.random() ** 2 + 0.01 for _ in pieces]
        content = b"".join(chance.choices(pieces, weights=weights, k=chance.randint(0, 1_500)))
        found = look_for_cells(content)
        assert native.look_for_cells(content) == found, content
        seen[found] += 1
    assert min(seen.values()) > 0
    long = b"x" * 1_999_999 + b"<td></td class=a>" * 300
    assert native.look_for_cells(long) == look_for_cells(long)


HARMLESS = st.sampled_from(
    [*"<>/='\" \n\fé\u212a!", *"<b>|<a href=x|</p>|<stri\u212ae>|<FONT |c=\"d<e>\"|<i|</b a=1>|=''".split("|")]
)


@given(st.lists(HARMLESS, max_size=20).map("".join), st.integers(1, 6), st.integers(0, 9))
def test_the_same_harmless_pages(html: str, longest: int, most: int) -> None:
    assert native.is_harmless(html, longest, most) == limits.is_harmless(html, longest, most)


NESTED = st.sampled_from(
    "<div> </div> <b> </B> <p/a=1> </p/> <select> </select> <style> </style\f> </STYLE <!-- --> --!> <!---> "
    "<!x> <?y </a> </> <svg> <LI> <li <td/a='>'> </td> <img/> <hr> <a\u212a> <script> </script> <xmp> < > ' x "
    "\u00e9".split(" ")
)


@given(st.lists(NESTED, max_size=20).map("".join), st.integers(0, 4), st.integers(0, 4))
def test_the_same_well_nested_pages(html: str, deepest: int, most: int) -> None:
    assert native.is_well_nested(html, deepest, most) == limits.is_well_nested(html, deepest, most)


def _compare(ours: Any, twin: RowTable, text: list[str], rest: list[str], marks: list[str], window: int) -> None:
    mine = ours.find(text, rest, marks, normalise_word, window)
    other = twin.find(text, rest, marks, normalise_word, window)
    for these, those in zip(mine[:2], other[:2], strict=True):
        assert sorted(np.frombuffer(these, np.int32)) == sorted(np.frombuffer(those, np.int32))
    assert np.allclose(mine[2], other[2])
    assert np.allclose(mine[3], other[3])
    assert [count for count, _ in mine[4]] == [count for count, _ in other[4]]
    assert np.allclose([total for _, total in mine[4]], [total for _, total in other[4]])
    scale = 0.125
    assert ours.heaviest(*mine[:2], scale, MARK_SCALE, MAX_SHOWN) == twin.heaviest(*other[:2], scale, MARK_SCALE, 6)


HOP_WORDS = "from | by | for |<|>|@|.|[|]|(| (|unknown [|HELO |helo=|EHLO |)|;|_|-| |\t|\0|localhost| (8.|é|Unknown"
HOP_NAMES = "192.0.2.1|[10.0.0.1]|1.2.3.4444)|a.example|mx.b.example.|x@y_z.example ["
HOP_PIECES = st.sampled_from([*HOP_WORDS.split("|"), *HOP_NAMES.split("|"), "a" * 256, "b." * 130])


@given(st.lists(HOP_PIECES, max_size=16).map("".join), st.lists(HOP_PIECES, max_size=9).map("".join))
def test_the_same_hops(before: str, after: str) -> None:
    """Received fields of any form, and such as have a host and a server."""
    for value in (before, f"from {before} by {after}", f"from a.example ({before}) by mx.b.example {after}"):
        assert sending_host.read_hop(value) == sending_host.read_any_hop(value)


def test_hops_in_ascii_are_read_natively() -> None:
    value = "from mail.a.example (mx.a.example [192.0.2.1])\r\n by mx.b.example with ESMTP for <ann@b.example>"
    hop = native.read_hop(value, sending_host.MAX_HOP_TEXT, sending_host.Hop)
    assert hop == sending_host.read_any_hop(value)
    assert (hop.name, hop.address, hop.recipient) == ("mx.a.example", "192.0.2.1", "b.example")
    assert native.read_hop(value + " é", sending_host.MAX_HOP_TEXT, sending_host.Hop) is None


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: native.smallest_hashes(("a",), 5, 8, 0), TypeError),
        (lambda: native.smallest_hashes(["a"], 0, 8, 0), ValueError),
        (lambda: native.smallest_hashes(["a"], 5, 1_000, 0), ValueError),
        (lambda: native.smallest_hashes([b"a"], 5, 8, 0), TypeError),
        (lambda: native.smallest_hashes(["\ud800"] * 9, 5, 8, 0), UnicodeEncodeError),
        (lambda: native.RowTable(("a",), np.array([], np.int64), np.zeros((2, 3), np.float32)), ValueError),
        (lambda: native.RowTable(("a",), np.array([1], np.int32), np.zeros((2, 3), np.float32)), ValueError),
        (lambda: native.RowTable(("a",), np.array([], np.int64), np.zeros((1, 3), np.float64)), ValueError),
        (lambda: _table().find(["a"], [], [], normalise_word, 0), ValueError),
        (lambda: native.content_signs("text"), TypeError),
        (lambda: native.has_latent_marks(b"text"), TypeError),
        (lambda: native.is_harmless(b"text", 1, 1), TypeError),
        (lambda: native.is_well_nested(b"text", 1, 1), TypeError),
        (lambda: native.is_well_nested("text", 1_001, 1), ValueError),
        (lambda: _table().find(["§"], [], [], lambda _: 7, 80), TypeError),
        (lambda: _table().heaviest(b"\xff\xff\xff\x7f", b"", 1.0, 1.0, 6), ValueError),
        (lambda: _table().heaviest(b"", b"", 1.0, 1.0, 0), ValueError),
        (lambda: native.feature_row(["a"], 1_000, []), ValueError),
        (lambda: native.feature_row(("a",), 5, []), TypeError),
        (lambda: native.WordArray([], ["a"], [b"a"]), TypeError),
        (lambda: native.WordArray.read([b"a"], "", [], b"", "€£", 1, 1, 1), TypeError),
        (lambda: native.WordArray.read([], "", [], b"", "€£", 1, -1, 1), ValueError),
        (lambda: native.WordArray.read([], "", [], b"", "€", 1, 1, 1), ValueError),
        (lambda: native.WordArray([], [], []).smallest_hashes(0, 8, 0), ValueError),
        (lambda: native.WordArray([], [], []).row(1_000, 1, []), ValueError),
        (lambda: _table().read(["a"], [], normalise_word, words.load_index().index, 80, 1, 1, 1), TypeError),
        (lambda: _table().read(native.WordArray([], [], []), [], normalise_word, _table(), 80, 1, 1, 1), TypeError),
        (lambda: _read_rows(most=9999), ValueError),
        (lambda: _read_rows(beside=-1), ValueError),
        (lambda: _read_rows(normalise=lambda _: 7), TypeError),
        (lambda: native.split_words(b"a"), TypeError),
        (lambda: native.fold_ascii("ä"), ValueError),
        (lambda: native.transliterate("ä", "é", ()), ValueError),
        (lambda: native.edge_words("a.b"), TypeError),
        (lambda: native.has_invisible(b"a"), TypeError),
        (lambda: native.ordinary_addresses(b"a", None), TypeError),
        (lambda: native.read_hop(b"a", 9, None), TypeError),
        (lambda: native.read_hop("a", 9, None), TypeError),
        (lambda: native.pack_phrases([((), (), "", "")], [("ab", 0, False, 0)]), ValueError),
        (lambda: native.pack_phrases([((), (), "", "")], [("abc", 2, False, 0)]), ValueError),
        (lambda: native.pack_phrases([((), (), "", "")], [("abc", 0, False, 1)]), ValueError),
        (lambda: native.pack_phrases([], [("abc", 0)]), TypeError),
        (lambda: native.pack_phrases([((True, "a"), (), "", "")], []), TypeError),
        (lambda: native.pack_phrases([((), (True, (b"a",)), "", "")], []), TypeError),
        (lambda: native.PhraseIndex("abc"), TypeError),
        (lambda: native.PhraseIndex(native.pack_phrases([], [])).find(b"abc"), TypeError),
        (lambda: native.pack_concepts([("a", 0, False)], 1), ValueError),
        (lambda: native.pack_concepts([("abc", 1, False)], 1), ValueError),
        (lambda: native.pack_concepts([("abc", 0, False), ("abcd", 0, False)], 1), ValueError),
        (lambda: native.ConceptIndex(native.pack_concepts([], 1), ()), ValueError),
        (lambda: native.ConceptIndex(native.pack_concepts([], 0), ()).find([b"a"], 9), TypeError),
        (lambda: native.ConceptIndex(native.pack_concepts([], 0), ()).find(["a"], 9999), ValueError),
        (lambda: native.split_fields("a", 0, 9, 9, 9, None, None), TypeError),
        (lambda: native.split_fields(b"a", 2, 9, 9, 9, None, None), ValueError),
        (lambda: native.split_fields(b"a", -1, 9, 9, 9, None, None), ValueError),
        (lambda: native.split_fields(b"a:b\n\n", 0, 9, 9, 9, None, None), TypeError),
        (lambda: native.find_delimiter(b"\n--a", 0, {b"a"}, frozenset(), (), 9), TypeError),
        (lambda: native.link_words("ä.com", frozenset()), ValueError),
        (lambda: native.squeeze(b"a", True), TypeError),
        (lambda: native.spelled_places(b"a"), TypeError),
        (lambda: native.field_signs([], {}, {}, 1), TypeError),
        (lambda: native.field_signs((1,), {}, {}, 1), AttributeError),
        (lambda: native.field_signs((Field("a", "", b""),), {"a": "b"}, {}, 1), TypeError),
        (lambda: native.field_signs((Field("a", "", b""),), {}, {"a": "b"}, 1), TypeError),
        (lambda: native.may_spell_number(b"a"), TypeError),
        (lambda: native.url_signs([]), TypeError),
        (lambda: native.url_signs((1,)), AttributeError),
        (lambda: native.has_long_run(b"a", 1), TypeError),
        (lambda: native.has_long_run("a", 0), ValueError),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def _table() -> Any:
    return native.RowTable(("a",), np.array([], np.int64), np.zeros((1, 3), np.float32))


def _read_rows(normalise: Any = normalise_word, most: int = 9, beside: int = 4) -> Any:
    given_to = native.WordArray(["§"], ["§"], ["§"])
    return _table().read(given_to, [], normalise, words.load_index().index, 80, most, 60, beside)


def test_a_list_that_changes_while_it_is_read() -> None:
    text = ["§"] * 500

    def shrink(_: str) -> str:
        text.clear()
        return "a"

    found, *_ = _table().find(text, [], [], shrink, 80)
    assert np.frombuffer(found, np.int32).tolist() == [0]


def test_another_list_that_changes_while_one_is_read() -> None:
    rest, marks = ["a"] * 5_000, ["a"] * 5_000

    def shrink(_: str) -> str:
        rest.clear()
        marks.clear()
        return "a"

    found, noted, *_ = _table().find(["§"], rest, marks, shrink, 80)
    assert np.frombuffer(found, np.int32).tolist() == [0]
    assert not noted


@pytest.fixture(scope="module")
def twin_book() -> phrases.Phrasebook:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrases, "native", None)
        return phrases.Phrasebook(phrases.compile_phrases(phrases.join_lures() | phrases.WARES))


def _cues(book: phrases.Phrasebook, text: str) -> list[tuple[int, str, str]]:
    return sorted((cue.start, cue.theme, cue.words) for cue in book.find(text))


@given(
    st.text(max_size=60) | st.text("Éé’“–eE-MmAIil ıŁøß\u0301\u064bİŉ½ﬁが한\u2003\u00ad\u094dक़\U00010400", max_size=40)
)
def test_the_same_folded_letters(text: str) -> None:
    assert phrases.fold(text) == phrases.fold_any(text)


PIECES = st.sampled_from(
    "verify your account|click here|100 % free|wire transfer|within 24 hours|dear customer|act now|viagra|ü|中|.|,|-|"
    "x|the|your|konto|bestätigen|limited time|unsubscribe|lottery|winner|bank|password|re|un|подтвердите|ваш|аккаунт|"
    "验证您的账户|您的|บัญชี|ของคุณ|_|\U00010400".split("|")
)


@given(st.lists(st.tuples(PIECES, st.sampled_from((" ", "", "-", "\n", "é"))), max_size=30))
def test_the_same_phrases(twin_book: phrases.Phrasebook, pieces: list[tuple[str, str]]) -> None:
    text = phrases.fold("".join(word + blank for word, blank in pieces))
    for shown in (text, f" {text} "):
        assert _cues(phrases.SHIPPED, shown) == _cues(twin_book, shown)


def _change(packed: bytes, changes: list[tuple[int, int]], cut: int) -> bytes:
    """Bytes of an index with some of its numbers changed; most of those that are not counts stand behind the bits."""
    changed = bytearray(packed)
    for place, value in changes:
        changed[place % len(changed)] = value
    return bytes(changed[: len(changed) - cut])


BOOK = phrases.compile_phrases({"t": ["(re|tax*) (fund|now)", "masturb*", "(the |)пароль", "验证您的(账户|身份)"]})
BEHIND_BITS = 3 * 4096 * 8
CHANGES = st.lists(st.tuples(st.integers(0, 23) | st.integers(BEHIND_BITS, BEHIND_BITS + 2000), st.integers(0, 255)))


@given(CHANGES, st.integers(0, 40))
def test_a_changed_index_is_refused_or_finds_something_else(changes: list[tuple[int, int]], cut: int) -> None:
    """A kept file may be cut or foreign: nothing outside of it is read."""
    book = phrases.pack_book(BOOK).index
    terms = [words.Term(" card", "card", False), words.Term(" пароль", "password", True)]
    packed = words.pack_terms(terms)
    with contextlib.suppress(ValueError):
        native.PhraseIndex(_change(book, changes, cut)).find(" tax refund now, the пароль 验证您的账户 ")
    with contextlib.suppress(ValueError):
        native.ConceptIndex(_change(packed.index, changes, cut), packed.names).features(["card", "пароль"], 9, 9, 9)


@pytest.fixture(scope="module")
def twin_concepts() -> words.ConceptIndex:
    return words.ConceptIndex(words.join_dictionaries())


TERMS = st.sampled_from(
    "account accounts acc blocked конто пароль 账户 验证 pass word password kart karten é 1 $".split()
)


@given(st.lists(TERMS | st.text(max_size=6), max_size=40))
def test_the_same_concepts(twin_concepts: words.ConceptIndex, given_words: list[str]) -> None:
    ours = words.load_index()
    assert ours.find(given_words) == twin_concepts.find(given_words)
    assert ours.list_features(given_words) == twin_concepts.list_features(given_words)


@given(st.text("ab.:/ \n\u2003\x1cäw", max_size=30) | st.just(""))
def test_the_same_words_at_edges(text: str) -> None:
    pieces = [text, text[::-1], text.replace(" ", "")]
    assert links.find_cut_words(pieces) == links.find_cut_words_of(pieces)


MAILBOXES = st.lists(
    st.sampled_from(
        ["Ann", "ann@example.com", "<ann@Example.COM.>", '"Ann, B"', '""', "<>", "< a @ b >", ",", " ", "\t", "\x1c"]
    )
    | st.sampled_from(
        ["<", ">", '"', "(c)", ";", "g:", "\\", "=?utf-8?q?a?=", "@", "ä", '<"a"@b>', "a" * 1_100, "<@x:a@b>", "@b "]
    ),
    max_size=9,
)


@given(MAILBOXES, st.integers(0, 4))
def test_the_same_addresses(pieces: list[str], most: int) -> None:
    text = "".join(pieces)
    assert headers.parse_addresses(text, most) == headers.parse_any_addresses(text, most)


HEADER_PIECES = st.sampled_from(
    "Subject¦X-A¦ ¦\t¦:¦: ¦\r\n¦\r\n¦\n¦\n ¦\r\n\t¦\r¦\0¦--¦--b¦ä¦=?utf-8?q?a?=¦=?¦\x1f¦\x0b¦"
    "value¦\x7f¦\r\n\r\n¦\n\n¦x".split("¦")
)


def _read_fields(split: Callable[..., Any], source: bytes, window: int, largest: int, most: int) -> Any:
    return split(source, 1, window, largest, most, lambda *given: given, str.swapcase)


@given(st.lists(HEADER_PIECES, max_size=30), st.sampled_from((5, 30, 65_536)), st.sampled_from((10, 1 << 20)))
def test_the_same_header_fields(pieces: list[str], window: int, largest: int) -> None:
    source = ("\n" + "".join(pieces) + "\r\n\r\n").encode()
    assert _read_fields(native.split_fields, source, window, largest, 3) == _read_fields(
        headers.split_fields, source, window, largest, 3
    )


FIELDS = st.lists(
    st.tuples(
        st.sampled_from(("Subject", "X" * 80, "content-Type ", "a-")),
        st.lists(st.sampled_from((" a", "\tb\x1f", "  ", "=?utf-8?b?YQ==?= c", "")), min_size=1, max_size=4),
    ),
    max_size=8,
)


@given(FIELDS, st.sampled_from(("\r\n", "\n", "\r\r\n")), st.sampled_from(("\r\n", "\n", "\n\r\n", "\r\n\n")))
def test_the_same_ordinary_header_fields(fields: list[tuple[str, list[str]]], eol: str, end: str) -> None:
    lines = (f"{name}:{(eol + ' ').join(values)}{eol}" for name, values in fields)
    source = ("\n" + "".join(lines) + end + "body").encode()
    split = (native.split_fields, headers.split_fields)
    ours, twin = (_read_fields(each, source, 65_536, 1 << 20, 100) for each in split)
    assert ours == twin


BOUNDARY_LINES = st.sampled_from("--b¦--b--¦--c ¦--c--\r¦--bx¦--¦text¦-- b¦--b\t--¦--d¦¦--\0¦----¦ --b".split("¦"))


@given(st.lists(BOUNDARY_LINES, max_size=20), st.integers(-3, 40), st.integers(0, 6), st.booleans())
def test_the_same_delimiters(lines: list[str], at: int, most: int, with_prefixes: bool) -> None:
    source = "\n".join(lines).encode()
    opened, closed = frozenset({b"b", b"d" * 996}), frozenset({b"c"})
    given_to = (source, at, opened, closed, (b"b",) if with_prefixes else (), most)
    assert native.find_delimiter(*given_to) == mime.find_delimiter(*given_to)


@pytest.mark.parametrize("size", [995, 996, 997, 998])
def test_the_same_long_delimiters(size: int) -> None:
    given_to: tuple[Any, ...] = (
        b"\n--" + b"d" * size + b" \n",
        0,
        frozenset({b"d" * 997, b"d" * 995}),
        frozenset(),
        (),
        9,
    )
    assert native.find_delimiter(*given_to) == mime.find_delimiter(*given_to)


SEGMENT_PIECES = st.sampled_from(
    "--b¦ --¦-¦\r¦\n¦\r\n¦\0¦\t¦Content-Type: x¦cONTENT-¦Content\r¦x¦                    ¦text¦\n\n".split("¦")
)


@given(st.lists(SEGMENT_PIECES, max_size=30), st.integers(-1, 120), st.integers(0, 4))
def test_the_same_segments(pieces: list[str], limit: int, most: int) -> None:
    source = "".join(pieces).encode()
    assert native.find_segments(source, limit, most) == reader.find_segments(source, limit, most)
    assert native.find_segments(source, len(source), 99) == reader.find_segments(source, len(source), 99)


@given(st.lists(SEGMENT_PIECES, max_size=20), st.integers(-1, 60), st.integers(-1, 120))
def test_the_same_content_fields(pieces: list[str], start: int, end: int) -> None:
    source = "".join(pieces).encode()
    assert native.find_content_field(source, start, end) == reader.find_content_field(source, start, end)


WEB_PIECES = st.sampled_from(
    "http://¦https://¦HTTP://¦www.¦WWW2.¦w12.¦w123.¦.com¦.COM¦.ly/x¦a¦b.¦@¦-¦ ¦<¦>¦(¦.¦..¦:¦o:¦mailto:a@b.com¦:/¦:]¦"
    "example.org¦x.co.uk¦/¦_¦9¦,¦ftp://x.y¦\x7f¦\x1f".split("¦")
)


@given(st.lists(WEB_PIECES, max_size=14).map("".join))
def test_the_same_words_with_links(text: str) -> None:
    assert native.link_words(text, links._ENDINGS_WITH_PATH) == links.find_link_words(text)


@given(st.one_of(st.text(" \t\n\x1e\x1f\xa0\x85\u3000\u2003abé中", max_size=40), st.text(" \n\x1e\x1cab\x7f")))
def test_the_same_blanks(text: str) -> None:
    assert native.squeeze(text, False) == " ".join(text.split())
    lines = "\n".join(" ".join(words) for line in text.split(BREAK) if (words := line.split()))
    assert native.squeeze(text, True) == lines
    assert hash(native.squeeze(text, True)) == hash(lines)


def test_the_same_header_fields_and_segments_of_real_mail() -> None:
    try:
        messages = mail(150)
    except NotPresentError as absence:
        pytest.skip(f"not run: {absence}")
    for each in messages:
        raw = b"\n" + each.raw
        assert _read_fields(native.split_fields, raw, 65_536, 1 << 20, 99) == _read_fields(
            headers.split_fields, raw, 65_536, 1 << 20, 99
        )
        assert native.find_segments(raw, len(raw), 99) == reader.find_segments(raw, len(raw), 99)


@pytest.mark.variant
def test_the_same_reports_with_and_without_them(tmp_path: Path) -> None:
    """Whole reports of the twins, from a process that has nothing else, against those of this process."""
    recorded = tmp_path / "reports.zst"
    environment = os.environ | {"GATEPOST_PURE_PYTHON": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "bench.equal", "record", str(recorded), "--count", "60"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "NotPresentError" in done.stderr:
        pytest.skip("not run: there is no mail to compare with")
    assert done.stdout == "60 reports were recorded.\n", done.stderr
    assert equal.compare(recorded, 60, "mail-dev") == (60, [])


def test_a_changed_report_is_told(tmp_path: Path) -> None:
    recorded = tmp_path / "reports.zst"
    try:
        message, *_ = mail(1, max_bytes=equal.MOST_BYTES)
    except NotPresentError as absence:
        pytest.skip(f"not run: {absence}")
    report = equal.describe(message).report | {"score": -1.0}
    recorded.write_bytes(zstandard.compress(msgspec.json.encode(equal.Recorded(message.path, report)) + b"\n"))
    compared, (line,) = equal.compare(recorded, 1, "mail-dev")
    assert compared == 1
    assert line.startswith(f"{message.path}: score (-1.0 → ")


@pytest.mark.variant
def test_the_same_for_real_mail(twin_book: phrases.Phrasebook, twin_concepts: words.ConceptIndex) -> None:
    try:
        messages = [read(each.raw) for each in mail(150)]
    except NotPresentError as absence:
        pytest.skip(f"not run: {absence}")
    model = load_shipped_model()
    ours, twin = (
        native.RowTable(model.words, model.pairs, model.weights),
        RowTable(model.words, model.pairs, model.weights),
    )
    for message in messages:
        _compare_words(
            [sender.name for sender in message.senders],
            message.subject,
            [each.visible for each in message.texts],
            6_000,
        )
        seen = extract_features(message)
        assert words.load_index().find(seen.text) == twin_concepts.find(seen.text)
        assert words.find_concepts(seen.text) == twin_concepts.list_features(seen.text)
        _compare(ours, twin, seen.text, seen.rest, seen.marks, WINDOW)
        # The same by words as they lie in memory, in the same order, so that the sums are the same to the last bit.
        by_lists = model.hits(seen)
        written = words.read_words(message)
        assert model.read(written, seen.marks) == by_lists
        if model.letters:
            found = model.letters._native.read(written, words.load_index().index, *CONCEPT_BOUNDS)
            assert found == pytest.approx(model.letters.add_up(written.subject, written.body))
        text = phrases.fold(" ".join(each.visible for each in message.texts)[: phrases.MAX_CHARS])
        assert _cues(phrases.SHIPPED, text) == _cues(twin_book, text)
        for part in message.parts:
            if part.content_type == "text/html" and part.content:
                html = part.content.decode("latin-1")
                assert describe_page(HtmlPage, html) == describe_page(WalkedPage, html)


def test_without_them_the_twins_are_used() -> None:
    code = "from gatepost import speedups; print(speedups.native, speedups.describe_speedups())"
    environment = {"GATEPOST_PURE_PYTHON": "1", "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "None pure Python\n"


def test_a_machine_without_a_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "no-such-compiler")
    with tempfile.TemporaryDirectory() as folder, pytest.raises(OSError, match="there is no C compiler"):
        build_speedups.build(Path(folder))
