"""Senders who bear the name of a well-known company or office and write from somewhere else.

`PayPal Service <info@tradestars.example>`: mail programs show the name and hide the address. Where the name is the
brand and nothing but words of office ("support", "account team"), it claims to be the brand. Where other words stand
around it ("Apple Insider", "Books on Amazon") it may be about the brand, and says less.
"""

from collections.abc import Iterator

from gatepost.checks.wellknown import Brand, Mention, is_freemail, is_tenant, mentions, owns
from gatepost.findings import Finding, Kind, Reading
from gatepost.names import normal_domain, org_domain

IMPERSONATION = Kind("sender:brand-impersonation", "The sender bears the name of a company whose domain this is not")
DISGUISED = Kind("sender:disguised-name", "The sender's name spells a company in look-alike or invisible characters")
KINDS = (IMPERSONATION, DISGUISED)

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


def check(reading: Reading) -> Iterator[Finding]:
    senders = reading.message.senders[:5]
    # `PayPal, Inc <service@paypal.com>` without quotes is two mailboxes by the grammar, and one to its writer.
    domain = next((normal_domain(sender.domain) for sender in senders if sender.domain), "")
    for sender in senders:
        shown = sender.name[:MAX_NAME]
        # Who shows no name is read by the part before the @.
        for mention in mentions(shown or sender.local[:MAX_NAME]):
            if _is_theirs(mention.brand, domain) or _on_behalf(shown):
                continue
            if mention.disguised:
                yield DISGUISED.at("From", shown=ascii(shown), company=mention.brand.name, domain=domain)
            if strength := _strength(mention) * _doubt(mention.brand, domain, shown, reading):
                yield IMPERSONATION.at(
                    "From", strength=strength, shown=shown or sender.local, company=mention.brand.name, domain=domain
                )


def _is_theirs(brand: Brand, domain: str) -> bool:
    """The brand's own domain; not a free mailbox, even where the brand runs the service."""
    if is_freemail(domain):
        return False
    # The brand's name as the whole registered name, under another ending: judged as a look-alike.
    return owns(brand, domain) or org_domain(domain).partition(".")[0] == brand.label


def _on_behalf(name: str) -> bool:
    """`Ann via DocuSign`, `Google Ann (via Docs)`: a list or service that says for whom it writes."""
    return " via " in f" {name.casefold().replace('(', ' ')} "


def _doubt(brand: Brand, domain: str, shown: str, reading: Reading) -> float:
    """How little speaks for an honest sender. A mailing service may write in its own domain for the company, and where
    most links lead to the company's own sites its agency may have written; a fraud needs a site of its own."""
    doubt = (1.0 if shown else 0.5) * (0.4 if is_tenant(domain) else 1.0)
    home = sum(owns(brand, host) for host in reading.sites)
    return doubt * 0.3 if domain and home and 2 * home >= len(reading.sites) else doubt


def _strength(mention: Mention) -> float:
    beside = [word for word in mention.rest if word not in OFFICE and not word.isdigit()]
    if not beside:
        return 1.0
    # "Ann from Ledger"
    if len(beside) == 1 and "from" in mention.rest:
        return 0.7
    if mention.brand.ordinary:
        return 0.0
    return 0.5 if len(beside) <= 2 else 0.3
