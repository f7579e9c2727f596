"""The mailboxes in From and Reply-To: the form of the address, and the display name that is shown beside it.

Addresses may be free mailboxes, random names, or none at all. Mail programs show the display name and often hide the
address. RFC 5322 section 3.4 makes the name free text, so a sender can write anything there: an address of another
domain, decoration, a brand, a person.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from gatepost.checks.known_names import (
    Brand,
    Mention,
    compile_names,
    ending_exists,
    find_imitated,
    is_forwarder,
    is_freemail,
    is_genuine,
    is_hosted_page,
    is_tenant,
    is_under,
    list_words,
    list_words_of_lines,
    measure_ending,
    owns,
    read_names,
)
from gatepost.checks.links.hosts import measure_mention
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import (
    Address,
    find_shown_addresses,
    is_icann_suffix,
    is_ip,
    is_mixed_script,
    normal_address,
    normal_domain,
    org_domain,
    scripts,
    skeleton,
)

_CHEAP_REPLY, _RANDOM_REPLY, _LEAST_REPLY = coefficients(kinds.SENDER_THROWAWAY_REPLY_TO, "ending", "random", "least")


@check(
    kinds.SENDER_REPLY_TO_FREEMAIL, kinds.SENDER_REPLY_TO_MISMATCH, kinds.SENDER_THROWAWAY_REPLY_TO, needs={"reply-to"}
)
def reply_to(reading: Reading) -> Iterator[Finding]:
    """Answers that go to another address than the sender's (Reply-To, RFC 5322 section 3.6.2).

    A fraud that forges or borrows a company's address has the answers sent to a free mailbox of its own. Lists, shops
    and ticket systems set Reply-To, too, but to a domain of their own or of the sender's, and hardly ever to a free
    mailbox.

    Services that share documents write in their own name and give the account of the user for answers. Accounts that
    are made by the thousand have domains that are, under endings where names cost nothing and with random labels. A
    person with an account there has one of an employer, a school or a provider.
    """
    message = reading.message
    if not message.reply_to or not message.senders or reading.is_known_post:
        return
    owners = reading.sender_domains | {org_domain(address.domain) for address in message.recipients}
    addresses = {(sender.local.casefold(), normal_domain(sender.domain)) for sender in message.senders}
    for reply in message.reply_to[:5]:
        domain = normal_domain(reply.domain)
        if not domain or (reply.local.casefold(), domain) in addresses:
            continue
        if is_freemail(domain):
            if not _is_same_person(reply, message.senders[0]):
                yield kinds.SENDER_REPLY_TO_FREEMAIL.at("Reply-To", answers=reply, sender=message.senders[0])
            return
        if org_domain(domain) not in owners:
            yield kinds.SENDER_REPLY_TO_MISMATCH.at("Reply-To", answers=reply, sender=message.senders[0])
            is_random = not is_tenant(domain) and any(map(measure_randomness, domain.split(".")))
            strength = _CHEAP_REPLY * measure_ending(domain) + _RANDOM_REPLY * is_random
            if strength >= _LEAST_REPLY:
                yield kinds.SENDER_THROWAWAY_REPLY_TO.at(
                    "Reply-To", strength=min(1.0, round(strength, 2)), answers=reply
                )
            return


def _is_same_person(reply: Address, sender: Address) -> bool:
    """People have several mailboxes: the same name before the @ is the same person. Lists whose members' domains
    publish a DMARC policy write in their own name for a person (`Ann via list`), who gets the answers."""
    if is_written_for(sender, reply):
        return True
    mine, theirs = (address.local.casefold().replace(".", "") for address in (reply, sender))
    return bool(mine) and (mine == theirs or (len(mine) > 4 and mine in theirs) or (len(theirs) > 4 and theirs in mine))


def is_written_for(sender: Address, reply: Address) -> bool:
    """Return whether the sender says that it writes for the person who gets the answers: `Ann via list` for `Ann`."""
    person, via, _ = sender.name.partition(" via ")
    name = _reduce_name(person)
    return bool(via and name) and name in (_reduce_name(reply.name), _reduce_name(reply.local))


def _reduce_name(name: str) -> str:
    return "".join(filter(str.isalnum, name[:MAX_NAME])).casefold()


_OFFICE_WORDS = frozenset(
    "bank banking banco banque fund funds fbi imf interpol irs treasury ministry minister embassy consulate court "
    "tribunal police government federal united nations lottery lotto award compensation inheritance barrister "
    "attorney solicitor notary headquarters hq department dept director governor payment payments billing invoice "
    "refund support helpdesk security verification notification administrator webmaster postmaster mailbox account "
    "accounts customer service services delivery courier logistics customs parcel finance loan loans credit atm "
    "behoerde finanzamt gericht polizei sparkasse kundenservice ministerio policia juzgado hacienda receita "
    "atendimento suporte cobranca prefeitura ministere gendarmerie impots polizia agenzia".split()
)
_ORGANISATION_WORDS = frozenset(
    "bank fbi imf irs interpol treasury embassy federal nations lottery police court".split()
)
_ENOUGH_OFFICE_WORDS = 2
(_ONE_OFFICE_WORD,) = coefficients(kinds.SENDER_FREEMAIL_POSE, "one_word")


@check(kinds.SENDER_FREEMAIL_POSE, needs={"free-sender"})
def freemail_pose(reading: Reading) -> Iterator[Finding]:
    """Companies, banks and authorities that write from a free mailbox.

    `Federal Bank Head Office <head.office.desk@gmail.com>`. Small shops do write from free mailboxes, so words like
    "shop" or "studio" do not count; no bank, court, ministry or payment office does.
    """
    for sender in reading.message.senders[:5]:
        if not is_freemail(normal_domain(sender.domain)):
            continue
        posing = _OFFICE_WORDS.intersection(list_words(sender.name))
        # One such word may be a surname or a nickname; two are an office.
        if len(posing) >= _ENOUGH_OFFICE_WORDS or posing & _ORGANISATION_WORDS:
            yield kinds.SENDER_FREEMAIL_POSE.at(
                "From",
                strength=1.0 if len(posing) >= _ENOUGH_OFFICE_WORDS else _ONE_OFFICE_WORD,
                shown=sender.name,
                actual=sender,
            )


_LONG_LABEL = 12
_SHORTEST_LABEL = 7
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}")
# Two letters that are one sound, and endings that many words have.
_ONE_SOUND = re.compile(r"mgm?t|mktg|svcs?|tch|sch|ght|[scptwg]h|ck|st|nd|nt|ng|ss|ll|tt|rs|ts|ns|rt|rd")
_TURNS = re.compile(r"(?<=[a-z])\d|(?<=\d)[a-z]")
_VOWELS = re.compile(r"[aeiouy]")
_OTHER_LETTERS = re.compile(r"[b-df-hj-np-tv-xz]")
_CAPITALS = re.compile(r"[A-Z]")
_MANY_CAPITALS = 3
_PER_TURN, _PER_CONSONANT, _FEW_VOWELS, _VOWEL_SHARE, _HOPPING_CAPITALS, _RANDOM_BAR, _RANDOM_SURE, _RANDOM_BELOW = (
    coefficients(
        "randomness", "per_turn", "per_consonant", "few_vowels", "vowel_share", "capitals", "bar", "sure", "below"
    )
)


@check(kinds.URL_RANDOM_HOST, kinds.SENDER_RANDOM_DOMAIN, kinds.SENDER_RANDOM_MAILBOX, needs={"random-name"})
def random_name(reading: Reading) -> Iterator[Finding]:
    """Domains and mailboxes with names that a machine made up: `zw6ht96`, `bqtirvjmdsvqgksn`, `62nwxj8mam`.

    Throw-away domains are registered by the thousand and mailboxes filled in by a template. Names that people choose
    can be spoken: vowels come every few letters, and digits stand at an end; abbreviations joined to words ("cbsnews")
    stay under the bar. Ticket systems and bounce handlers write from made-up mailboxes as well, so only the shown
    sender counts, and a domain counts more than a mailbox.
    """
    for sender in reading.message.senders[:1]:
        if strength := measure_host(normal_domain(sender.domain)):
            yield kinds.SENDER_RANDOM_DOMAIN.at("From", strength=strength, domain=sender.domain)
        mailbox = sender.local[:64].partition("+")[0]
        # Mailboxes with separators are tickets, bounces and aliases: machines of honest owners name those.
        if mailbox.isalnum() and (strength := measure_randomness(mailbox)):
            yield kinds.SENDER_RANDOM_MAILBOX.at("From", strength=strength, mailbox=sender)
    for host, link in reading.sites.items():
        if strength := measure_host(host):
            strength = round(strength * measure_mention(reading), 2)
            yield kinds.URL_RANDOM_HOST.at(link.where, strength=strength, about=link.url, host=host)
            return


def measure_host(host: str) -> float:
    """Return how random the registered name of a host is, 0 to 1.

    What stands below it is its owner's business, unless it is long noise.
    """
    if "." not in host or is_ip(host) or is_genuine(host) or is_tenant(host) or is_hosted_page(host) or "xn--" in host:
        return 0.0
    name = org_domain(host)
    most = max(map(measure_randomness, name.partition(".")[0].split("-")))
    below = host.removesuffix(name)
    if len(below) >= _LONG_LABEL:
        for label in below.split("."):
            if len(label) >= _LONG_LABEL and measure_randomness(label) >= _RANDOM_SURE:
                most = max(most, _RANDOM_BELOW)
    return most


@lru_cache(8192)
def measure_randomness(label: str) -> float:
    """Return how far a label is from a name that a person may have chosen: 0 for such a name, else up to 1."""
    if len(label) < _SHORTEST_LABEL or not label.isascii():
        return 0.0
    # Nearly all names are small letters without a long run of consonants, and few vowels alone are not enough.
    if label.isalpha() and label.islower() and _FEW_VOWELS < _RANDOM_BAR and not _CONSONANTS.search(label):
        return 0.0
    # "aLaZFLJt" is no word in capitals and no two words joined.
    capitals = len(_CAPITALS.findall(label)) if not label.isupper() else 0
    hopping = capitals >= _MANY_CAPITALS and label[0].islower()
    label = label.lower()
    turns = len(_TURNS.findall(label))
    longest = max((len(_ONE_SOUND.sub("-", run)) for run in _CONSONANTS.findall(label)), default=0)
    score = _PER_TURN * max(0, turns - 1) + _PER_CONSONANT * max(0, longest - 4)
    vowels = len(_VOWELS.findall(label))
    letters = vowels + len(_OTHER_LETTERS.findall(label))
    if letters >= _SHORTEST_LABEL and vowels < _VOWEL_SHARE * letters:
        score += _FEW_VOWELS
    score += _HOPPING_CAPITALS * hopping
    return min(1.0, score) if score >= _RANDOM_BAR else 0.0


_REPORTERS = ("daemon", "postmaster", "mail delivery", "mail system")
_DOMAIN_FORM = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){1,10}\Z")
# Names that only make sense inside one network; some machines write from them.
_LOCAL_ENDINGS = frozenset(
    "localhost localdomain local internal lan intranet corp home invalid test example localnet".split()
)
_SPLIT_NAME, _NAME_ALONE = coefficients(kinds.SENDER_INVALID_FROM, "split_name", "name_alone")


@check(kinds.SENDER_MISSING_FROM, kinds.SENDER_INVALID_FROM, kinds.SENDER_SEVERAL_FROM, needs={"odd-sender"})
def from_field(reading: Reading) -> Iterator[Finding]:
    """From fields that name no sender, or several (RFC 5322 section 3.6.2 asks for at least one address).

    Without an address there is no domain to authenticate: `From: Microsoft account team` passes DMARC by having nothing
    to check. Several addresses let one be authenticated and another be shown.
    """
    senders = reading.message.senders
    # Servers that report on delivery do not always name themselves properly.
    if _is_from_reporter(reading):
        return
    if not senders:
        yield kinds.SENDER_MISSING_FROM.at("From", field=reading.fields.get("from", ""))
        return
    # A program on the same machine may write as its user alone: `root`.
    if len(senders) == 1 and not senders[0].local and senders[0].name.isalnum() and senders[0].name.islower():
        return
    if not any(sender.local for sender in senders):
        yield kinds.SENDER_INVALID_FROM.at("From", shown=senders[0].name, address=senders[0])
        return
    if not senders[0].domain and not senders[0].local:
        # `Doe, Ann <ann@example.com>` without quotes is a common mistake; a name alone and then an address is none.
        strength = _SPLIT_NAME if senders[1].name else _NAME_ALONE
        yield kinds.SENDER_INVALID_FROM.at("From", strength=strength, shown=senders[0].name, address=senders[1])
    # Machines inside a network write as root@host, and X.400 gateways as names without a domain: no claim is made.
    for sender in senders[:1]:
        if sender.domain and not domain_could_exist(normal_domain(sender.domain)):
            yield kinds.SENDER_INVALID_FROM.at("From", shown=sender.name, address=sender)
    owners = {org_domain(sender.domain) for sender in senders if sender.domain}
    if len(owners) > 1:
        yield kinds.SENDER_SEVERAL_FROM.at("From", senders=", ".join(map(str, senders[:5])))


def _is_from_reporter(reading: Reading) -> bool:
    shown = reading.fields.get("from", "").casefold()
    if not shown.strip("<> "):
        return not reading.envelope.sender.strip("<>")
    return any(name in shown for name in _REPORTERS)


def domain_could_exist(domain: str) -> bool:
    """Return whether a domain has the form of one, and an ending that there is, or stands in one network only."""
    if domain.startswith("[") or domain.rpartition(".")[2] in _LOCAL_ENDINGS:
        return True
    return _DOMAIN_FORM.match(domain) is not None and ending_exists(domain)


MAX_NAME = 200
MAX_READERS = 100
_ADDRESS_BY_SERVICE, _ADDRESS_LINKED, _ADDRESS_OF_READER = coefficients(
    kinds.SENDER_DISPLAY_NAME_SPOOF, "service", "linked", "reader"
)


@check(kinds.SENDER_DISPLAY_NAME_SPOOF, needs={"name-address"})
def display_name(reading: Reading) -> Iterator[Finding]:
    """Display names that show an address of another domain.

    `"billing@bank.example" <x@evil.example>` is legal (RFC 5322 section 3.4: a display name is free text), and most
    mail programs show only the quoted part. Lists and services that write for a person say so ("ann@example.com via
    list"), and so does whoever poses as one: only known senders and lists are believed. Services that give out
    addresses to be thrown away write the sender's own address into the name; then most links lead to the domain that is
    shown, and a forger needs them to lead elsewhere. The reader's own address poses as nobody: scanners, calendars and
    services that act for the reader show it. Lures show it as well, so it is a small sign beside others.
    """
    for sender in reading.message.senders:
        for shown in find_shown_addresses(sender.name):
            # Same owner, other host (mail.bank.example and bank.example) is ordinary.
            if not sender.domain or writes_on_behalf(sender.name, reading):
                continue
            if org_domain(shown.domain) != org_domain(sender.domain):
                is_service = reading.authentication.aligned and (
                    is_tenant(sender.domain) or is_forwarder(normal_domain(sender.domain))
                )
                strength = _ADDRESS_BY_SERVICE if is_service or reading.is_known_list else 1.0
                strength *= _ADDRESS_LINKED if _leads_to(shown.domain, reading) else 1.0
                strength *= _ADDRESS_OF_READER if _is_recipient(shown, reading) else 1.0
                strength = round(strength, 2)
                yield kinds.SENDER_DISPLAY_NAME_SPOOF.at("From", strength=strength, shown=shown, actual=sender)


def _is_recipient(shown: Address, reading: Reading) -> bool:
    """Return whether an address is one to which the mail goes, as the envelope says; anybody can write a To field."""
    address = normal_address(f"{shown.local}@{shown.domain}")
    return any(address == normal_address(recipient) for recipient in reading.envelope.recipients[:MAX_READERS])


def _leads_to(domain: str, reading: Reading) -> bool:
    """Return whether at least half of the sites that an authenticated sender links to are those of a domain."""
    if not reading.authentication.aligned:
        return False
    home = sum(org_domain(host) == org_domain(domain) for host in reading.sites)
    return 2 * home >= len(reading.sites) > 0


_SHOWN_DOMAIN = re.compile(r"(?<![\w@.-])[A-Za-z][A-Za-z0-9-]{1,40}(?:\.[A-Za-z]{2,12}){1,2}(?![\w@-]|\.\w)")
# "ASP.NET" is no site.
_NO_SITES = frozenset({"asp.net", "vb.net", "ado.net", "dot.net", "node.js"})
_SHORTEST_OWNER = 3
_DOMAIN_BY_SERVICE, _DOMAIN_LINKED, _DOMAIN_IN_MAILBOX, _DOMAIN_OPENLY = coefficients(
    kinds.SENDER_DISPLAY_NAME_DOMAIN, "service", "linked", "mailbox", "unsubscribe"
)


@check(kinds.SENDER_DISPLAY_NAME_DOMAIN, needs={"name-dot"})
def shown_domain(reading: Reading) -> Iterator[Finding]:
    """Display names that show a domain which is not the sender's: `"Crypto.com" <support@surveys.example>`.

    A company that is named after its site writes from it (RFC 5322 section 3.4 leaves the name free). Its mailing
    service may write from a domain of its own, and links to the company then; the same name under another ending
    is mostly the same company.
    """
    for sender in reading.message.senders[:1]:
        shown = _SHOWN_DOMAIN.search(sender.name[:MAX_NAME]) if "." in sender.name and "@" not in sender.name else None
        if shown is None or not sender.domain or writes_on_behalf(sender.name, reading):
            return
        domain = normal_domain(shown.group())
        if domain in _NO_SITES or not is_icann_suffix(domain.partition(".")[2]) or is_freemail(domain):
            return
        name = org_domain(domain).partition(".")[0].replace("-", "")
        owners = (normal_domain(sender.domain), *reading.sender_domains)
        if reading.is_known_list or any(_is_named_after(owner, name) for owner in owners):
            return
        is_service = reading.authentication.aligned and is_tenant(sender.domain)
        strength = (_DOMAIN_BY_SERVICE if is_service else 1.0) * (_DOMAIN_LINKED if _leads_to(domain, reading) else 1.0)
        strength *= _DOMAIN_IN_MAILBOX if name in sender.local.lower() else 1.0
        strength *= _DOMAIN_OPENLY if reading.is_known_newsletter else 1.0
        yield kinds.SENDER_DISPLAY_NAME_DOMAIN.at("From", strength=round(strength, 2), shown=domain, actual=sender)


def _is_named_after(domain: str, name: str) -> bool:
    """Return whether a domain and a name have one in the other: `mail.cnn.com` may write as `CNNMoney.com`."""
    owner = org_domain(domain).partition(".")[0].replace("-", "")
    return name in domain.replace("-", "") or (len(owner) >= _SHORTEST_OWNER and owner in name)


_INVISIBLE_BETWEEN_LETTERS = re.compile(r"[A-Za-z][\u00ad\u200b-\u200f\u2060\ufeff\U000e0100-\U000e01ef]+[A-Za-z]")
_MATHEMATICAL_LETTERS = re.compile(r"[\U0001d400-\U0001d7ff]")
# "Café+" and "Ωμέγα | Αθήνα" are names.
_PLAIN_SIGNS = frozenset("™®©°№+|<>=~")
NAME_FRAMES = frozenset("#*~=^|`")
_FRAMED_NAME = re.compile(r"[#*~=^|`][^#*~=^|`].*[#*~=^|`]", re.DOTALL)
_SHORTEST_MIXED_NAME = 4
_NAME_WORD = re.compile(r"[^\W\d_]+")


@check(
    kinds.SENDER_INVISIBLE_CHARACTERS, kinds.SENDER_DECORATED_NAME, kinds.SENDER_MIXED_SCRIPT_NAME, needs={"name-frame"}
)
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
        elif any(unicodedata.category(char) in ("So", "Sm") and char not in _PLAIN_SIGNS for char in name):
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
_OFFICE = read_names("office_words.txt")
OFFICE_WORDS = _OFFICE["words"]
_OFFICE_WITHOUT_BLANKS = compile_names("".join(list_words(word)) for word in _OFFICE["without-blanks"])
_BRAND_FROM_WORD, _BRAND_FEW_WORDS, _BRAND_MANY_WORDS, _BRAND_NO_NAME, _BRAND_BY_SERVICE, _BRAND_OWN_LINKS = (
    coefficients(
        kinds.SENDER_BRAND_IMPERSONATION, "from_word", "few_words", "many_words", "no_name", "service", "own_links"
    )
)


@check(kinds.SENDER_BRAND_IMPERSONATION, kinds.SENDER_DISGUISED_NAME, needs={"brand-sender", "protected"})
def brand_name(reading: Reading) -> Iterator[Finding]:
    """Senders who use the name of a well-known company or office and write from somewhere else.

    `PayPal Service <info@tradestars.example>`: mail programs show the name and hide the address. Where the name is the
    brand and nothing but words of office ("support", "account team"), it claims to be the brand. Where other words
    stand around it ("Apple Insider", "Books on Amazon") it may be about the brand, and says less. Names that the
    operator protects count in the same way, unless one of its own domains writes them.
    """
    senders = reading.message.senders[:5]
    # `PayPal, Inc <service@paypal.com>` without quotes is two mailboxes by the grammar, and one to its writer.
    domain = next((normal_domain(sender.domain) for sender in senders if sender.domain), "")
    for sender in senders:
        shown = sender.name[:MAX_NAME]
        # A sender without a name is read by the part before the @.
        for mention in find_imitated(shown or sender.local[:MAX_NAME], reading.protected.names):
            if _is_brands_own(mention.brand, domain, reading) or writes_on_behalf(shown, reading):
                continue
            if mention.disguised:
                yield kinds.SENDER_DISGUISED_NAME.at(
                    "From", shown=ascii(shown), company=mention.brand.name, domain=domain
                )
            if strength := _measure_mention(mention) * _measure_brand_doubt(mention.brand, domain, shown, reading):
                yield kinds.SENDER_BRAND_IMPERSONATION.at(
                    "From", strength=strength, shown=shown or sender.local, company=mention.brand.name, domain=domain
                )


def _is_brands_own(brand: Brand, domain: str, reading: Reading) -> bool:
    """Return the brand's own domain; not a free mailbox, even where the brand runs the service."""
    if is_freemail(domain):
        return False
    if brand.protected:
        return owns(brand, domain) or is_under(domain, reading.protected.own_domains)
    # The brand's name as the whole registered name, under another ending: judged as a look-alike.
    return owns(brand, domain) or org_domain(domain).partition(".")[0] == brand.label


def writes_on_behalf(name: str, reading: Reading) -> bool:
    """`Ann via DocuSign`, `Google Ann (via Docs)`: a list or service that says for whom it writes. It is believed where
    the sender or the list is known, or the sender is proven to be at an own domain: groups of one's own write so."""
    if " via " not in f" {name.casefold().replace('(', ' ')} ":
        return False
    if reading.is_known_sender or reading.is_known_list:
        return True
    own = reading.protected.own_domains
    return reading.authentication.aligned and any(
        is_under(normal_domain(sender.domain), own) for sender in reading.message.senders[:1]
    )


def _measure_brand_doubt(brand: Brand, domain: str, shown: str, reading: Reading) -> float:
    """Return how little speaks for an honest sender. A mailing service may write in its own domain for the company,
    and where all links lead to the company's own sites its agency may have written; a fraud needs a site of its
    own."""
    doubt = 1.0 if shown else _BRAND_NO_NAME
    # Anybody can write the service's domain into From.
    if reading.authentication.aligned and is_tenant(domain):
        doubt *= _BRAND_BY_SERVICE
    # One link elsewhere is enough for a fraud, however many lead to the company.
    leads_home = bool(domain and reading.sites) and all(owns(brand, host) for host in reading.sites)
    return doubt * _BRAND_OWN_LINKS if leads_home else doubt


def _is_office_word(word: str) -> bool:
    if word in OFFICE_WORDS or word.isdigit():
        return True
    # Scripts without blanks join several: "重要なお知らせ".
    return not word.isascii() and not _OFFICE_WITHOUT_BLANKS.sub("", word)


def _measure_mention(mention: Mention) -> float:
    beside = [word for word in mention.rest if not _is_office_word(word)]
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
        name = tuple(sorted(list_words(skeleton(sender.name))))  # "Director, Ann" is "Ann Director"
        index = _index_people(people)
        bearer = index.find(name) if name else None
        if not bearer or normal_address(str(sender)) in index.list_addresses(name):
            continue
        # A namesake under an own domain is a colleague.
        if not is_under(normal_domain(sender.domain), reading.protected.own_domains):
            yield kinds.SENDER_PROTECTED_PERSON.at("From", person=bearer.name, known_as=bearer, actual=sender)


_SortedName: TypeAlias = tuple[str, ...]


class _PeopleIndex:
    """Protected people by the sorted words of their names."""

    def __init__(self, people: tuple[Address, ...]) -> None:
        self.people = people
        self._by_name: dict[_SortedName, list[Address]] = {}
        self._addresses: dict[_SortedName, frozenset[str]] = {}
        names = "\n".join([person.name.replace("\n", " ") for person in people])
        for person, words in zip(people, list_words_of_lines(skeleton(names)), strict=True):
            self._by_name.setdefault(tuple(sorted(words)), []).append(person)

    def find(self, name: _SortedName) -> Address | None:
        """Return the first person of that name."""
        return self._by_name[name][0] if name in self._by_name else None

    def list_addresses(self, name: _SortedName) -> frozenset[str]:
        """Return the addresses of all people of that name."""
        if name not in self._addresses:
            self._addresses[name] = frozenset(normal_address(str(person)) for person in self._by_name[name])
        return self._addresses[name]


# The last lists of people with their indexes. A list is the same object for all messages of a tenant, until it changes:
# to compare lists of a hundred thousand would take longer than to look somebody up.
_indexed: dict[int, _PeopleIndex] = {}
_MOST_INDEXED = 32


def _index_people(people: tuple[Address, ...]) -> _PeopleIndex:
    known = _indexed.get(id(people))
    if known is None:
        if len(_indexed) >= _MOST_INDEXED:
            del _indexed[next(iter(_indexed))]
        known = _indexed[id(people)] = _PeopleIndex(people)
    return known
