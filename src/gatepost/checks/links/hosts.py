"""The hosts that links lead to: what they are called, who runs them, and whether they are known."""

import re
from collections.abc import Iterator
from ipaddress import ip_address

import msgspec

from gatepost.checks.headers.bulk_mail import measure_openness
from gatepost.checks.known_names import (
    is_company_host,
    is_form_service,
    is_freemail,
    is_genuine,
    is_hosted_page,
    is_picture_host,
    is_shortener,
    is_tenant,
    is_under,
    measure_ending,
)
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.mail.message import Link
from gatepost.names import is_public_address, normal_domain, org_domain

_MANY_SITES = 12
(_MENTION,) = coefficients("among-sites", "mention")


def measure_mention(reading: Reading) -> float:
    """Return the factor for what one host is called. Among many sites a host is a mention, as in the digest of a
    weblog; a lure has its page and a few others."""
    return _MENTION if len(reading.sites) > _MANY_SITES else 1.0


@check(
    kinds.URL_CHEAP_ENDING,
    kinds.SENDER_CHEAP_ENDING,
    kinds.URL_FREE_HOSTING,
    kinds.URL_FORM_SERVICE,
    kinds.SENDER_FREE_HOSTING,
    needs={"cheap-name"},
)
def free_names(reading: Reading) -> Iterator[Finding]:
    """Names and pages that cost next to nothing: free hosting, form services, cheap top-level domains.

    Anybody can put a page or form up on such a service within minutes; the service's good name passes every check of
    reputation, and the page is gone tomorrow. Attackers who need a thousand domains for a week buy them under the
    top-level domains where names are given away or nearly so. Much honest mail leads to both (a survey, a shared
    document, a small shop), so the services are few, and all of this weighs little by itself.
    """
    for sender in reading.message.senders[:1]:
        domain = normal_domain(sender.domain)
        if strength := measure_ending(domain):
            yield kinds.SENDER_CHEAP_ENDING.at("From", strength=strength, domain=sender.domain)
        if is_hosted_page(domain) and not is_freemail(domain) and org_domain(domain) == domain:
            yield kinds.SENDER_FREE_HOSTING.at("From", domain=domain)
    # A shortener is a finding of its own: that its name is cheap as well says nothing new.
    sites = (host for host in reading.sites if not is_shortener(host))
    strength, host = max(((measure_ending(host), host) for host in sites), default=(0.0, ""))
    if strength:
        link = reading.sites[host]
        strength = round(strength * measure_openness(reading), 2)
        yield kinds.URL_CHEAP_ENDING.at(link.where, strength=strength, about=link.url, host=host)
    yield from _find_hosted_links(reading)


def _find_hosted_links(reading: Reading) -> Iterator[Finding]:
    pages = forms = False
    for host, link in reading.sites.items():
        if org_domain(host) in reading.sender_domains:
            continue
        if not forms and is_form_service(host):
            forms = True
            yield kinds.URL_FORM_SERVICE.at(link.where, about=link.url, host=host)
        elif not pages and is_hosted_page(host):
            pages = True
            yield kinds.URL_FREE_HOSTING.at(link.where, strength=measure_mention(reading), about=link.url, host=host)


_ADDRESS_IN_NAME = re.compile(r"(?:^|[.-])[a-z]{0,8}(\d{1,3})([.-])(\d{1,3})\2(\d{1,3})\2(\d{1,3})(?=[.-]|$)(?![.-]\d)")
_PRIVATE_ADDRESSES = ("10.", "127.", "192.168.", "169.254.", "172.", "0.")
(_IP_HOST_MENTION,) = coefficients(kinds.URL_IP_HOST, "mention")


@check(kinds.URL_IP_HOST, kinds.URL_MACHINE_NAME, kinds.SENDER_MACHINE_NAME, needs={"address-name"})
def ip_hosts(reading: Reading) -> Iterator[Finding]:
    """Hosts that are an IP address: bare, or in the name that a provider gives every rented machine.

    Sites that people are asked to visit have names; a bare address hides who runs them. A page under
    `142.132.167.72.host.provider.example` or `ip-203-0-113-9.…` is a bare address in disguise (RFC 3986 section 3.2.2):
    an owner who has a site or sends mail gives a machine a name of its own. Routers and printers write links to
    addresses in their reports, and automatic names are used for trying things out, so private addresses are left out.
    """
    bare = [host for host in reading.sites if (host[0].isdigit() or host[0] == "[") and _is_public_address(host)]
    for host in bare:
        link = reading.sites[host]
        strength = 1.0 if 2 * len(bare) >= len(reading.sites) else _IP_HOST_MENTION
        strength = round(strength * measure_mention(reading), 2)
        yield kinds.URL_IP_HOST.at(link.where, strength=strength, about=link.url, host=host)
    for host, link in reading.sites.items():
        if address := find_address_in_name(host):
            yield kinds.URL_MACHINE_NAME.at(link.where, about=link.url, host=host, address=address)
    for sender in reading.message.senders:
        if address := find_address_in_name(normal_domain(sender.domain)):
            yield kinds.SENDER_MACHINE_NAME.at("From", domain=sender.domain, address=address)


def _is_public_address(host: str) -> bool:
    try:
        return is_public_address(ip_address(host.strip("[]")))
    except ValueError:
        return False


def find_address_in_name(host: str) -> str:
    """Return the IPv4 address that a host's name is made from, "" for none."""
    below = host.removesuffix(org_domain(host)).rstrip(".")
    found = _ADDRESS_IN_NAME.search(below) if below else None
    if not found:
        return ""
    address = ".".join(found.group(1, 3, 4, 5))
    if any(int(octet) > 255 for octet in address.split(".")) or address.startswith(_PRIVATE_ADDRESSES):
        return ""
    return address


MAX_NEW_HOSTS = 3


@check(kinds.URL_NEW_HOST, needs={"remembered"})
def new_hosts(reading: Reading) -> Iterator[Finding]:
    """Links to sites that no delivered mail of the tenant led to before today.

    Phishing pages live for hours, shops and partners for years. The site of a sender who is new as well is no more news
    than the sender, so its own site is left out; what remains is a link to a third party that no earlier mail had. New
    things are linked to every day: it weighs little by itself.
    """
    for host, link in list(find_new_hosts(reading).items())[:MAX_NEW_HOSTS]:
        yield kinds.URL_NEW_HOST.at(link.where, host=host, about=link.url)


def find_new_hosts(reading: Reading) -> dict[str, Link]:
    """One link for each organisation that is new to the tenant and not the sender's own."""
    return reading.once(_find_new_hosts)


def _find_new_hosts(reading: Reading) -> dict[str, Link]:
    met = reading.sender_history
    strange = {host for host, known in met.hosts.items() if not known.days}
    if not strange or reading.is_known_list:
        return {}
    ours = reading.protected.trusted_domains
    strange -= reading.sender_domains | {host for host in strange if is_under(host, ours)}
    found: dict[str, Link] = {}
    for link in reading.sites.values():
        owner = org_domain(link.host)
        if owner in strange and not link.hidden:
            found.setdefault(owner, link)
    return found


(_FOREIGN_BESIDE_OWN,) = coefficients(kinds.URL_FOREIGN_TARGET, "beside_own")


@check(kinds.URL_FOREIGN_TARGET, needs={"foreign-site"})
def foreign_target(reading: Reading) -> Iterator[Finding]:
    """Where all links of a mail lead, taken together.

    Mail in a company's name whose links lead to one stranger is what phishing looks like; so is what a friend sends who
    found something. It says a little, and only beside other signs. Links to the sender's own site beside it say for a
    known sender that all is well; of others it then says less. A site that bears the sender's own name under another
    ending (`shop.example` and `shop.co.example`) is no stranger: whoever sends the mail chose both names.
    """
    if not reading.sites or reading.is_known_post:
        return
    # A name without a dot is one of the reader's own network: a file server, a printer.
    sites = {host: link for host, link in reading.sites.items() if "." in host}
    every = {org_domain(host) for host in sites}
    names = {domain.partition(".")[0] for domain in reading.sender_domains}
    foreign = every - reading.sender_domains - reading.once(_list_homes)
    owners = {owner for owner in foreign if owner.partition(".")[0] not in names}
    if len(owners) != 1 or (reading.is_known_sender and owners != every):
        return
    host, link = next((host, link) for host, link in sites.items() if org_domain(host) in owners)
    senders = reading.message.senders
    if is_genuine(host) or is_tenant(host) or not senders or is_freemail(normal_domain(senders[0].domain)):
        return
    if link.source != "text":
        strength = 1.0 if owners == every else _FOREIGN_BESIDE_OWN
        yield kinds.URL_FOREIGN_TARGET.at(link.where, strength=strength, about=link.url, host=host, sender=senders[0])


MAX_PICTURES = 60
(_PICTURE_SIGNED,) = coefficients(kinds.URL_PICTURE_HOST, "signed")


@check(kinds.URL_PICTURE_HOST, needs={"picture-host"})
def picture_host(reading: Reading) -> Iterator[Finding]:
    """Pictures that a mail in a company's name fetches from a free image host, or from a collection of logos.

    A shop or bank keeps the pictures of its mail on its own site or with the service that sends the mail. Whoever poses
    as one drops the logo where it costs nothing and asks for no name, or takes it from an encyclopaedia, or copies a
    page of Gmail whole, with the addresses under which Gmail shows pictures to one reader. Answers contain
    such addresses as well, and forums and lists show pictures of their members: both are left out where the sender or
    list is known.
    """
    if reading.is_known_answer or reading.is_known_post:
        return
    pictures = (link for link in reading.message.links[:MAX_PICTURES] if link.source == "image" and link.host)
    found = next((link for link in pictures if is_picture_host(link.host)), None)
    # A host that is also linked to is the sender's choice of a site, as for an album.
    if found and found.host not in reading.sites and org_domain(found.host) not in reading.sender_domains:
        strength = _PICTURE_SIGNED if reading.is_known_sender else 1.0
        yield kinds.URL_PICTURE_HOST.at(found.where, strength=strength, about=found.url, host=found.host)


_KNOWN_LINKS_HOME, _PROVEN_LINKS_HOME, _LINKS_IN_DISCUSSION, _COMPANY_LINKS = coefficients(
    "link-away", "known_home", "proven_home", "discussion", "company"
)


@check(kinds.URL_LEADS_HOME, needs={"authentication"})
def plain_notice(reading: Reading) -> Iterator[Finding]:
    """Mail of a proven sender that leads nowhere else: notices and receipts, newsletters, and lures of whoever bought a
    domain. What its words alone may count against it is bounded, since honest services use the words of lures."""
    if leads_home(reading):
        yield kinds.URL_LEADS_HOME.at("From", domain=reading.authentication.dmarc.domain)


def leads_home(reading: Reading) -> bool:
    """Return whether DMARC proves the sender, and every link leads to its own organisation, or to the service that
    signed the mail beside it: mailing services count clicks on hosts of their own."""
    homes = reading.once(_list_homes)
    return bool(homes) and all(org_domain(link.host) in homes for link in reading.web_links)


def _list_homes(reading: Reading) -> frozenset[str]:
    """Return the organisation that DMARC proves, with those that signed the mail as well; nothing without proof, and
    nothing for a free mailbox or a tenant of a hosting service: the provider is proven then, and not who writes."""
    seen = reading.authentication
    if seen.dmarc.result != "pass" or is_freemail(seen.dmarc.domain) or is_tenant(seen.dmarc.domain):
        return frozenset()
    signers = (each.domain for each in seen.dkim if each.result == "pass" and not each.testing)
    return frozenset(org_domain(domain) for domain in (seen.dmarc.domain, *signers))


class LinkAway(msgspec.Struct, frozen=True):
    """The link that a reader is told to follow, and how surely it leads away from the sender: 1 is surely."""

    link: Link
    distance: float


def find_link_away(reading: Reading) -> LinkAway | None:
    """Return the first link that leads away from the sender, else the first link; None where there is none.

    All lures have such a link. A company that asks its customers to sign in links to its own site, most often beside
    others. That speaks for a known sender; of others it takes off only a part where DMARC proves them, since whoever
    buys a domain can lead to it: there the text classifier tells notices from lures. Where every link leads to the own
    site of a company that we know, a lure catches nothing, whoever wrote it. Posts on known discussion lists quote and
    link all sorts of things.
    """
    return reading.once(_find_link_away)


def _find_link_away(reading: Reading) -> LinkAway | None:
    links = [link for link in reading.web_links if not link.hidden]
    if not links:
        return None
    foreign = [link for link in links if org_domain(link.host) not in reading.sender_domains]
    is_known = reading.is_known_sender and len(foreign) < len(links)
    distance = _KNOWN_LINKS_HOME if is_known else 1.0
    if reading.is_known_post:
        distance *= _LINKS_IN_DISCUSSION
    # On the own site of a company no stranger has a page, unless the link leads further.
    if all(is_company_host(link.host) and "http" not in link.url[8:].lower() for link in links):
        distance *= _COMPANY_LINKS
    if not is_known and leads_home(reading):
        distance *= _PROVEN_LINKS_HOME
    return LinkAway(foreign[0] if foreign else links[0], distance)
