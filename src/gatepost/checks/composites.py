"""Findings that are made by a condition in CEL: shipped composites, and the rules of an operator or a tenant.

A composite is findings that mean more together than their sum (`composites.toml`). It is written as an operator's own
rules are, so that what ships can be read, copied and changed in the same language. A check that combines phrases,
counts or degrees stays a check: a condition sees tags, not strengths. The file is read and compiled once. A composite
asks only whether tags that it names are there, which is enforced when the file is read. So its answer depends on which
of those were found, and is worked out once for each such set: an evaluation costs more than most checks.

A rule stands in a policy file or was written in the web interface: a condition (`policy.conditions`), and what a
message gets for which it holds. It is applied after all checks and sees what they found, so it can put findings
together, too.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import msgspec

from gatepost.checks.reading import Reading
from gatepost.findings.kinds import BY_ID, LIMIT_RULE_FAILED, Finding, Kind
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.policy.conditions import (
    MAX_ITEMS,
    ConditionError,
    choose_result,
    describe_file,
    evaluate,
    find_fault,
    make_variables,
    reads_only_tags,
)
from gatepost.policy.rules import RULE, RULE_STAGE, RULE_STOPPED, OwnRule

AREA = "composite:"
_FILE = "composites.toml"


class Composite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition over findings, and the tags of which one must be there for it to be evaluated."""

    any_of: frozenset[str]
    when: str


class CompositeError(ValueError):
    """The shipped file has a fault."""


@cache
def load_composites() -> tuple[tuple[Kind, Composite], ...]:
    """Return the composites that come with the package, checked."""
    return parse_composites((files("gatepost.checks") / _FILE).read_text("utf-8"))


def parse_composites(text: str) -> tuple[tuple[Kind, Composite], ...]:
    """Parse composites from TOML; raises `CompositeError` for tags that do not exist and faulty conditions."""
    stated = msgspec.toml.decode(text, type=dict[str, Composite])
    for name, composite in stated.items():
        unknown = sorted({name, *composite.any_of} - BY_ID.keys())
        if unknown or not composite.any_of or not name.startswith(AREA):
            raise CompositeError(f"{_FILE}: [{name}] has no tags, or unknown ones: {', '.join(unknown)}")
        fault = find_fault(composite.when) or ("" if reads_only_tags(composite.when) else "reads more than tags")
        if not fault and _OTHER_QUESTION.search(_QUESTION.sub("", composite.when)):
            fault = (
                'asks more than whether tags are there: write "a:b" in tags, or tags.exists(tag, tag in ["a:b", "a:c"])'
            )
        if fault:
            raise CompositeError(f"{_FILE}: [{name}] {fault}")
    return tuple((BY_ID[name], composite) for name, composite in stated.items())


# Whether one tag, or one of several, is there; and whatever is neither that nor joins two such questions.
_QUESTION = re.compile(
    r'"[a-z:-]{1,80}" in tags\b|tags\.exists\(tag, tag in \[\s{0,40}(?:"[a-z:-]{1,80}"(?:,\s{0,40})?){1,100}\]\)',
    re.ASCII,
)
_OTHER_QUESTION = re.compile(r"[^\s!&|()]")

# Every value that a condition can read, empty; composites read tags only.
_make_empty = cache(make_variables)


@lru_cache(1024)
def _holds(when: str, tags: frozenset[str]) -> bool:
    """Return whether a condition holds where these of the tags that it names were found. One that fails does not."""
    try:
        return evaluate(when, {**_make_empty(), "tags": sorted(tags)})
    except ConditionError:
        return False


@cache
def _index_composites() -> Mapping[str, tuple[int, ...]]:
    """Return, by tag, the numbers of the composites that it lets evaluate."""
    found: dict[str, list[int]] = {}
    for number, (_, composite) in enumerate(load_composites()):
        for tag in composite.any_of:
            found.setdefault(tag, []).append(number)
    return {tag: tuple(numbers) for tag, numbers in found.items()}


def may_combine(findings: Sequence[Finding]) -> bool:
    """Return whether a condition of some composite has to be evaluated for these findings."""
    index = _index_composites()
    for finding in findings:  # noqa: SIM110  a generator costs a call for each finding of every message
        if finding.kind in index:
            return True
    return False


def find_composites(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the composites of a message's findings."""
    index = _index_composites()
    numbers = {number for finding in findings if finding.kind in index for number in index[finding.kind]}
    tags = {finding.kind for finding in findings}
    for number in sorted(numbers):
        kind, composite = load_composites()[number]
        named = frozenset(tag for tag in tags if f'"{tag}"' in composite.when)
        if _holds(composite.when, named):
            yield kind.at(
                "findings", because=", ".join([*sorted(tags & composite.any_of), *sorted(named - composite.any_of)])
            )


# What one rule may take, and all rules of a message together, in seconds of CPU.
RULE_SECONDS = MAX_SECONDS = 0.1


def ignore_stage(_stage: str) -> None:
    """The default of `mark`, for an analysis that runs in the caller's own process and nobody watches."""


def apply_rules(
    reading: Reading,
    findings: Sequence[Finding],
    rules: Mapping[str, OwnRule],
    skip: Mapping[str, str] = {},
    mark: Callable[[str], None] = ignore_stage,
) -> Iterator[Finding]:
    """Yield a finding for each rule whose condition holds, and one for each that could not be evaluated.

    Each rule is announced as a stage (`mark`), so that guard knows which one to leave out when it had to end the worker
    (`skip`). A rule that ends by itself, but took too long, does not count either.
    """
    variables = describe_reading(reading, findings)
    now = time.thread_time()
    end = now + MAX_SECONDS
    for number, (name, rule) in enumerate(rules.items()):
        if now > end:
            yield LIMIT_RULE_FAILED.at("policy", rule=name, reason="the rules before it took all the time there is")
            return
        stage = f"{RULE_STAGE}{number}"
        if stage in skip:
            yield LIMIT_RULE_FAILED.at("policy", rule=name, reason=f"{RULE_STOPPED}: {skip[stage]}")
            continue
        mark(stage)
        holds, failed = False, ""
        try:
            holds = evaluate(rule.when, variables)
        except ConditionError as fault:
            failed = str(fault)
        before, now = now, time.thread_time()
        if now - before > RULE_SECONDS:
            failed = f"{RULE_STOPPED}: it took {now - before:.1f} s"
        if failed:
            yield LIMIT_RULE_FAILED.at("policy", rule=name, reason=failed)
        elif holds:
            yield Finding(f"{RULE}{name}", "policy", {"condition": rule.when[:300]})


def leave_out_rules(rules: Iterable[str], why: str) -> Iterator[Finding]:
    """Yield a finding for each rule that was not evaluated, since more than one has ended a worker."""
    for name in rules:
        yield LIMIT_RULE_FAILED.at("policy", rule=name, reason=f"left out with the others: {why}")


def describe_reading(reading: Reading, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what a condition can read of a message."""
    message, envelope, authentication = reading.message, reading.envelope, reading.authentication
    author = message.senders[0] if message.senders else None
    sender = normal_address(str(author)) if author else ""
    bounce_to = normal_address(envelope.sender)
    fields: dict[str, list[str]] = {}
    for field in message.headers.fields[:MAX_ITEMS]:
        fields.setdefault(field.name, []).append(field.value)
    standing = reading.sender_history.address
    return make_variables(
        tags=list(dict.fromkeys(finding.kind for finding in findings)),
        sender=sender,
        sender_domain=normal_domain(author.domain) if author else "",
        sender_organisation=org_domain(author.domain) if author else "",
        sender_name=author.name if author else "",
        envelope_sender=bounce_to,
        envelope_domain=bounce_to.rpartition("@")[2],
        recipients=[normal_address(each) for each in envelope.recipients[:MAX_ITEMS]],
        reply_to=[normal_address(str(each)) for each in message.reply_to[:MAX_ITEMS]],
        host=authentication.host,
        helo=envelope.helo or "",
        spf=authentication.spf.result,
        dkim=choose_result(each.result for each in authentication.dkim),
        dmarc=authentication.dmarc.result,
        arc=authentication.arc.result,
        authenticated=authentication.aligned,
        subject=message.subject,
        headers=fields,
        links=list(dict.fromkeys(link.host for link in reading.links if link.host)),
        files=[
            describe_file(name, file.type, file.sha256)
            for file in reading.files[:MAX_ITEMS]
            for name in file.names[:1] or ("",)
        ],
        size=len(message.raw),
        known=standing.known,
        known_days=max(standing.proven.days, standing.claimed.days),
    )
