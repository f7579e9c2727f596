"""XML as a browser reads it: vocabularies, entities, sections, errors, and what would unfold without end."""

import pytest

from gatepost.pages.page_nodes import SVG, XHTML, XmlPage, read_xml_page


def read(text: str) -> XmlPage:
    page = read_xml_page(text.encode())
    assert page
    return page


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        (f"<svg xmlns='{SVG}'><script>a&lt;b</script></svg>", ["a<b"]),
        (f"<svg xmlns='{SVG}'><script><![CDATA[a<b]]>c</script></svg>", ["a<bc"]),
        (f"<x:svg xmlns:x='{SVG}'><x:script>a</x:script></x:svg>", ["a"]),
        (f"<a xmlns:h='{XHTML}'><h:script>a</h:script></a>", ["a"]),
        (f"<!DOCTYPE a [<!ENTITY e 'b'>]><svg xmlns='{SVG}'><script>a&e;c</script></svg>", ["abc"]),
        (f"<svg xmlns='{SVG}'><script>a</script><broken></svg>", ["a"]),
        (f"<svg xmlns='{SVG}'><script>a", ["a"]),
        (f"<svg xmlns='{SVG}'><script type='text/plain'>a</script></svg>", []),
        ("<svg><script>a</script></svg>", ["a"]),
        ("<order><script>a</script></order>", []),
        ("<order xmlns='urn:x'><script onload='a'>a</script></order>", []),
    ],
)
def test_scripts(text: str, scripts: list[str]) -> None:
    page = read(text)
    assert [script.text for script in page.nodes.scripts] == scripts
    assert not page.nodes.has_handlers


def test_handlers_count_only_in_vocabularies_that_have_them() -> None:
    assert read(f"<svg xmlns='{SVG}' onload='a'/>").nodes.has_handlers
    assert not read("<window xmlns='urn:zul' onClick='a'/>").nodes.has_handlers


def test_the_page_as_html() -> None:
    page = read(
        f"<!DOCTYPE a [<!ENTITY e 'x&amp;y'>]><h:html xmlns:h='{XHTML}'><h:a href='&e;'>&e;<h:br/></h:a></h:html>"
    )
    assert page.html == '<html><a href="x&amp;y">x&amp;y<br></a></html>'
    assert page.root == XHTML


def test_entities_of_markup_and_style_sheets() -> None:
    page = read(
        "<?xml-stylesheet href='#s' type='text/xsl'?><?xml-stylesheet href='a.css' type='text/css'?>"
        "<!DOCTYPE a [<!ENTITY m '<b/>'><!ENTITY n 'text'><!ENTITY % p '<c/>'>]><a>&m;</a>"
    )
    assert page.markup_entities == ["m"]
    assert page.style_sheets == ["#s"]


def test_no_page() -> None:
    for content in (b"", b"text", b"<", b"\xff\xfe", b"<?xml version='1.0' encoding='no-such'?><a/>", b"&a;"):
        assert read_xml_page(content) is None


def test_what_unfolds_without_end_is_cut() -> None:
    levels = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10))
    page = read(f"<!DOCTYPE a [<!ENTITY a0 'lol'>{levels}]><svg xmlns='{SVG}'>&a9;</svg>")
    assert not page.is_whole or len(page.html) < 4_100_000
    page = read("<a>" * 5_000)
    assert not page.is_whole
    page = read("<a>" + "<b/>" * 50_000 + "</a>")
    assert not page.is_whole
    assert len(page.nodes.rows) <= 12_000


def test_addresses_of_files_are_not_read() -> None:
    outside = "<!ENTITY e SYSTEM 'file:///etc/hostname'><!ENTITY % p SYSTEM 'http://a.example/'>%p;"
    page = read(f"<!DOCTYPE a [{outside}]><a>&e;</a>")
    assert page.nodes.visible == ""
