"""Scripts in the text of a mail that are written against the reader's webmail.

A script in a mail alone says little: old newsletters were saved from web pages with their menus, counters and pop-ups,
and mail programs remove all of it. A script counts as an attack by what it does. One that runs when the mail is opened,
without a click, tries to run in the reader's session; one that reads cookies, loads further code, builds code from
strings or shows a dialogue proves that it can. Code that hides from the programs that remove scripts (a tab inside
`javascript:`, handlers inside other attributes, markup in a subject or file name) is written for no other purpose.

The words were chosen on real mail: no wanted message of the development corpora has one of them (docs/decisions.md).
"""

import re

MAX_TAGS = 5_000
MAX_CODE = 20_000
LITTLE_TEXT = 200

_HARM = re.compile(
    r"\b(?:alert|prompt|confirm|msgbox)\s{0,5}[(`]"
    r"|\beval\s{0,5}[(`]|new\s{1,5}function|fromcharcode|\batob\s{0,5}\(|\[\]\[\(!\[\]"
    r"|document\s{0,5}\.\s{0,5}(?:cookie|domain)\b|(?:local|session)storage"
    r"|createelement\s{0,5}\(|appendchild|getscript|\bimport\s{0,5}\("
    r"|xmlhttprequest|\bfetch\s{0,5}\(|sendbeacon"
    r"|\b(?:top|parent|opener)\s{0,5}\.\s{0,5}(?:document|location)",
    re.IGNORECASE,
)
# Handlers that run without an action of the reader, and that pages hardly ever use for anything but broken pictures.
_AT_ONCE = frozenset(
    "onerror onbegin onend onrepeat onstart onfinish onbounce ontoggle onpageshow onsearch onloadstart oncanplay "
    "onloadeddata onloadedmetadata onanimationstart onanimationend onanimationiteration ontransitionend "
    "ontransitionrun onreadystatechange onpropertychange onbeforescriptexecute onafterscriptexecute".split()
)
_HARMLESS = re.compile(r"\s{0,20}(?:this\s{0,5}\.|return\b|null\b|javascript:void|void\b|;|\Z)", re.IGNORECASE)
_TAG = re.compile(r"<[A-Za-z/!][^<>]*+")
_HIDDEN_CODE = re.compile(r"on[a-z]{3,20}\s{0,5}=|(?:java|vb)script:", re.IGNORECASE)
_ACTING_MARKUP = re.compile(
    r"[\s\"'/`]on[a-z]{3,20}\s?=\s?[\"'\w]|<\s?/?(?:script|svg|iframe)[\s/>]|(?:java|vb)script:|document\.cookie",
    re.IGNORECASE,
)


def is_harmful_code(code: str) -> bool:
    """Return whether a script does what only an attack on the reader's webmail does."""
    return bool(_HARM.search(code[:MAX_CODE]))


def runs_at_once(name: str, code: str) -> bool:
    """Return whether an event handler runs code by itself, which does more than replace or hide a broken picture."""
    return name in _AT_ONCE and not _HARMLESS.match(code)


def is_disguised_scheme(target: str, scheme: str) -> bool:
    """Return whether the scheme of an active link is broken up by characters that browsers ignore."""
    return scheme in {"javascript", "vbscript", "data"} and not target.lstrip().lower().startswith(f"{scheme}:")


def has_hidden_handler(source: str) -> bool:
    """Return whether harmful code stands inside a tag as something else, where rewriting the page would set it free."""
    for count, tag in enumerate(_TAG.finditer(source)):
        if count >= MAX_TAGS:
            return False
        text = tag.group()[:MAX_CODE]
        if _HIDDEN_CODE.search(text) and _HARM.search(text):
            return True
    return False


def is_acting_markup(text: str) -> bool:
    """Return whether a header value or file name would run code if a program pasted it into a page."""
    return bool(_ACTING_MARKUP.search(text[:2_000]))
