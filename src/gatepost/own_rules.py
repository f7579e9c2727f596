"""The rules of an operator or a tenant, applied to one message after all checks.

A rule stands in a policy file: a condition (`policy.conditions`), and what a message gets for which it holds. It sees
what checks found, so it can put findings together that mean more than their sum.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gatepost.findings import Reading
from gatepost.kinds import LIMIT_RULE_FAILED, Finding
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.policy.conditions import (
    MAX_ITEMS,
    ConditionError,
    choose_result,
    describe_file,
    evaluate,
    make_variables,
)
from gatepost.policy.rules import RULE, OwnRule

# What all rules of a message may take together, in seconds of CPU.
MAX_SECONDS = 0.1


def apply_rules(reading: Reading, findings: Sequence[Finding], rules: Mapping[str, OwnRule]) -> Iterator[Finding]:
    """Yield a finding for each rule whose condition holds, and one for each that could not be evaluated."""
    variables = describe_reading(reading, findings)
    end = time.thread_time() + MAX_SECONDS
    for name, rule in rules.items():
        if time.thread_time() > end:
            yield LIMIT_RULE_FAILED.at("policy", rule=name, reason="the rules before it took all the time there is")
            return
        try:
            holds = evaluate(rule.when, variables)
        except ConditionError as fault:
            yield LIMIT_RULE_FAILED.at("policy", rule=name, reason=fault)
            continue
        if holds:
            yield Finding(f"{RULE}{name}", "policy", {"condition": rule.when[:300]})


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
