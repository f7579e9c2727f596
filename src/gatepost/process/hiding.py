"""Hiding of secrets in everything that is shown: settings, versions, faults, the log, pages and the doctor.

`hide` takes a value of any shape with the key that it stands under, and `hide_text` a sentence. Neither knows who shows
what it returns, and nothing else in the program hides: what is added here holds for every output.

A URL keeps its host, since an operator must see where it leads. Its user and password go, and so do the parameters of
its query whose names say that they are secrets (RFC 3986 section 3.2.1 deprecates passwords in URLs for this reason).
Webhooks and feeds often have a key in the path, so of theirs the path goes too. A reference such as `${file:PATH}` is
not what it leads to, and stays.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

# What is shown instead of a secret.
HIDDEN = "(hidden)"
# Keys of the configuration whose values are secrets, whatever they look like.
SECRET_KEYS = frozenset({"secret", "token", "password", "queryKey", "clientSecret", "keys"})
# Sections whose URLs may have a key in the path.
_SECRET_PATHS = frozenset({"webhook", "webhooks", "feeds"})
_REFERENCE = re.compile(r"\$\{(?:env|file):[^{}]*+\}")
# Everything up to the last `@` of a value is hidden: a password may hold characters that end the host part of a URL.
_USER = re.compile(r"^([a-z][a-z0-9+.-]{0,30}:/++|postgres(?:ql)?:).*@", re.IGNORECASE | re.DOTALL)
# A sentence has other words behind a URL; and a URL that became a path has lost a slash.
_USER_INSIDE = re.compile(
    r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}:/{1,3}|postgres(?:ql)?:)[^\s/][^\s]{0,2000}@", re.IGNORECASE
)
_PARAMETER = re.compile(r"([?&;])([^=&;#\s]{1,200})=([^&;#]*)")
_PARAMETER_INSIDE = re.compile(r"([?&;])([^=&;#\s]{1,200})=([^&;#\s]*)")
# Addresses of databases can be written in words as well: host=db password='a b' (libpq, "Keyword/Value Strings").
_WORD = re.compile(r"\b((?:ssl)?password|passwd|pwd)(\s{0,3}=\s{0,3})('(?>[^'\\]|\\.)*+'?|[^\s&;#]+)", re.IGNORECASE)
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|sig|sas|cred", re.IGNORECASE)
_PATH = re.compile(r"^([a-z][a-z0-9+.-]{0,30}://[^/?#]*+)/*+[^/].*", re.IGNORECASE | re.DOTALL)


def hide(value: Any, key: Sequence[str | int] = ()) -> Any:
    """Return a value without secrets: maps with their keys, lists, and texts, however deep they stand. What is neither
    stays as it is."""
    if isinstance(value, Mapping):
        return {hide(step): hide(inner, (*key, step)) for step, inner in value.items()}
    if isinstance(value, list | tuple):
        return [hide(inner, key) for inner in value]
    names = [step for step in key if isinstance(step, str)]
    if value is not None and names and names[-1] in SECRET_KEYS:
        return value if isinstance(value, str) and not _REFERENCE.sub("", value).strip() else HIDDEN
    if not isinstance(value, str):
        return value
    value = _USER.sub(rf"\1{HIDDEN}@", value)
    if names and names[-1] == "url" and not _SECRET_PATHS.isdisjoint(names[:-1]):
        value = _PATH.sub(rf"\1/{HIDDEN}", value)
    return _WORD.sub(rf"\1\2{HIDDEN}", _PARAMETER.sub(_hide_parameter, value))


def hide_path(url: str) -> str:
    """Return the URL of a webhook or a feed without its path and query, which may be its only secret."""
    return str(hide(url, ("webhooks", "url")))


def hide_text(text: str) -> str:
    """Return a sentence without the secrets of the URLs and addresses of databases that it names."""
    if "@" in text:
        text = _USER_INSIDE.sub(rf"\1{HIDDEN}@", text)
    if "=" in text:
        text = _WORD.sub(rf"\1\2{HIDDEN}", _PARAMETER_INSIDE.sub(_hide_parameter, text))
    return text


def _hide_parameter(found: re.Match[str]) -> str:
    """Return a parameter without its value where its name, as databases and object stores decode it, says secret."""
    is_secret = _SECRET_NAME.search(unquote(found[2])) is not None
    return f"{found[1]}{found[2]}={HIDDEN if is_secret else found[3]}"
