"""The vocabulary between reading and judging: a check looks at a `Reading` and yields `Finding`s.

A finding states a fact, and what was seen there. It knows no weight and no action: `policy` gives those.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import lru_cache
from importlib.resources import files
from typing import Any, Generic, TypeVar, overload

import msgspec

from gatepost.auth.results import Authentication
from gatepost.files.values import File
from gatepost.findings.kinds import Finding, Kind
from gatepost.lists.addresses import ProtectedName
from gatepost.mail.message import Envelope, Link, Message, Text
from gatepost.mail.sender_history import KNOWN_DAYS, NO_HISTORY, SenderHistory
from gatepost.names import Address, normal_domain, org_domain
from gatepost.process.kept_results import read_toml
from gatepost.questions import Antivirus, Campaign, Reputation
from gatepost.textmodel.features import find_marks
from gatepost.textmodel.learnt import NO_MODELS, LearntModels, make_message_row
from gatepost.textmodel.model import DeployedModels, load_shipped_models
from gatepost.textmodel.words import MessageWords, read_words

T = TypeVar("T")

# What a check can wait for, each with what has to be there.
SIGNS: Mapping[str, str] = read_toml(files("gatepost.checks") / "data" / "signs.toml", __file__)
# A theme of the phrasebooks as a sign, for a check that waits for it or for something else.
THEME_SIGN = "theme:"


# What an answer has (RFC 5322 section 3.6.4).
ANSWER_FIELDS = frozenset({"in-reply-to", "references"})
MAX_PROGRAMS = 5


class once_property(Generic[T]):  # noqa: N801  used like `property`
    """A property that is worked out when it is first asked for, and kept. `functools.cached_property` takes a lock in
    Python 3.11, and ten of these are asked for in every message."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> "once_property[T]": ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object | None, kind: type) -> "T | once_property[T]":
        if owner is None:
            return self
        value = self._make(owner)
        owner.__dict__[self._name] = value
        return value


class Protected(msgspec.Struct, frozen=True):
    """The names that outsiders may not use, from the operator's lists: domains with their subdomains, people by the
    name they are known by, and names of companies and products with the domains that use them. `host_trusted` says that
    the sending host is in `allowed-ips` or `trusted-relays`."""

    own_domains: frozenset[str] = frozenset()
    partner_domains: frozenset[str] = frozenset()
    people: tuple[Address, ...] = ()
    host_trusted: bool = False
    names: frozenset[ProtectedName] = frozenset()

    @property
    def is_stated(self) -> bool:
        """Whether the operator protects anything."""
        return bool(self.own_domains or self.partner_domains or self.people or self.names)

    @property
    def trusted_domains(self) -> frozenset[str]:
        """The own domains, and those of partners and protected names: one set for each combination, for caches."""
        return _join_domains(self.own_domains, self.partner_domains, self.names)


@lru_cache(16)
def _join_domains(own: frozenset[str], partners: frozenset[str], names: frozenset[ProtectedName]) -> frozenset[str]:
    return own.union(partners, *(name.domains for name in names))


class Reading(msgspec.Struct, frozen=True, dict=True):
    """Everything known about one message before it is judged. `now` is the time of the analysis, in seconds; `words`
    are those that its writer chose, where an earlier stage has worked them out. `is_company` says whether From is at
    the own domain of a company that we know, proven or not.

    What several checks need is worked out once, when the first of them asks.
    """

    message: Message = Message()
    envelope: Envelope = Envelope()
    authentication: Authentication = Authentication()
    files: tuple[File, ...] = ()
    protected: Protected = Protected()
    now: float = 0.0
    antivirus: Antivirus = Antivirus()
    sender_history: SenderHistory = NO_HISTORY
    models: DeployedModels = msgspec.field(default_factory=load_shipped_models)
    campaign: Campaign = Campaign()
    reputation: Reputation = Reputation()
    words: MessageWords | None = None
    learnt: LearntModels = NO_MODELS
    is_company: bool = False

    @once_property
    def written(self) -> MessageWords:
        """The words of names, subject and body that the writer of the mail chose, without those of documents."""
        if self.words is not None:
            return self.words
        return read_words(self.message, [text for text in self.message.texts if text.form != "document"])

    @once_property
    def marks(self) -> list[str]:
        """The marks of the mail's build, for text models."""
        return find_marks(self.message, self.files)

    @once_property
    def row(self) -> bytes:
        """The feature row of the mail, packed (see `textmodel.learnt`)."""
        return make_message_row(self.message, self.written, self.marks)

    @once_property
    def documents(self) -> tuple[Text, ...]:
        """The texts of documents among the files."""
        return tuple(text for text in self.message.texts if text.form == "document")

    @once_property
    def fields(self) -> Mapping[str, str]:
        """The first value of each header field."""
        return {field.name: field.value for field in reversed(self.message.headers.fields)}

    @once_property
    def hops(self) -> tuple[str, ...]:
        """The Received fields, newest first (RFC 5321 section 4.4)."""
        return self.message.headers.all("received")

    @once_property
    def programs(self) -> tuple[str, ...]:
        """The programs that the mail names as its writers. There may be several fields, and anybody can add one."""
        headers = self.message.headers
        named = (*headers.all("x-mailer")[:MAX_PROGRAMS], *headers.all("user-agent")[:MAX_PROGRAMS])
        return tuple(program for value in named if (program := value.strip()))

    @once_property
    def web_links(self) -> tuple[Link, ...]:
        """Each URL that a person can follow to a site, once."""
        found: dict[str, Link] = {}
        for link in self.links:
            if link.host and link.can_be_followed and not link.url.startswith("mailto:"):
                found.setdefault(link.url, link)
        return tuple(found.values())

    @once_property
    def sites(self) -> Mapping[str, Link]:
        """One link for each host among `web_links`."""
        found: dict[str, Link] = {}
        for link in self.web_links:
            found.setdefault(link.host, link)
        return found

    @once_property
    def sender_domains(self) -> frozenset[str]:
        """The organisations that the mail says it is from: those of From, Sender and the envelope."""
        domains = [sender.domain for sender in self.message.senders]
        domains.append(self.envelope.sender.strip("<>").rpartition("@")[2])
        return frozenset(org_domain(domain) for domain in domains if domain)

    @once_property
    def is_known_sender(self) -> bool:
        """Whether From is proven (an aligned SPF or DKIM pass), and proven mail of that address was delivered to the
        tenant on several days before. The address counts, not its domain: everybody has an account at a free one."""
        return self.authentication.aligned and self.sender_history.address.proven.days >= KNOWN_DAYS

    @once_property
    def is_proven_company(self) -> bool:
        """Whether From is proven, and at the own domain of a company that we know: its name is its reputation."""
        return self.is_company and self.authentication.aligned

    @once_property
    def is_known_list(self) -> bool:
        """Whether the mail came through a list to which people write (RFC 2369 section 3.4), from the network from
        which posts of that list were delivered to the tenant on several days before."""
        return self.claims_discussion and self.sender_history.mailing_list.days >= KNOWN_DAYS

    @property
    def list_domains(self) -> frozenset[str]:
        """The organisations of a known list, by the addresses to which posts go and from which they come."""
        posts = (self.fields.get("list-post", ""), self.envelope.sender) if self.is_known_list else ()
        return frozenset(org_domain(normal_domain(post.rpartition("@")[2].strip("<> \t"))) for post in posts)

    @once_property
    def is_known_post(self) -> bool:
        """Whether the mail came through a known list from a member who is a known sender. A list vouches for what lists
        do to mail, such as another envelope or a broken signature, and not for what anybody posts there."""
        return self.is_known_list and self.is_known_sender

    @once_property
    def is_known_answer(self) -> bool:
        """Whether the mail answers another (RFC 5322 section 3.6.4), and its sender is known."""
        return self.is_known_sender and not ANSWER_FIELDS.isdisjoint(self.fields)

    @once_property
    def is_known_newsletter(self) -> bool:
        """Whether the mail offers to end a subscription (RFC 2369, RFC 8058), and its sender is known or proven."""
        return (self.is_known_sender or self.is_proven_company) and "list-unsubscribe" in self.fields

    @once_property
    def claims_discussion(self) -> bool:
        """Whether the mail says that it came through a list to which people write (RFC 2369 section 3.4); groups of
        Yahoo said so in a field of their own, and posts there are answers to posts."""
        if self.fields.get("list-post", "no").strip().lower() not in ("", "no"):
            return True
        return "in-reply-to" in self.fields and self.fields.get("mailing-list", "").startswith("list ")

    @once_property
    def links(self) -> tuple[Link, ...]:
        """Every link there is: in the text, and in files."""
        return (*self.message.links, *(link for file in self.files for link in file.links))

    @once_property
    def has_attachment(self) -> bool:
        """Whether there is a file that is not a body of text."""
        return any(file.is_attachment for file in self.files)

    def once(self, work: Callable[["Reading"], T]) -> T:
        """What `work` makes of this reading; kept, so that checks that share it do not work it out again."""
        kept: dict[Callable[[Reading], T], T] = self.__dict__.setdefault("_kept", {})
        if work not in kept:
            kept[work] = work(self)
        return kept[work]


class Check(msgspec.Struct, frozen=True):
    """One check: `name` is the trick that it looks for, and `check:<name>` the stage that a stall is blamed on.

    Its trigger is what must be there for it to find anything. Most messages give most checks nothing to look at, and a
    check that is not called costs nothing: one with `needs` finds something only where one of these `SIGNS` is there,
    one with `themes` only where the text speaks of one of them (see `checks.phrases`). None of them means that it
    always runs. `checks.triggers` makes one table of all triggers.
    """

    name: str
    kinds: tuple[Kind, ...]
    run: Callable[[Reading], Iterable[Finding]]
    needs: frozenset[str] = frozenset()
    themes: frozenset[str] = frozenset()

    def __call__(self, reading: Reading) -> Iterable[Finding]:
        """Return what the check finds; the analysis calls `run`, which saves a call."""
        return self.run(reading)


def check(
    *kinds: Kind, needs: Set[str] = frozenset(), themes: Set[str] = frozenset()
) -> Callable[[Callable[[Reading], Iterator[Finding]]], Check]:
    """Return a decorator that makes a `Check` of a generator function, whose name is the trick.

    It registers nothing: `checks.registry` lists the modules whose checks run.
    """

    def make(function: Callable[[Reading], Iterator[Finding]]) -> Check:
        return Check(function.__name__, kinds, function, frozenset(needs), frozenset(themes))

    return make
