"""The names that are shown beside a sender's address: an address of another domain, decoration, a brand, a person.

Mail programs show the display name and often hide the address. RFC 5322 section 3.4 makes the name free text, so a
sender can write anything there.
"""

import re
import unicodedata
from collections.abc import Iterator

from gatepost import kinds
from gatepost.checks.known_names import Brand, Mention, find_brands, is_freemail, is_tenant, is_under, list_words, owns
from gatepost.findings import Reading, check
from gatepost.kinds import Finding
from gatepost.names import (
    Address,
    addresses_in,
    is_icann_suffix,
    is_mixed_script,
    normal_address,
    normal_domain,
    org_domain,
    scripts,
    skeleton,
)
from gatepost.strengths import coefficients

MAX_NAME = 200
_ADDRESS_BY_SERVICE, _ADDRESS_LINKED = coefficients(kinds.SENDER_DISPLAY_NAME_SPOOF, "service", "linked")


@check(kinds.SENDER_DISPLAY_NAME_SPOOF)
def display_name(reading: Reading) -> Iterator[Finding]:
    """Display names that show an address of another domain.

    `"billing@bank.example" <x@evil.example>` is legal (RFC 5322 section 3.4: a display name is free text), and most
    mail programs show only the quoted part. Lists and services that write for a person say so ("ann@example.com via
    list"). Services that give out addresses to be thrown away write the sender's own address into the name; then most
    links lead to the domain that is shown, and a forger needs them to lead elsewhere.
    """
    for sender in reading.message.senders:
        for shown in addresses_in(sender.name):
            # Same owner, other host (mail.bank.example and bank.example) is ordinary.
            if sender.domain and org_domain(shown.domain) != org_domain(sender.domain) and " via " not in sender.name:
                strength = _ADDRESS_BY_SERVICE if is_tenant(sender.domain) or reading.is_discussion else 1.0
                strength *= _ADDRESS_LINKED if _leads_to(shown.domain, reading) else 1.0
                yield kinds.SENDER_DISPLAY_NAME_SPOOF.at("From", strength=strength, shown=shown, actual=sender)


def _leads_to(domain: str, reading: Reading) -> bool:
    """Return whether at least half of the sites that the mail links to are those of a domain."""
    home = sum(org_domain(host) == org_domain(domain) for host in reading.sites)
    return 2 * home >= len(reading.sites) > 0


_SHOWN_DOMAIN = re.compile(r"(?<![\w@.-])[A-Za-z][A-Za-z0-9-]{1,40}(?:\.[A-Za-z]{2,12}){1,2}(?![\w@-]|\.\w)")
# "ASP.NET" is no site.
_NO_SITES = frozenset({"asp.net", "vb.net", "ado.net", "dot.net", "node.js"})
_SHORTEST_OWNER = 3
_DOMAIN_BY_SERVICE, _DOMAIN_LINKED, _DOMAIN_IN_MAILBOX, _DOMAIN_OPENLY = coefficients(
    kinds.SENDER_DISPLAY_NAME_DOMAIN, "service", "linked", "mailbox", "unsubscribe"
)


@check(kinds.SENDER_DISPLAY_NAME_DOMAIN)
def shown_domain(reading: Reading) -> Iterator[Finding]:
    """Display names that show a domain which is not the sender's: `"Crypto.com" <support@surveys.example>`.

    A company that is named after its site writes from it (RFC 5322 section 3.4 leaves the name free). Its mailing
    service may write from a domain of its own, and links to the company then; the same name under another ending
    is mostly the same company.
    """
    for sender in reading.message.senders[:1]:
        shown = _SHOWN_DOMAIN.search(sender.name[:MAX_NAME]) if "." in sender.name and "@" not in sender.name else None
        if shown is None or not sender.domain or _says_on_behalf(sender.name):
            return
        domain = normal_domain(shown.group())
        if domain in _NO_SITES or not is_icann_suffix(domain.partition(".")[2]) or is_freemail(domain):
            return
        name = org_domain(domain).partition(".")[0].replace("-", "")
        owners = (normal_domain(sender.domain), *reading.sender_domains)
        if reading.is_discussion or any(_is_named_after(owner, name) for owner in owners):
            return
        strength = (_DOMAIN_BY_SERVICE if is_tenant(sender.domain) else 1.0) * (
            _DOMAIN_LINKED if _leads_to(domain, reading) else 1.0
        )
        strength *= _DOMAIN_IN_MAILBOX if name in sender.local.lower() else 1.0
        strength *= _DOMAIN_OPENLY if "list-unsubscribe" in reading.fields else 1.0
        yield kinds.SENDER_DISPLAY_NAME_DOMAIN.at("From", strength=round(strength, 2), shown=domain, actual=sender)


def _is_named_after(domain: str, name: str) -> bool:
    """Return whether a domain and a name have one in the other: `mail.cnn.com` may write as `CNNMoney.com`."""
    owner = org_domain(domain).partition(".")[0].replace("-", "")
    return name in domain.replace("-", "") or (len(owner) >= _SHORTEST_OWNER and owner in name)


_INVISIBLE_BETWEEN_LETTERS = re.compile(r"[A-Za-z][\u00ad\u200b-\u200f\u2060\ufeff\U000e0100-\U000e01ef]+[A-Za-z]")
_MATHEMATICAL_LETTERS = re.compile(r"[\U0001d400-\U0001d7ff]")
_LETTERLIKE = frozenset("™®©°№")
_FRAMED_NAME = re.compile(r"[#*~=^|`][^#*~=^|`].*[#*~=^|`]", re.DOTALL)
_SHORTEST_MIXED_NAME = 4
_NAME_WORD = re.compile(r"[^\W\d_]+")


@check(kinds.SENDER_INVISIBLE_CHARACTERS, kinds.SENDER_DECORATED_NAME, kinds.SENDER_MIXED_SCRIPT_NAME)
def decorated_name(reading: Reading) -> Iterator[Finding]:
    """Names dressed up to be seen, or to be read by people only.

    Emoji and arrows around a sender's name draw the eye in a full mailbox; invisible characters between its letters and
    letters from the mathematical alphabets keep filters from reading it. Shops put an emoji into a subject, seldom into
    their own name, and never an invisible character; joiners inside emoji and scripts that need them are left out.
    Two signs of the keyboard around the name (`*Thank_You#`) do the same; some universities write `#ANN EXAMPLE#`.
    `Ϲоіnbаѕе` is written with letters of three alphabets (UTS 39 section 5). People with two keyboards get one letter
    wrong in a name of their own language; a word that reads as a Latin one with foreign letters in it is made to.
    """
    for sender in reading.message.senders[:1]:
        name = sender.name[:MAX_NAME]
        if name.isascii():
            if _FRAMED_NAME.fullmatch(name) and (name[0] != name[-1] or "_" in name):
                yield kinds.SENDER_DECORATED_NAME.at("From", name=name)
            return
        if _INVISIBLE_BETWEEN_LETTERS.search(name) or _MATHEMATICAL_LETTERS.search(name):
            yield kinds.SENDER_INVISIBLE_CHARACTERS.at("From", name=ascii(name))
        elif any(unicodedata.category(char) in ("So", "Sm") and char not in _LETTERLIKE for char in name):
            yield kinds.SENDER_DECORATED_NAME.at("From", name=name)
        if is_mixed_script(name) and (word := _find_mixed_word(name)):
            yield kinds.SENDER_MIXED_SCRIPT_NAME.at("From", name=ascii(name), word=ascii(word))


def _find_mixed_word(name: str) -> str:
    """Return a word of letters from several alphabets that can be read as a Latin one; "" for none."""
    for match in _NAME_WORD.finditer(name):
        word = match.group()
        if len(word) >= _SHORTEST_MIXED_NAME and is_mixed_script(word):
            found = scripts(word)
            # The micro sign stands before a Latin word in names of programs.
            is_latin = skeleton(word).isascii() or 2 * sum(map(str.isascii, word)) > len(word)
            if "LATIN" in found and (len(found) > 2 or (is_latin and word[0] not in "µμ")):
                return word
    return ""


# Words that a company puts beside its own name.
OFFICE_WORDS = frozenset(
    "the a an of from by for your my our and at in on to via inc llc ltd co corp corporation company com net org gmbh "
    "ag sa plc account accounts team support service services customer client care help desk helpdesk center centre "
    "security secure alert alerts notice notification notifications notify update updates billing payment payments "
    "invoice invoices order orders shipping delivery deliveries package packages parcel tracking member members "
    "membership rewards reward loyalty bonus gift giveaway surprise card cards online official info information mail "
    "email noreply reply no do not admin administrator department dept verification verify id login message messages "
    "recovery product products opinion survey voucher coupon express prime plus pay bank wallet web app insights user "
    "protection renewal subscription team confirmation status konto kundenservice kundendienst kundencenter dienst "
    "sicherheit paket sendung lieferung rechnung zahlung gewinn gewinnspiel praemie belohnung aktion mitteilung "
    "nachricht supermarket supermarkt markt servicio servicios cliente clientes atencion cuenta equipo seguridad "
    "aviso envio paquete premio soporte servico servicos atendimento conta equipe seguranca aviso entrega encomenda "
    "premio suporte pontos client clients compte equipe securite avis livraison colis message cadeau servizio clienti "
    "conto sicurezza pacco spedizione premio klantenservice pakket us uk de fr br eu usa drive storage cloud live "
    "token tokens airdrop nft claims government gov".split()
)
_BRAND_FROM_WORD, _BRAND_FEW_WORDS, _BRAND_MANY_WORDS, _BRAND_NO_NAME, _BRAND_BY_SERVICE, _BRAND_OWN_LINKS = (
    coefficients(
        kinds.SENDER_BRAND_IMPERSONATION, "from_word", "few_words", "many_words", "no_name", "service", "own_links"
    )
)


@check(kinds.SENDER_BRAND_IMPERSONATION, kinds.SENDER_DISGUISED_NAME)
def brand_name(reading: Reading) -> Iterator[Finding]:
    """Senders who use the name of a well-known company or office and write from somewhere else.

    `PayPal Service <info@tradestars.example>`: mail programs show the name and hide the address. Where the name is the
    brand and nothing but words of office ("support", "account team"), it claims to be the brand. Where other words
    stand around it ("Apple Insider", "Books on Amazon") it may be about the brand, and says less.
    """
    senders = reading.message.senders[:5]
    # `PayPal, Inc <service@paypal.com>` without quotes is two mailboxes by the grammar, and one to its writer.
    domain = next((normal_domain(sender.domain) for sender in senders if sender.domain), "")
    for sender in senders:
        shown = sender.name[:MAX_NAME]
        # A sender without a name is read by the part before the @.
        for mention in find_brands(shown or sender.local[:MAX_NAME]):
            if _is_brands_own(mention.brand, domain) or _says_on_behalf(shown):
                continue
            if mention.disguised:
                yield kinds.SENDER_DISGUISED_NAME.at(
                    "From", shown=ascii(shown), company=mention.brand.name, domain=domain
                )
            if strength := _measure_mention(mention) * _measure_brand_doubt(mention.brand, domain, shown, reading):
                yield kinds.SENDER_BRAND_IMPERSONATION.at(
                    "From", strength=strength, shown=shown or sender.local, company=mention.brand.name, domain=domain
                )


def _is_brands_own(brand: Brand, domain: str) -> bool:
    """Return the brand's own domain; not a free mailbox, even where the brand runs the service."""
    if is_freemail(domain):
        return False
    # The brand's name as the whole registered name, under another ending: judged as a look-alike.
    return owns(brand, domain) or org_domain(domain).partition(".")[0] == brand.label


def _says_on_behalf(name: str) -> bool:
    """`Ann via DocuSign`, `Google Ann (via Docs)`: a list or service that says for whom it writes."""
    return " via " in f" {name.casefold().replace('(', ' ')} "


def _measure_brand_doubt(brand: Brand, domain: str, shown: str, reading: Reading) -> float:
    """Return how little speaks for an honest sender. A mailing service may write in its own domain for the company,
    and where most links lead to the company's own sites its agency may have written; a fraud needs a site of its
    own."""
    doubt = (1.0 if shown else _BRAND_NO_NAME) * (_BRAND_BY_SERVICE if is_tenant(domain) else 1.0)
    home = sum(owns(brand, host) for host in reading.sites)
    return doubt * _BRAND_OWN_LINKS if domain and 2 * home > len(reading.sites) else doubt


def _measure_mention(mention: Mention) -> float:
    beside = [word for word in mention.rest if word not in OFFICE_WORDS and not word.isdigit()]
    if not beside:
        return 1.0
    # "Ann from Ledger"
    if len(beside) == 1 and "from" in mention.rest:
        return _BRAND_FROM_WORD
    if mention.brand.ordinary:
        return 0.0
    return _BRAND_FEW_WORDS if len(beside) <= 2 else _BRAND_MANY_WORDS


@check(kinds.SENDER_PROTECTED_PERSON, needs={"protected"})
def protected_person(reading: Reading) -> Iterator[Finding]:
    """Outsiders who use the name of a person whom the operator protects.

    `Ann Director <ann.director.office@gmail.com>` asks the accountant for a payment. The name is compared folded, in
    any order of its words, and with look-alike letters made plain; the address must be the person's own.
    """
    people = reading.protected.people
    if not people:
        return
    for sender in reading.message.senders:
        name = _sort_words(sender.name)
        bearers = [person for person in people if name and _sort_words(person.name) == name]
        if bearers and not _is_insider(sender, bearers, reading):
            yield kinds.SENDER_PROTECTED_PERSON.at("From", person=bearers[0].name, known_as=bearers[0], actual=sender)


def _sort_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, sorted: "Director, Ann" is "Ann Director"."""
    return tuple(sorted(list_words(skeleton(name))))


def _is_insider(sender: Address, bearers: list[Address], reading: Reading) -> bool:
    """Return the person's own address, or any of the own domains: a namesake there is a colleague, and a forged own
    domain is found as such."""
    known = {normal_address(str(person)) for person in bearers}
    return normal_address(str(sender)) in known or is_under(normal_domain(sender.domain), reading.protected.own_domains)
