"""Names and pages that cost next to nothing: free hosting, form services, cheap top-level domains.

Anybody can put a page or form up on such a service within minutes; the service's good name passes every check of
reputation, and the page is gone tomorrow. Attackers who need a thousand domains for a week buy them under the top-level
domains where names are given away or nearly so. Much honest mail leads to both (a survey, a shared document, a small
shop), so the services are few, and all of this weighs little by itself.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import ending_strength, is_form_service, is_freemail, is_hosted_page
from gatepost.findings import Reading
from gatepost.kinds import (
    SENDER_CHEAP_ENDING,
    SENDER_FREE_HOSTING,
    URL_CHEAP_ENDING,
    URL_FORM_SERVICE,
    URL_FREE_HOSTING,
    Finding,
)
from gatepost.names import normal_domain, org_domain

KINDS = (URL_CHEAP_ENDING, SENDER_CHEAP_ENDING, URL_FREE_HOSTING, URL_FORM_SERVICE, SENDER_FREE_HOSTING)


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:1]:
        domain = normal_domain(sender.domain)
        if strength := ending_strength(domain):
            yield SENDER_CHEAP_ENDING.at("From", strength=strength, domain=sender.domain)
        if is_hosted_page(domain) and not is_freemail(domain) and org_domain(domain) == domain:
            yield SENDER_FREE_HOSTING.at("From", domain=domain)
    yield from _find_cheap_link(reading)
    yield from _find_hosted_links(reading)


def _find_cheap_link(reading: Reading) -> Iterator[Finding]:
    strength, host = max(((ending_strength(host), host) for host in reading.sites), default=(0.0, ""))
    if strength:
        link = reading.sites[host]
        yield URL_CHEAP_ENDING.at(link.where, strength=strength, about=link.url, host=host)


def _find_hosted_links(reading: Reading) -> Iterator[Finding]:
    pages = forms = False
    for host, link in reading.sites.items():
        if org_domain(host) in reading.sender_domains:
            continue
        if not forms and is_form_service(host):
            forms = True
            yield URL_FORM_SERVICE.at(link.where, about=link.url, host=host)
        elif not pages and is_hosted_page(host):
            pages = True
            yield URL_FREE_HOSTING.at(link.where, about=link.url, host=host)
