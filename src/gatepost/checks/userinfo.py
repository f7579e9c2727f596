"""Links that show a name before the host (`https://bank.example@evil.example/`, RFC 3986 section 3.2.1).

What stands before the @ is a user name to a browser and looks like the host to a person. Nobody mails passwords in
links; FTP sites of old had them, so those are left out.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

USERINFO = Kind("url:userinfo", "A link shows a false host before the real one")
KINDS = (USERINFO,)
NEEDS = frozenset({"link"})


def check(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        if "@" in link.url and link.url.startswith("http"):
            authority = link.url.partition("://")[2].partition("/")[0]
            user, at, _ = authority.rpartition("@")
            if at:
                yield USERINFO.at(link.where, strength=1.0 if "." in user else 0.6, about=link.url, host=link.host)
                return
