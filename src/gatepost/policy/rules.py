"""Policy as data: the weight of each finding, groups with a shared cap, and the decision and action for each verdict.

The shipped policy is `policy/shipped.toml`. A policy file of the operator states only what differs, and is laid
over the shipped one, value by value (`layers`).

An action is what is done over SMTP with a message besides holding, refusing or dropping it, and belongs to a decision.
`tag`, `redirect` and `strip` change a message or its way, so they stand beside the decision `quarantine`: a source that
cannot carry them out, such as the scanning API, holds the message. `copy` changes nothing and stands beside `deliver`.
Where the decision on a message is another one, its action does not count.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, Literal, get_args

import msgspec

from gatepost.findings.kinds import TITLES
from gatepost.names import normal_domain
from gatepost.process.kept_results import read_toml

ActionName = Literal["tag", "redirect", "copy", "strip"]
ACTIONS: tuple[ActionName, ...] = get_args(ActionName)
# The decision beside which each action stands.
DECISION_OF: dict[str, str] = {"tag": "quarantine", "redirect": "quarantine", "strip": "quarantine", "copy": "deliver"}
# Actions that send to a mailbox.
WITH_MAILBOX = frozenset({"redirect", "copy"})

# An encoded word has at most 75 characters (RFC 2047 section 2), and a mark that needs one must fit into one.
MAX_MARK = 40
MAX_MAILBOX = 254
_MAX_LOCAL = 64
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


class StrippedFile(msgspec.Struct, frozen=True):
    """An attachment that was taken out: what the notice in its place says of it."""

    path: str
    name: str
    size: int
    sha256: str
    reason: str


class MessageAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """The action on one message, as its record has it. `mark` goes before the subject, `to` is the mailbox of a
    redirect or copy, `files` are the attachments that were taken out. `failed` is why the action was not carried out:
    then the decision was, as without an action."""

    name: ActionName
    mark: str = ""
    to: str = ""
    files: tuple[StrippedFile, ...] = ()
    failed: str = ""

    def describe(self) -> str:
        """Return what was done, as a sentence for people; for a failed action, what was not done and why."""
        if self.failed:
            return f"The action {self.name} was not carried out: {self.failed}"
        marked = f", its subject marked {self.mark.strip()}" if self.mark else ""
        if self.name == "tag":
            return f"It was delivered with tags in its header{marked}"
        if self.name == "redirect":
            return f"It was redirected to {self.to} instead of its recipients{marked}"
        if self.name == "copy":
            return f"It was delivered, and a copy was sent to {self.to}"
        names = ", ".join(file.name for file in self.files[:5])
        return f"It was delivered without {len(self.files)} of its attachments ({names}), and is held whole{marked}"


def find_mark_fault(mark: str) -> str:
    """Return what is wrong with a mark for subjects, as the end of a sentence; "" if it can be used."""
    if not mark:
        return ""
    if not mark.strip() or not mark.isprintable():
        return "must be a text of printable characters"
    if len(mark.encode("utf-8", "replace")) > MAX_MARK:
        return f"must have at most {MAX_MARK} bytes"
    return "must not hold =? or ?=, which begin and end an encoded word" if "=?" in mark or "?=" in mark else ""


def find_mailbox_fault(address: str) -> str:
    """Return what is wrong with the address of a mailbox, as the end of a sentence; "" if it can be used."""
    local, at, domain = address.rpartition("@")
    short = address.isascii() and len(address) <= MAX_MAILBOX and len(local) <= _MAX_LOCAL
    if not (at and short and _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(normal_domain(domain))):
        return f"must be the address of a mailbox, such as held@example.com, not {address[:100]!r}"
    return ""


Key = tuple[str, ...]


class PolicyMistake(msgspec.Struct, frozen=True, order=True):
    """A fault or warning at a line of a file that is not named yet."""

    line: int
    key: Key
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}: {'.'.join(self.key) or 'the file'} {self.sentence}"


class PolicyError(ValueError):
    """A faulty policy file; the text has every fault with file, line and key."""

    def __init__(self, file: str, mistakes: Iterable[PolicyMistake]) -> None:
        self.file = file
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(_describe_mistake(file, mistake) for mistake in self.mistakes))


def _describe_mistake(file: str, mistake: PolicyMistake) -> str:
    key = ".".join(mistake.key) or "the file"
    return f"{file}:{mistake.line}: {key} {mistake.sentence}"


Verdict = Literal[
    "malware", "phishing", "fraud", "spoofing", "unscannable", "policy", "suspicious", "spam", "bulk", "clean"
]
Chosen = Literal["deliver", "quarantine", "bounce", "drop"]
Decision = Literal["undecided", "deliver", "quarantine", "bounce", "drop"]

# From the mildest to the strictest.
DECISIONS: tuple[Decision, ...] = ("deliver", "quarantine", "bounce", "drop")

VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]  # most severe first


class VerdictRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a verdict is reached, and the decision for it.

    It is reached at a total score of `threshold` if findings for this verdict make up at least `own` of it. Without a
    threshold, only a conclusive finding leads to it. `action` is what is done over SMTP beside the decision that it
    belongs to (see `actions`), with `mark` before the subject, and for a redirect or copy `to` a mailbox.
    """

    decision: Chosen
    threshold: float | None = None
    own: float = 0.0
    action: ActionName | Literal[""] = ""
    mark: str = ""
    to: str = ""


class GroupRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Findings that tend to occur together count at most `cap` together."""

    cap: float
    description: str


class KindRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of one kind of finding and the verdict it points to. `conclusive` ones need no threshold."""

    weight: float
    verdict: Verdict
    group: str = ""
    conclusive: bool = False


# The tag of an operator's own rule is this and its name.
RULE = "rule:"
# Rules of a whole policy: each is evaluated for every message.
MAX_RULES = 200
# The stage in which a worker evaluates a rule is this and its place among all rules of the policy.
RULE_STAGE = "rules:"
# How the reason begins for which a rule was not evaluated, or does not count, because of what it costs.
RULE_STOPPED = "it was stopped"


class OwnRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the operator: what a message gets for which the condition `when` holds (see `conditions`). With a
    `decision` the rule is conclusive, and the message gets that decision unless its verdict has a stricter one."""

    when: str
    title: str
    verdict: Verdict
    weight: float = 0.0
    group: str = ""
    conclusive: bool = False
    decision: Chosen | Literal[""] = ""


class AddedKinds(msgspec.Struct, frozen=True):
    """What a plug-in adds to the shipped policy: kinds with their titles and rules, and groups of its own."""

    plugin: str
    titles: dict[str, str]
    kinds: dict[str, KindRule]
    groups: dict[str, GroupRule] = {}


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole policy. `rules` are those of the operator. `changes` describes, by section and name, what the files of an
    operator changed; the ledger of every message that such a change affects contains it. `added` is what plug-ins
    brought, as they brought it; `kinds` and `groups` have it with the operator's changes."""

    verdicts: dict[Verdict, VerdictRule]
    groups: dict[str, GroupRule]
    kinds: dict[str, KindRule]
    rules: dict[str, OwnRule] = {}
    changes: dict[str, str] = {}
    added: tuple[AddedKinds, ...] = ()


def extend_policy(policy: Policy, added: Iterable[AddedKinds]) -> Policy:
    """Return a policy with what plug-ins add to it."""
    found = tuple(added)
    kinds, groups = dict(policy.kinds), dict(policy.groups)
    for each in found:
        kinds |= each.kinds
        groups |= each.groups
    return msgspec.structs.replace(policy, kinds=kinds, groups=groups, added=(*policy.added, *found))


def rule_of(kind: str, policy: Policy) -> KindRule:
    """Return the rule for a kind. A custom list without a rule is conclusive for `policy`; others weigh nothing."""
    found = policy.kinds.get(kind)
    if found is not None:
        return found
    own = policy.rules.get(kind.removeprefix(RULE)) if kind.startswith(RULE) else None
    if own is not None:
        return KindRule(own.weight, own.verdict, own.group, own.conclusive or bool(own.decision))
    listed = kind.startswith("list:")
    return KindRule(weight=0.0, verdict="policy" if listed else "clean", conclusive=listed)


def describe_rule_action(rule: VerdictRule) -> str:
    """Return the action of a verdict in few words; "" where it has none, or its decision is another one."""
    if not rule.action or rule.decision != DECISION_OF[rule.action]:
        return ""
    mailbox = f" to {rule.to}" if rule.to and rule.action in WITH_MAILBOX else ""
    mark = f", mark {rule.mark.strip()}" if rule.mark and rule.action != "copy" else ""
    return f"{rule.action}{mailbox}{mark}"


def title_of(kind: str, policy: Policy) -> str:
    """Return the title of a finding: of a shipped kind, of an operator's rule, of a list, or of a plug-in's kind; the
    kind itself where the plug-in is no longer there."""
    if title := TITLES.get(kind):
        return title
    own = policy.rules.get(kind.removeprefix(RULE)) if kind.startswith(RULE) else None
    if own is not None:
        return own.title
    area, _, name = kind.partition(":")
    if area == "rule":
        return f"The rule {name} of the operator holds"
    return title_of_list(name) if area == "list" else collect_titles(policy).get(kind, kind)


def collect_titles(policy: Policy) -> Mapping[str, str]:
    """Return the title of every kind that checks can find: the shipped ones, and those of plug-ins."""
    added = (each.titles.items() for each in policy.added)
    return dict(chain(TITLES.items(), *added)) if policy.added else TITLES


def title_of_list(name: str) -> str:
    """Return the title of a finding that an entry of a list has made."""
    return f"An entry of {name} matches"


@cache
def shipped_policy() -> Policy:
    """Return the policy that comes with the package."""
    return convert_policy(read_toml(files("gatepost.policy") / "shipped.toml", __file__))


def unchanged_policy(policy: Policy) -> Policy:
    """Return what a policy was before files of the operator changed it: the shipped one, with what plug-ins added."""
    return extend_policy(shipped_policy(), policy.added) if policy.added else shipped_policy()


def convert_policy(stated: dict[str, Any]) -> Policy:
    """Return a whole policy; raises `PolicyError`."""
    try:
        return _check(msgspec.convert(stated, Policy))
    except msgspec.ValidationError as fault:
        raise PolicyError("shipped.toml", [PolicyMistake(1, (), str(fault))]) from None


def _check(policy: Policy) -> Policy:
    wrong = [PolicyMistake(1, ("verdicts", each), "is required") for each in VERDICTS if each not in policy.verdicts]
    groups = {("kinds", kind): rule.group for kind, rule in policy.kinds.items()}
    groups |= {("rules", name): rule.group for name, rule in policy.rules.items()}
    for key, group in groups.items():
        if group and group not in policy.groups:
            wrong.append(PolicyMistake(1, key, f"names {group!r}, but there is no such group"))
    if wrong:
        raise PolicyError("shipped.toml", wrong)
    return policy
