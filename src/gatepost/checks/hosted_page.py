"""Pages and forms on services where anybody can put one up within minutes, and senders that live there.

The service's good name passes every check of reputation, and the page is gone tomorrow. Much honest mail leads there as
well (a survey, a shared document), so these weigh little by themselves.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import is_form_service, is_freemail, is_hosted_page
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain, org_domain

PAGE = Kind("url:free-hosting", "A link leads to a page on a service where anybody can put one up")
FORM = Kind("url:form-service", "A link leads to a form on a service where anybody can make one")
SENDER = Kind("sender:free-hosting", "The sender's domain is a name on a service where anybody can get one")
KINDS = (PAGE, FORM, SENDER)


def check(reading: Reading) -> Iterator[Finding]:
    for sender in reading.message.senders[:1]:
        domain = normal_domain(sender.domain)
        if is_hosted_page(domain) and not is_freemail(domain) and org_domain(domain) == domain:
            yield SENDER.at("From", domain=domain)
    pages = forms = False
    for host, link in reading.sites.items():
        if org_domain(host) in reading.sender_domains:
            continue
        if not forms and is_form_service(host):
            forms = True
            yield FORM.at(link.where, about=link.url, host=host)
        elif not pages and is_hosted_page(host):
            pages = True
            yield PAGE.at(link.where, about=link.url, host=host)
