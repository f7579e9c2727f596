"""Senders who use the name of a well-known company or office and write from somewhere else.

`PayPal Service <info@tradestars.example>`: mail programs show the name and hide the address. Where the name is the
brand and nothing but words of office ("support", "account team"), it claims to be the brand. Where other words stand
around it ("Apple Insider", "Books on Amazon") it may be about the brand, and says less.
"""

from collections.abc import Iterator

from gatepost.checks.known_names import Brand, Mention, find_brands, is_freemail, is_tenant, owns
from gatepost.findings import Reading
from gatepost.kinds import SENDER_BRAND_IMPERSONATION, SENDER_DISGUISED_NAME, Finding
from gatepost.names import normal_domain, org_domain
from gatepost.strengths import coefficients

KINDS = (SENDER_BRAND_IMPERSONATION, SENDER_DISGUISED_NAME)

MAX_NAME = 200
# Words that a company puts beside its own name.
OFFICE = frozenset(
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
    "conto sicurezza pacco spedizione premio klantenservice pakket us uk de fr br eu usa".split()
)
_FROM_WORD, _FEW_WORDS, _MANY_WORDS, _NO_NAME, _SERVICE, _OWN_LINKS = coefficients(
    SENDER_BRAND_IMPERSONATION, "from_word", "few_words", "many_words", "no_name", "service", "own_links"
)


def check(reading: Reading) -> Iterator[Finding]:
    senders = reading.message.senders[:5]
    # `PayPal, Inc <service@paypal.com>` without quotes is two mailboxes by the grammar, and one to its writer.
    domain = next((normal_domain(sender.domain) for sender in senders if sender.domain), "")
    for sender in senders:
        shown = sender.name[:MAX_NAME]
        # A sender without a name is read by the part before the @.
        for mention in find_brands(shown or sender.local[:MAX_NAME]):
            if _is_theirs(mention.brand, domain) or _says_on_behalf(shown):
                continue
            if mention.disguised:
                yield SENDER_DISGUISED_NAME.at("From", shown=ascii(shown), company=mention.brand.name, domain=domain)
            if strength := _measure(mention) * _measure_doubt(mention.brand, domain, shown, reading):
                yield SENDER_BRAND_IMPERSONATION.at(
                    "From", strength=strength, shown=shown or sender.local, company=mention.brand.name, domain=domain
                )


def _is_theirs(brand: Brand, domain: str) -> bool:
    """Return the brand's own domain; not a free mailbox, even where the brand runs the service."""
    if is_freemail(domain):
        return False
    # The brand's name as the whole registered name, under another ending: judged as a look-alike.
    return owns(brand, domain) or org_domain(domain).partition(".")[0] == brand.label


def _says_on_behalf(name: str) -> bool:
    """`Ann via DocuSign`, `Google Ann (via Docs)`: a list or service that says for whom it writes."""
    return " via " in f" {name.casefold().replace('(', ' ')} "


def _measure_doubt(brand: Brand, domain: str, shown: str, reading: Reading) -> float:
    """Return how little speaks for an honest sender. A mailing service may write in its own domain for the company,
    and where most links lead to the company's own sites its agency may have written; a fraud needs a site of its
    own."""
    doubt = (1.0 if shown else _NO_NAME) * (_SERVICE if is_tenant(domain) else 1.0)
    home = sum(owns(brand, host) for host in reading.sites)
    return doubt * _OWN_LINKS if domain and home and 2 * home >= len(reading.sites) else doubt


def _measure(mention: Mention) -> float:
    beside = [word for word in mention.rest if word not in OFFICE and not word.isdigit()]
    if not beside:
        return 1.0
    # "Ann from Ledger"
    if len(beside) == 1 and "from" in mention.rest:
        return _FROM_WORD
    if mention.brand.ordinary:
        return 0.0
    return _FEW_WORDS if len(beside) <= 2 else _MANY_WORDS
