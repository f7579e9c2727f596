"""Links with a trusted site's name in the path of a foreign one: `http://broken-into.example/~x/www.paypal.com/login`.

Kits are unpacked into a folder that bears the victim's name. Archives, proxies and news carry names in paths, too: only
a whole domain as a folder counts, or the brand's name in one with a word like "login".
"""

import re
from collections.abc import Iterator

from gatepost.checks.known_names import BY_LABEL, ending_exists, is_genuine
from gatepost.findings import Reading
from gatepost.kinds import URL_BRAND_IN_PATH, Finding

KINDS = (URL_BRAND_IN_PATH,)
NEEDS = frozenset({"link"})

MAX_PATH = 300
_NAMED_BY_PATH = frozenset({"web.archive.org", "archive.org", "validator.w3.org", "github.com", "gitlab.com"})
_WORTH_A_LOOK = re.compile(r"login|signin|secure|verify|account|update|webscr|confirm|\.com?/|\.com?\.|\.com$")
_LURE = re.compile(r"login|signin|secure|verify|account|update|webscr|confirm")
_PLAIN = [label for label, brand in BY_LABEL.items() if not brand.ordinary and len(label) >= 5 and label.isascii()]
_NAME = re.compile("|".join(map(re.escape, _PLAIN)))


def check(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        start = link.url.find("/", 8) + 1
        path = link.url[start : start + MAX_PATH].partition("?")[0].lower() if start else ""
        if not _WORTH_A_LOOK.search(path) or link.host in _NAMED_BY_PATH or is_genuine(link.host):
            continue
        if found := _find_name(path.partition("#")[0]):
            yield URL_BRAND_IN_PATH.at(link.where, about=link.url, host=link.host, named=found)
            return


def _find_name(path: str) -> str:
    folders = path.split("/")
    for folder in folders:
        name = folder.removeprefix("www.")
        # Archives of mail name their folders by Message-ID.
        if "." in name and "@" not in name and ending_exists(name) and is_genuine(name):
            return name
    match = _NAME.search(path) if _LURE.search(path) else None
    # The name by itself or with the lure: "paypal/login", "paypal-login"; in a headline it stands among other words.
    return match.group() if match and any(_is_about(folder, match.group()) for folder in folders) else ""


def _is_about(folder: str, name: str) -> bool:
    rest = folder.replace(name, "", 1)
    return name in folder and (not rest.strip("-_.") or (_LURE.search(rest) is not None and rest.count("-") < 3))
