"""Links that carry the recipient's address: in the path, the query, the fragment, plain or in base64.

A phishing page shows the victim's own address in its form, and takes it from the link; the fragment, as in
`#ann@example.com`, does not even reach the server's log. Newsletters carry it in their links to unsubscribe, and those
lead to the sender's own domain or to its mailing service.
"""

import base64
from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import URL_RECIPIENT_ADDRESS, Finding
from gatepost.mail.message import Link
from gatepost.names import org_domain
from gatepost.strengths import coefficients

KINDS = (URL_RECIPIENT_ADDRESS,)
NEEDS = frozenset({"link"})

MAX_RECIPIENTS = 5
_FAREWELLS = (
    "unsub optout opt-out opt_out remove preference abmeld desinscri desabon subscri descadastr cancelar baja disiscri "
    "afmeld profile leave"
).split()
(_ELSEWHERE,) = coefficients(URL_RECIPIENT_ADDRESS, "elsewhere")


def check(reading: Reading) -> Iterator[Finding]:
    if not reading.web_links or reading.is_discussion:
        return
    text = "\n".join(link.url for link in reading.web_links)
    needles = [needle for address in _recipient_addresses(reading) for needle in _spell(address) if needle in text]
    for link in reading.web_links if needles else ():
        if not any(needle in link.url for needle in needles):
            continue
        if org_domain(link.host) not in reading.sender_domains and not _is_unsubscribe_link(link):
            in_fragment = any(needle in link.url.partition("#")[2] for needle in needles)
            yield URL_RECIPIENT_ADDRESS.at(
                link.where, strength=1.0 if in_fragment else _ELSEWHERE, about=link.url, host=link.host
            )
            return


def _recipient_addresses(reading: Reading) -> set[str]:
    addresses = (*reading.envelope.recipients, *map(str, reading.message.recipients[:MAX_RECIPIENTS]))
    return {text.strip("<>").casefold() for text in addresses[: 2 * MAX_RECIPIENTS] if "@" in text}


def _spell(address: str) -> Iterator[str]:
    yield address
    yield address.replace("@", "%40")
    # Cut where the last group of three bytes is whole: what follows would change the rest.
    digits = base64.b64encode(address.encode("utf-8")).decode("ascii").rstrip("=")
    yield digits[: len(address.encode("utf-8")) // 3 * 4]


def _is_unsubscribe_link(link: Link) -> bool:
    text = f"{link.url} {link.shown}".casefold()
    return any(mark in text for mark in _FAREWELLS)
