"""What PDFs do besides showing pages, however they write it."""

import zlib
from base64 import a85encode
from hashlib import md5

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.ciphers import Cipher
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.files.documents import dispatch
from gatepost.files.documents.pdf import PdfName, PdfReference, parse_value
from gatepost.files.values import Contents, File, UnpackBudget


def document(*objects: bytes, trailer: bytes = b"<< /Root 1 0 R >>") -> bytes:
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, text) for number, text in enumerate(objects, 1))
    return b"%PDF-1.7\n" + body + b"trailer\n" + trailer + b"\n%%EOF\n"


def stream(data: bytes, dictionary: bytes = b"/Filter /FlateDecode", *, packed: bool = True) -> bytes:
    data = zlib.compress(data) if packed else data
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (dictionary, len(data), data)


def packed(*objects: bytes) -> bytes:
    """An object stream that holds these as numbers 100, 101, …"""
    places, body = [], b""
    for number, text in enumerate(objects, 100):
        places.append(b"%d %d" % (number, len(body)))
        body += text + b" "
    head = b" ".join(places) + b" "
    return stream(head + body, b"/Type /ObjStm /N %d /First %d /Filter /FlateDecode" % (len(objects), len(head)))


def contents(content: bytes, budget: UnpackBudget | None = None) -> Contents:
    return dispatch.inspect(File("1", content, "pdf", "0" * 64), budget or UnpackBudget())


def seen(content: bytes) -> list[str]:
    found = contents(content)
    return sorted({trait.name for trait in found.traits} | {link.url for link in found.links})


CATALOG = b"<< /Type /Catalog >>"
# "payload" in codes of nine bits between "clear" and "end".
LZW = int("".join(f"{code:09b}" for code in (256, *b"payload", 257)) + "0" * 7, 2).to_bytes(11, "big")
LINK = b"<< /Type /Annot /A << /S /URI /URI (https://a.test/x) >> >>"


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([CATALOG], []),
        ([LINK], ["https://a.test/x"]),
        ([b"<</A<</S/URI/URI<68747470733a2f2f612e746573742f78>>>>>"], ["https://a.test/x"]),
        ([b"<< /A << /S /URI /U#52I (https://a.test/x) >> >>"], ["https://a.test/x"]),
        ([b"<< /A << /S /URI /URI (https:/\\\n/a.test\\057x) >> >>"], ["https://a.test/x"]),
        ([b"<< /A << /S /URI /URI 2 0 R >> >>", b"(https://a.test/x)"], ["https://a.test/x"]),
        ([b"<< /A << /S /URI % a comment >>\n /URI (https://a.test/(x)) >> >>"], ["https://a.test/(x)"]),
        ([packed(LINK)], ["https://a.test/x"]),
        ([b"<< /S /JavaScript /JS (app.alert(1)) >>"], ["pdf-javascript"]),
        ([b"<< /S /J#61vaScript /J#53 (app.alert(1)) >>"], ["pdf-javascript"]),
        ([b"<< /S /Launch /Win << /F (cmd.exe) /P (/c calc) >> >>"], ["pdf-launch"]),
        ([b"<< /OpenAction << /S /JavaScript /JS (x) >> >>"], ["pdf-javascript", "pdf-open-action"]),
        ([b"<< /OpenAction 2 0 R >>", b"<< /S /URI /URI (http://a.test/) >>"], ["http://a.test/", "pdf-open-action"]),
        ([b"<< /OpenAction << /S /GoTo /D [3 0 R /Fit] >> >>"], []),  # opens at a page
        ([b"<< /OpenAction [3 0 R /XYZ null null 0] >>"], []),
        ([b"<< /Type /Page /AA << /O << /S /Launch /F (x) >> >> >>"], ["pdf-launch", "pdf-open-action"]),
        ([b"<< /FT /Tx /AA << /F << /S /JavaScript /JS (AFNumber_Format(2)) >> >> >>"], ["pdf-javascript"]),  # a field
        ([b"<< /AcroForm << /Fields [] >> >>"], ["pdf-form"]),
        ([b"<< /Title (how to write /JavaScript and /Launch in a PDF) >>"], []),
        ([b"<< /S /SubmitForm /F << /FS /URL /F (https://a.test/in) >> >>"], ["https://a.test/in", "pdf-submit-form"]),
        ([b"<< /Type /Sig /ByteRange [0 1 2 3] /Contents <00ff> >>"], []),  # signed
    ],
)
def test_actions(objects: list[bytes], expected: list[str]) -> None:
    assert seen(document(*objects)) == expected


def test_an_object_hidden_in_a_stream_is_found() -> None:
    assert seen(document(stream(b"9 0 obj " + LINK + b" endobj", b"", packed=False))) == ["https://a.test/x"]


def test_every_version_of_an_object_is_read() -> None:
    changed = LINK.replace(b"a.test", b"b.test")
    content = document(LINK) + b"1 0 obj\n" + changed + b"\nendobj\n"
    assert seen(content) == ["https://a.test/x", "https://b.test/x"]


@pytest.mark.parametrize(
    "data",
    [
        stream(b"payload"),
        stream(b"payload", b"", packed=False),
        stream(b"7061796c6f6164>", b"/Filter /ASCIIHexDecode", packed=False),
        stream(a85encode(b"payload") + b"~>", b"/Filter [/ASCII85Decode]", packed=False),
        stream(b"\x06payload\x80", b"/Filter /RL", packed=False),
        stream(LZW, b"/Filter /LZWDecode", packed=False),
        stream(zlib.compress(b"payload").hex().encode() + b">", b"/Filter [/AHx /Fl]", packed=False),
        stream(b"payload")[:-14] + b"\nendstream",  # cut short
    ],
    ids=range(8),
)
def test_embedded_files_are_unfolded(data: bytes) -> None:
    spec = b"<< /Type /Filespec /F (a.txt) /UF (\xfe\xff\0b\0.\0t\0x\0t) /EF << /F 2 0 R >> >>"
    member = contents(document(spec, data)).members[0]
    assert member.names == ("b.txt", "a.txt")
    assert member.content.startswith(b"payl")


def test_an_embedded_file_that_nobody_names_is_unfolded() -> None:
    found = contents(document(stream(b"payload", b"/Type /EmbeddedFile /Filter /FlateDecode")))
    assert found.members[0].content == b"payload"


def test_scripts_are_files_with_their_strings_put_together() -> None:
    found = contents(document(b"<< /JS 2 0 R >>", stream(b"var a = \"EI\" + 'CAR\\x21';")))
    assert b"EICAR!" in found.members[0].content


def rc4(key: bytes, data: bytes) -> bytes:
    return Cipher(ARC4(key), None).encryptor().update(data)


def encrypted(password: bytes) -> bytes:
    """A file of revision 2 whose link is encrypted."""
    pad = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
    owner = bytes(32)
    key = md5((password + pad)[:32] + owner + b"\xfc\xff\xff\xff" + b"id").digest()[:5]
    of_object = md5(key + b"\x01\0\0\0\0").digest()[:10]
    address = rc4(of_object, b"https://a.test/secret").hex().encode()
    entry = b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (
        owner.hex().encode(),
        rc4(key, pad).hex().encode(),
    )
    return document(
        b"<< /S /URI /URI <%s> >>" % address, entry, trailer=b"<< /Encrypt 2 0 R /ID [(id) (id)] /Root 1 0 R >>"
    )


def test_a_file_that_only_forbids_printing_is_read() -> None:
    assert seen(encrypted(b"")) == ["https://a.test/secret"]


def test_a_password_that_the_mail_gives_away_opens_it() -> None:
    found = dispatch.inspect(File("1", encrypted(b"7361"), "pdf", "0" * 64), UnpackBudget(), ("1234", "7361"))
    assert [trait.name for trait in found.traits] == ["document-password"]
    assert [link.url for link in found.links] == ["https://a.test/secret"]


def test_a_file_that_needs_a_password_says_so() -> None:
    assert seen(encrypted(b"secret")) == ["encrypted"]


def test_values() -> None:
    text = b"<< /A [1 -2.5 (a\\)b) <6 1> /N#20m true null 3 0 R] /B << /C (x) >> /B2"
    assert parse_value(text) == {
        "A": [1.0, -2.5, b"a)b", b"a", PdfName("N m"), True, None, PdfReference(3)],
        "B": {"C": b"x"},
    }


def test_a_bomb_is_cut_off() -> None:
    bomb = zlib.compress(zlib.compress(bytes(64 << 20)))
    spec = b"<< /F (a) /EF << /F 2 0 R >> >>"
    budget = UnpackBudget()
    found = contents(document(spec, stream(bomb, b"/Filter [/Fl /Fl]", packed=False)), budget)
    assert found.unread == ("ratio",) or found.unread == ("size",)
    assert budget.spent <= budget.max_bytes


def test_a_chain_of_filters_is_cut_off() -> None:
    spec = b"<< /F (a) /EF << /F 2 0 R >> >>"
    assert contents(document(spec, stream(b"x", b"/Filter [" + b"/Fl " * 100 + b"]"))).unread == ("depth",)


def test_a_length_beyond_the_file_is_no_matter() -> None:
    spec = b"<< /F (a) /EF << /F 2 0 R >> >>"
    data = b"<< /Length 99999999999 >>\nstream\npayload\nendstream"
    assert contents(document(spec, data)).members[0].content.strip() == b"payload"


def test_a_large_object_that_is_named_everywhere_is_paid_for() -> None:
    large = b"(" + b"x" * 100_000 + b")"
    content = document(*([b"<< /S /URI /URI 500 0 R >>"] * 499), large)
    assert contents(content).unread == ("size",)


@pytest.mark.variant
def test_objects_without_end_cost_one_pass() -> None:
    assert contents(b"%PDF-1.7\n" + b"1 0 obj << /S /URI " * 50_000).traits == ()


def test_deep_nesting_is_no_recursion() -> None:
    assert contents(document(b"<< /JS " + b"[" * 40_000)).traits[0].name == "pdf-javascript"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    content = bytearray(encrypted(b"") + document(LINK, packed(LINK), stream(b"payload", b"/Type /EmbeddedFile /Fl")))
    for _ in range(data.draw(st.integers(1, 30))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert contents(bytes(content)).unread in ((), ("unsupported",), ("damaged",), ("size",))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"<<", b">>", b"[", b"]", b"(", b")", b"<", b">", b"/URI ", b"1 0 R ", b"\\", b"%", b"#4"])
    )
)
def test_no_value_raises(tokens: list[bytes]) -> None:
    contents(document(b"/JS" + b"".join(tokens)))
