"""The form of a rule: what it holds, how it is checked, and what the page that explains conditions shows."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gatepost.policy.conditions import MAX_CONDITION, find_place
from gatepost.policy.file import MAX_TITLE, check_rule
from gatepost.policy.rules import VERDICTS, OwnRule, Policy
from gatepost.web.forms import Form

MAX_NAME = 63
# Verdicts that a rule can point to; a rule that points to `clean` could do nothing.
RULE_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")


class Example(msgspec.Struct, frozen=True):
    """A rule that works as it stands, to begin with."""

    name: str
    title: str
    when: str
    verdict: str
    weight: str
    about: str


EXAMPLES: tuple[Example, ...] = (
    Example(
        "invoice-from-stranger",
        "An invoice in a web page or archive, from somebody who never wrote before",
        '!known && subject.matches("(?i)(invoice|rechnung|facture)")\n'
        '  && files.exists(file, file.extension in ["html", "htm", "zip"])',
        "fraud",
        "5",
        "subject, sender history and file names together",
    ),
    Example(
        "own-name-from-outside",
        "Our own name in the display name, at a free mailbox",
        'sender_name.contains("Example Ltd") && sender_domain in ["gmail.com", "outlook.com"]',
        "spoofing",
        "6",
        "the name beside the address of From",
    ),
    Example(
        "shortened-link-without-proof",
        "A shortened link, and nothing proves the sender",
        '"url:shortener" in tags && !authenticated',
        "phishing",
        "3",
        "a finding of Gatepost and the authentication: findings that mean more together",
    ),
    Example(
        "link-to-raw-address",
        "A link leads to a bare IP address",
        'links.exists(host, host.matches("^[0-9.]+$"))',
        "suspicious",
        "2",
        "the hosts of links, with a regular expression",
    ),
    Example(
        "unknown-campaign-tool",
        "Sent by a campaign tool that nobody here uses",
        '"x-mailer" in headers && headers["x-mailer"].exists(value, value.contains("BulkSender"))',
        "bulk",
        "4",
        "a header field: ask first whether the message has it",
    ),
)


class RuleForm(msgspec.Struct, frozen=True):
    """The fields of the form, as they were typed. `was` is the name of the rule that is changed, "" for a new one."""

    name: str = ""
    title: str = ""
    when: str = ""
    verdict: str = "suspicious"
    weight: str = "2"
    group: str = ""
    conclusive: bool = False
    decision: str = ""
    enabled: bool = True
    was: str = ""

    @property
    def rule(self) -> OwnRule:
        """The rule, of a form without mistakes."""
        verdict: Any = self.verdict
        decision: Any = self.decision
        weight = float(_parse_weight(self.weight))
        return OwnRule(self.when, self.title, verdict, weight, self.group, self.conclusive, decision)

    def find_mistakes(self, base: Policy) -> tuple["FormMistake", ...]:
        """Return what is wrong with the form, for a rule that is to be added to a policy."""
        weight: Any = _parse_weight(self.weight)
        fields: dict[str, Any] = {"when": self.when, "title": self.title, "verdict": self.verdict, "weight": weight}
        fields |= {name: text for name in ("group", "decision") if (text := getattr(self, name))}
        found = []
        for each in check_rule(self.name, fields, base):
            field = each.key[2] if len(each.key) > 2 else "name"
            found.append(FormMistake(field, _say_place(each.sentence), _show_place(self.when, each.sentence)))
        if self.verdict == "clean":
            found.append(FormMistake("verdict", "must be another one: a rule never makes the outcome milder"))
        return tuple(found)


class FormMistake(msgspec.Struct, frozen=True):
    """A mistake of one field; `picture` shows the place in a condition."""

    field: str
    sentence: str
    picture: str = ""


def read_rule_form(form: Form) -> RuleForm:
    """Return the fields of a form that was sent. Browsers end lines with CRLF."""
    return RuleForm(
        name=form.text("name", MAX_NAME + 1),
        title=form.text("title", MAX_TITLE + 1),
        when=form.raw_text("when").replace("\r\n", "\n").strip()[: MAX_CONDITION + 1],
        verdict=form.text("verdict", 40),
        weight=form.text("weight", 20),
        group=form.text("group", 100),
        conclusive=form.has("conclusive"),
        decision=form.text("decision", 20),
        enabled=form.has("enabled"),
        was=form.text("was", MAX_NAME),
    )


def fill_form(name: str, rule: OwnRule, *, enabled: bool) -> RuleForm:
    """Return the form of a rule that there is."""
    return RuleForm(
        name,
        rule.title,
        rule.when,
        rule.verdict,
        f"{rule.weight:g}",
        rule.group,
        rule.conclusive,
        rule.decision,
        enabled,
        name,
    )


def list_differences(before: OwnRule | None, after: OwnRule) -> list[tuple[str, str, str]]:
    """Return each field whose value differs, with the value before and after."""
    if before is None:
        return []
    old, new = _describe(before), _describe(after)
    return [(name, old[name], new[name]) for name in new if old[name] != new[name]]


def _describe(rule: OwnRule) -> Mapping[str, str]:
    return {
        "Title": rule.title,
        "Condition": rule.when,
        "Points to": rule.verdict,
        "Weight": f"{rule.weight:g}",
        "Group": rule.group or "none",
        "Conclusive": "yes" if rule.conclusive else "no",
        "Action": rule.decision or "by the verdict",
    }


def _parse_weight(text: str) -> float | str:
    """Return a number, with a decimal point or comma; the text where it is none, which the check refuses."""
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return text


def _say_place(sentence: str) -> str:
    """Return what is wrong with a condition, with the place in words."""
    place = find_place(sentence)
    if place is None:
        return sentence
    line, column = place
    return f"cannot be read at line {line}, column {column}: {sentence.partition(f' {line}:{column}: ')[2]}"


def _show_place(condition: str, sentence: str) -> str:
    """Return the line of a condition that a mistake names, with a caret under the column."""
    place = find_place(sentence)
    lines = condition.split("\n")
    if place is None or not 1 <= place[0] <= len(lines):
        return ""
    line, column = lines[place[0] - 1], place[1]
    start = max(0, column - 60)
    return f"{line[start : start + 100]}\n{' ' * (min(column, len(line) + 1) - 1 - start)}^"
