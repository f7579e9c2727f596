"""The form of the sender's addresses, in From and Reply-To: free mailboxes, random names, faulty fields."""

import re
from collections.abc import Iterator
from functools import lru_cache

from gatepost import kinds
from gatepost.checks.known_names import (
    ending_exists,
    is_freemail,
    is_genuine,
    is_hosted_page,
    is_tenant,
    list_words,
    measure_ending,
)
from gatepost.checks.links.hosts import measure_mention
from gatepost.findings import Reading, check
from gatepost.kinds import Finding
from gatepost.names import Address, is_ip, normal_domain, org_domain
from gatepost.strengths import coefficients

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
    if not message.reply_to or not message.senders or reading.is_discussion:
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
            strength = _CHEAP_REPLY * measure_ending(domain) + _RANDOM_REPLY * _has_random_label(domain)
            if strength >= _LEAST_REPLY:
                yield kinds.SENDER_THROWAWAY_REPLY_TO.at(
                    "Reply-To", strength=min(1.0, round(strength, 2)), answers=reply
                )
            return


def _has_random_label(domain: str) -> bool:
    """Return whether some label of a domain looks made up, below the registered name as well."""
    return not is_tenant(domain) and any(randomness(label) for label in domain.split("."))


def _is_same_person(reply: Address, sender: Address) -> bool:
    """People have several mailboxes: the same name before the @ is the same person."""
    mine, theirs = (address.local.casefold().replace(".", "") for address in (reply, sender))
    return bool(mine) and (mine == theirs or (len(mine) > 4 and mine in theirs) or (len(theirs) > 4 and theirs in mine))


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


@check(kinds.SENDER_FREEMAIL_POSE)
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


@check(kinds.URL_RANDOM_HOST, kinds.SENDER_RANDOM_DOMAIN, kinds.SENDER_RANDOM_MAILBOX)
def random_name(reading: Reading) -> Iterator[Finding]:
    """Domains and mailboxes with names that a machine made up: `zw6ht96`, `bqtirvjmdsvqgksn`, `62nwxj8mam`.

    Throw-away domains are registered by the thousand and mailboxes filled in by a template. Names that people choose
    can be spoken: vowels come every few letters, and digits stand at an end; abbreviations joined to words ("cbsnews")
    stay under the bar. Ticket systems and bounce handlers write from made-up mailboxes as well, so only the shown
    sender counts, and a domain counts more than a mailbox.
    """
    for sender in reading.message.senders[:1]:
        if strength := _measure_host(normal_domain(sender.domain)):
            yield kinds.SENDER_RANDOM_DOMAIN.at("From", strength=strength, domain=sender.domain)
        if strength := _measure_mailbox(sender.local[:64].partition("+")[0]):
            yield kinds.SENDER_RANDOM_MAILBOX.at("From", strength=strength, mailbox=sender)
    for host, link in reading.sites.items():
        if strength := _measure_host(host):
            strength = round(strength * measure_mention(reading), 2)
            yield kinds.URL_RANDOM_HOST.at(link.where, strength=strength, about=link.url, host=host)
            return


def _measure_mailbox(name: str) -> float:
    """Return how random a mailbox name is, 0 to 1.

    Mailboxes with separators are tickets, bounces and aliases: machines of honest owners name those.
    """
    return randomness(name) if name.isalnum() else 0.0


@lru_cache(8192)
def _measure_host(host: str) -> float:
    """Return how random the registered name is, 0 to 1.

    What stands below it is its owner's business, unless it is long noise.
    """
    if "." not in host or is_ip(host) or is_genuine(host) or is_tenant(host) or is_hosted_page(host) or "xn--" in host:
        return 0.0
    name = org_domain(host)
    below = (label for label in host.removesuffix(name).split(".") if len(label) >= _LONG_LABEL)
    return max(
        *(randomness(part) for part in name.partition(".")[0].split("-")),
        *(_RANDOM_BELOW * (randomness(label) >= _RANDOM_SURE) for label in below),
        0.0,
    )


@lru_cache(8192)
def randomness(label: str) -> float:
    """Return how far a label is from a name that a person may have chosen: 0 for such a name, else up to 1."""
    if len(label) < _SHORTEST_LABEL or not label.isascii():
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


@check(kinds.SENDER_MISSING_FROM, kinds.SENDER_INVALID_FROM, kinds.SENDER_SEVERAL_FROM)
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
        if sender.domain and not _domain_could_exist(sender):
            yield kinds.SENDER_INVALID_FROM.at("From", shown=sender.name, address=sender)
    owners = {org_domain(sender.domain) for sender in senders if sender.domain}
    if len(owners) > 1:
        yield kinds.SENDER_SEVERAL_FROM.at("From", senders=", ".join(map(str, senders[:5])))


def _is_from_reporter(reading: Reading) -> bool:
    shown = reading.fields.get("from", "").casefold()
    if not shown.strip("<> "):
        return not reading.envelope.sender.strip("<>")
    return any(name in shown for name in _REPORTERS)


def _domain_could_exist(sender: Address) -> bool:
    domain = normal_domain(sender.domain)
    if domain.startswith("[") or domain.rpartition(".")[2] in _LOCAL_ENDINGS:
        return True
    return _DOMAIN_FORM.match(domain) is not None and ending_exists(domain)
