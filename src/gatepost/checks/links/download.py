"""Links that download a program, or an archive that may hold one.

What a mail system refuses as an attachment comes as a link. Software is offered by link for good reasons, too, on lists
above all; an archive weighs less than a program, and a name with two endings (`invoice.pdf.exe`) has no good reason.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import URL_DOUBLE_EXTENSION, URL_DOWNLOAD, Finding
from gatepost.names import org_domain
from gatepost.strengths import coefficients

KINDS = (URL_DOWNLOAD, URL_DOUBLE_EXTENSION)
NEEDS = frozenset({"link"})

_PROGRAMS = frozenset(
    "exe scr pif cpl bat cmd js jse vbs vbe wsf hta ps1 lnk msi msix appx jar apk iso img vhd xll".split()
)
_ARCHIVES = frozenset("zip rar 7z ace cab arj".split())
_NAME = re.compile(r"://[^/?#]+/(?:[^?#]*/)?[^/?#]*?(?:\.([a-z0-9]{2,5}))?\.([a-z0-9]{2,5})(?=[?#]|\Z)", re.IGNORECASE)
_ENDINGS = _PROGRAMS | _ARCHIVES | {"htm", "html"}
_DOCUMENTS = frozenset("pdf doc docx xls xlsx jpg jpeg png txt rtf mp3 mp4".split())
(_ARCHIVE,) = coefficients(URL_DOWNLOAD, "archive")


def check(reading: Reading) -> Iterator[Finding]:
    if reading.is_discussion:
        return
    for link in reading.web_links:
        if link.url.partition("?")[0].rpartition(".")[2].partition("#")[0].lower() not in _ENDINGS:
            continue
        match = _NAME.search(link.url[:2000])
        if not match:
            continue
        inner, ending = (match[1] or "").lower(), match[2].lower()
        if inner in _DOCUMENTS and (ending in _PROGRAMS or ending in ("htm", "html", "zip")):
            yield URL_DOUBLE_EXTENSION.at(link.where, about=link.url, ending=f".{inner}.{ending}")
        if ending not in _PROGRAMS and ending not in _ARCHIVES:
            continue
        # A vendor's own programs on its own site are news, not a trick.
        if org_domain(link.host) not in reading.sender_domains:
            yield URL_DOWNLOAD.at(
                link.where, strength=1.0 if ending in _PROGRAMS else _ARCHIVE, about=link.url, ending=ending
            )
            return
