"""The draft of a configuration: which settings pages may change, and the version that it would make; differences of
versions.

Pages change policies and the settings of `GROUPS` and `ITEMS`. Paths of files and references to secrets are left to the
files, as with feeds. Hosts can be changed in routes and for recipients, but not where credentials go along: whoever may
change both a secret's reference and the host that it is sent to could read every secret of the server. Whatever a draft
does not name stays as it is.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from pydantic.fields import FieldInfo

from gatepost.plugins import PluginError, find_plugins
from gatepost.policy.layers import OUTBOUND, Layer, Policies, lay_over, load_values, unchanged_policies
from gatepost.policy.rules import AddedKinds, PolicyError, PolicyMistake
from gatepost.settings.delivery import RouteSettings
from gatepost.settings.document import Key, parse_document
from gatepost.settings.faults import Fault, render_key
from gatepost.settings.in_force import SECRET_KEYS, hide, list_values
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.recipients import RecipientRuleSettings
from gatepost.settings.values import Section, find_section, hide_credentials
from gatepost.store.publishing import DraftContent, VersionContent
from gatepost.web.setting_controls import Control, Describing, build_control, list_credentials, list_section

# What a value takes in a draft: a list of routes is one value.
MAX_VALUE = 1 << 20
MAX_POLICY = 100_000
DEPLOYMENT = ""
GUARD, ABBY = "guard.yml", "abby.yml"

PageName: TypeAlias = Literal["settings", "routes", "recipients", "flow"]


class SettingGroup(msgspec.Struct, frozen=True):
    """Settings that stand together on a page: a title, a sentence, and (file, key, label) of each."""

    page: PageName
    title: str
    about: str
    keys: tuple[tuple[str, str, str], ...]


def _of(file: str, *keys: tuple[str, str]) -> tuple[tuple[str, str, str], ...]:
    return tuple((file, key, label) for key, label in keys)


GROUPS: tuple[SettingGroup, ...] = (
    SettingGroup(
        "settings",
        "Keeping mail",
        "How long results and held messages stay, and how much room held messages may take.",
        _of(
            GUARD,
            ("history.retention", "Keep results for"),
            ("history.headers", "Keep header sections"),
            ("quarantine.retention", "Keep held messages for"),
            ("quarantine.deletedRetention", "Deleted messages can be restored for"),
            ("quarantine.maxSize", "Room for held messages"),
        ),
    ),
    SettingGroup(
        "settings",
        "Signing in",
        "Who may sign in to these pages, and with what.",
        _of(
            ABBY,
            ("publicUrl", "Address of these pages"),
            ("signIn.secondFactor", "Roles that need a second factor"),
            ("signIn.secondFactorTenants", "Tenants that need a second factor"),
            ("signIn.passwords", "Sign in with passwords"),
            ("signIn.emergencyAccount", "Emergency account"),
        ),
    ),
    SettingGroup(
        "settings",
        "Digests",
        "The daily mail to recipients. Each tenant switches it on under Digests.",
        _of(
            GUARD,
            ("publicUrl", "Address in links of mail"),
            ("digests.linkLifetime", "Links work for"),
            ("digests.maxMessages", "Messages in one digest"),
            ("digests.maxRecipients", "Digests in one run"),
            ("digests.perMinute", "Digests in a minute"),
        )
        + _of(ABBY, ("notices.perDay", "Notices to recipients of a tenant in a day")),
    ),
    SettingGroup(
        "settings",
        "Learning",
        "What reports of people and delivered mail teach.",
        _of(
            GUARD,
            ("learning.enabled", "Learn from reports"),
            ("learning.interval", "Train again after"),
            ("learning.retention", "Forget reports after"),
            ("learning.lookBack", "Look back over delivered mail"),
            ("senderHistory.enabled", "Remember senders"),
            ("senderHistory.retention", "Forget senders after"),
            ("senderHistory.minDays", "History before a sender is new"),
            ("senderHistory.minMessages", "Messages before a sender is new"),
        )
        + _of(ABBY, ("lists.lookBack", "Look back for new list entries")),
    ),
    SettingGroup(
        "settings",
        "Domain reports",
        "Reports of others on mail in the name of your domains.",
        _of(
            GUARD,
            ("domainReports.addresses", "Addresses for reports"),
            ("domainReports.domains", "Further domains"),
            ("domainReports.acceptUnproven", "Take unproven reports"),
            ("domainReports.retention", "Keep reports for"),
        ),
    ),
    SettingGroup(
        "settings",
        "Analysis",
        "How long things may take, and what is logged.",
        _of(
            GUARD,
            ("analysisTimeout", "Time for a message"),
            ("stageLimit", "Time for one stage"),
            ("dns.timeout", "Time for a DNS query"),
            ("log.level", "Log level of guard"),
        )
        + _of(ABBY, ("log.level", "Log level of abby")),
    ),
    SettingGroup(
        "routes",
        "All other mail",
        "Where mail goes that no route above is for.",
        _of(
            GUARD,
            ("delivery.nextHop", "Next hops"),
            ("delivery.tls", "TLS"),
            ("delivery.timeout", "Time for a reply"),
        ),
    ),
    SettingGroup(
        "recipients",
        "Remembered answers",
        "How long a process goes on with what it was told of a recipient.",
        _of(
            GUARD,
            ("recipientVerification.cache.knownMinutes", "Recipients that exist"),
            ("recipientVerification.cache.unknownMinutes", "Recipients that do not exist"),
            ("recipientVerification.cache.maximum", "Recipients remembered"),
        ),
    ),
    SettingGroup(
        "flow",
        "Throttling",
        "How many messages are in processing at once, and when new ones wait.",
        _of(
            GUARD,
            ("mainWorkerCount", "Messages at once"),
            ("guardRequestThrottleThreshold", "Delay new ones from"),
            ("maxGuardRequestsInProcessing", "Refuse new ones from"),
            ("maxThrottleDelay", "Longest delay"),
        ),
    ),
    SettingGroup(
        "flow",
        "SMTP port",
        "Limits on connections and messages of SMTP clients.",
        _of(
            GUARD,
            ("scanSources.smtp.maxConnections", "Connections"),
            ("scanSources.smtp.maxConnectionsPerAddress", "Connections of one address"),
            ("scanSources.smtp.reservedConnections", "Connections for own hosts"),
            ("scanSources.smtp.maxMessageSize", "Largest message"),
            ("scanSources.smtp.maxRecipients", "Recipients of a message"),
            ("scanSources.smtp.commandTimeout", "Time for a command"),
            ("scanSources.smtp.dataTimeout", "Time for a piece of a message"),
            ("scanSources.smtp.messageTimeout", "Time for a whole message"),
        ),
    ),
    SettingGroup(
        "flow",
        "Rate limits",
        "How much mail is taken in a window of time; mail above a limit is answered with 450.",
        _of(
            GUARD,
            ("flowControl.rateLimits.host", "Limit for each sending host"),
            ("flowControl.rateLimits.sender", "Limit for each sender"),
            ("flowControl.rateLimits.senderDomain", "Limit for each sender domain"),
            ("flowControl.rateLimits.recipient", "Limit for each recipient"),
            ("flowControl.unknownRecipients", "Limit on unknown recipients"),
            ("flowControl.exemptHosts", "Hosts without limits"),
        ),
    ),
    SettingGroup(
        "flow",
        "Greylisting",
        "The first attempt of an unknown sender from an unknown network is put off.",
        _of(GUARD, ("flowControl.greylisting", "Greylisting")),
    ),
)


class ItemList(msgspec.Struct, frozen=True):
    """Settings that are a list of sections, of which each has a page of its own."""

    page: PageName
    file: str
    key: str
    section: type[Section]
    one: str
    most: int


ITEMS: Mapping[str, ItemList] = {
    "routes": ItemList("routes", GUARD, "delivery.routes", RouteSettings, "route", 200),
    "recipients": ItemList("recipients", GUARD, "recipientVerification.rules", RecipientRuleSettings, "rule", 200),
}
EDITABLE: Mapping[str, tuple[str, ...]] = {
    file: (
        *(key for group in GROUPS for of, key, _ in group.keys if of == file),
        *(items.key for items in ITEMS.values() if items.file == file),
    )
    for file in (GUARD, ABBY)
}
_MODELS: Mapping[str, type[Section]] = {GUARD: GuardSettings, ABBY: AbbySettings}
# Labels of keys inside of sections and items, and of those whose name says too little.
LABELS: Mapping[str, str] = {
    **{key: label for group in GROUPS for _, key, label in group.keys},
    "domains": "Recipient domains",
    "tenants": "Tenants",
    "nextHop": "Next hops",
    "tls": "TLS",
    "timeout": "Time for a reply",
    "recipientList": "List known-recipients",
    "ldap": "LDAP directory",
    "callOut": "Ask a mail server",
    "servers": "Servers",
    "base": "Base",
    "filter": "Filter",
    "startTls": "STARTTLS",
    "verify": "Verify the certificate",
    "tagSeparator": "Sign before a tag",
    "onFailure": "Where no source answers",
    "messages": "Messages",
    "recipients": "Recipients",
    "windowMinutes": "In a window of",
    "maximum": "Unknown recipients",
    "delayMinutes": "Accept after",
    "retryHours": "Accept within",
    "passDays": "Remember for",
    "passAfter": "Senders before a whole network passes",
}


# Help for keys whose description is about how files write them.
HELPS: Mapping[str, str] = {
    "nextHop": "servers that get the mail",
    "maxThrottleDelay": "the more messages are in processing beyond the number above, the longer a new one waits, up to"
    " this",
    "guardRequestThrottleThreshold": "messages in processing from which new ones are delayed; empty is as many as"
    " messages at once",
    "maxGuardRequestsInProcessing": "messages in processing at which new ones are refused; empty is as many as messages"
    " at once",
    "mainWorkerCount": "messages that a core processes at once. Raise it where messages wait while processors are idle",
    "maxSize": "where held messages take more, SMTP answers 451 to mail that would be held",
    "passwords": "where this is off, users sign in through the OpenID provider, and the emergency account with its"
    " password",
    "emergencyAccount": "the one user whose password works although passwords are off",
    "secondFactor": "whoever has none sets it up at the next sign-in, before anything else",
    "secondFactorTenants": "users of these tenants need one, whatever their role",
    "timeout": "longer waits end the attempt",
    "domains": "*.example.com is every domain below that one",
    "tenants": "besides the domains, or instead of them",
    "recipientList": "the list known-recipients of the tenant, or the global one, knows recipients",
    "ldap": "a directory is asked whether it has an entry",
    "callOut": "a mail server is asked with RCPT; it gets no message",
    "servers": "ldap://host:port or ldaps://host:port, tried in this order",
    "host": "an IPv6 /64 counts as one host",
    "sender": "bounces are not counted",
    "senderDomain": "all senders of a domain together",
    "recipient": "for whomever the mail is",
    "unknownRecipients": "a host that tries names one after the other is answered with 421",
    "maxMessageSize": "larger messages are refused with 552",
}


class Publisher(Protocol):
    """What the service knows of versions: the content of this node's files, what is wrong with a content, and whether
    its next hops and sources of recipients answer, as rows of `gatepost doctor`. It waits for files and hosts, so it
    runs in a thread. `own_content` raises `ConfigError`."""

    def own_content(self) -> VersionContent: ...

    def find_faults(self, content: VersionContent) -> Sequence[Fault]: ...

    def try_connections(self, content: VersionContent, what: str) -> Sequence[object]: ...


class ShownGroup(msgspec.Struct, frozen=True):
    """A group of settings as a page shows it."""

    title: str
    about: str
    controls: tuple[Control, ...]


def list_groups(
    page: PageName, running: VersionContent, draft: DraftContent, said: Describing, search: str = ""
) -> list[ShownGroup]:
    """Return the groups of a page, of the files and sections that a version has; with a search, what fits it."""
    content, _ = apply_draft(running, draft)
    words = search.casefold().split()
    shown = []
    for group in GROUPS:
        if group.page != page:
            continue
        controls = []
        for file, key, label in group.keys:
            if not has_place(running, file, key):
                continue
            control = _build(file, key, label, running, content, draft, said)
            text = f"{group.title} {control.label} {control.help} {key}".casefold()
            if all(word in text for word in words):
                controls.append(control)
        if controls:
            shown.append(ShownGroup(group.title, group.about, tuple(controls)))
    return shown


def _build(
    file: str,
    key: str,
    label: str,
    running: VersionContent,
    content: VersionContent,
    draft: DraftContent,
    said: Describing,
) -> Control:
    before = look_up(running.documents[file], key)
    typed = draft.settings.get(f"{file} {key}")
    wanted = look_up(content.documents[file], key) if typed is None else _read_typed(typed)
    above = key.rpartition(".")[0]
    control = build_control(file, key, find_field(file, key), before, wanted, said)
    control = msgspec.structs.replace(control, label=label)
    section = look_up(content.documents[file], above) if above else None
    if isinstance(section, dict):
        inner = next((each for each in list_section_of(file, above, section, said) if each.key == key), None)
        if inner and inner.kind == "locked":
            return msgspec.structs.replace(inner, label=label)
    return control


def list_section_of(file: str, key: str, stated: Mapping[str, Any], said: Describing) -> Iterator[Control]:
    """Yield the controls of a section that stands in a document."""
    section = find_section(find_field(file, key).annotation)[0]
    return list_section(file, key, section, stated, stated, said, key)


def has_place(running: VersionContent, file: str, key: str) -> bool:
    """Does a version have the file and, for keys of a source of mail, the section that a key belongs to?"""
    if file not in running.documents:
        return False
    return not key.startswith("scanSources.") or isinstance(
        look_up(running.documents[file], key.rpartition(".")[0]), dict
    )


def list_items(items: ItemList, content: VersionContent) -> list[dict[str, Any]]:
    """Return the sections of a list as a content has them."""
    found = look_up(content.documents.get(items.file, {}), items.key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


# The files of policies that are not of a tenant, by the scopes that they are for.
_FILES_OF_ALL = {"policy/deployment.toml": DEPLOYMENT, "policy/outbound.toml": OUTBOUND}


def list_policies(running: VersionContent, draft: DraftContent) -> dict[str, str]:
    """Return the text of each policy, by the uid of its tenant, "" for the deployment, `OUTBOUND` for outbound mail
    where there is such."""
    found = {DEPLOYMENT: ""}
    if look_up(running.documents.get("guard.yml", {}), "scanSources.smtp.outbound") is not None:
        found[OUTBOUND] = ""
    for name, raw in running.files.items():
        if name in _FILES_OF_ALL:
            found[_FILES_OF_ALL[name]] = raw.decode("utf-8", "replace")
        elif name.startswith("policy/tenant-"):
            found[name.removeprefix("policy/tenant-").removesuffix(".toml")] = raw.decode("utf-8", "replace")
    return {**found, **draft.policies}


def _file_of(scope: str) -> str:
    return {each: name for name, each in _FILES_OF_ALL.items()}.get(scope, f"policy/tenant-{scope}.toml")


def apply_draft(running: VersionContent, draft: DraftContent) -> tuple[VersionContent, list[Fault]]:
    """Return the content that a draft makes of the running one, and the values that cannot be taken."""
    documents: dict[str, Any] = json.loads(json.dumps(running.documents))
    files, faults = dict(running.files), list[Fault]()
    for name, typed in draft.settings.items():
        file, _, key = name.partition(" ")
        if key not in EDITABLE.get(file, ()) or not has_place(running, file, key):
            continue
        value = parse_value(typed)
        if isinstance(value, _Unreadable):
            faults.append(Fault(file, 0, key, value.sentence))
        elif fault := _find_reach(value, documents[file], running.documents[file], key):
            faults.append(Fault(file, 0, key, fault))
        else:
            _put(documents[file], key.split("."), value)
    for uid, text in draft.policies.items():
        place = _file_of(uid)
        if place not in files and not text.strip():
            continue
        files[place] = text.encode("utf-8", "replace")
        # A document without policies uses those of the other one; a part of them would be a difference.
        first: dict[str, Any] = documents.get("guard.yml") or next(iter(documents.values()), {})
        stating = [each for each in documents.values() if each.get("policy")] or [first]
        for document in stating:
            section = document.setdefault("policy", {})
            if uid in (DEPLOYMENT, OUTBOUND):
                section["outbound" if uid == OUTBOUND else "file"] = place
            else:
                section.setdefault("tenants", {})[uid] = place
    return VersionContent(documents, files), faults


def build_policies(content: VersionContent) -> Policies:
    """Return the policies of a content, without the rules of the web interface; raises `PolicyError`."""
    texts = list_policies(content, DraftContent())
    deployment = unchanged_policies(_list_added(content)).deployment
    if texts[DEPLOYMENT]:
        deployment = lay_over(deployment, Layer("deployment", "the policy of the deployment", texts[DEPLOYMENT]))
    tenants = {
        uid: lay_over(deployment, Layer("deployment" if uid == OUTBOUND else "tenant", f"the policy of {uid}", text))
        for uid, text in texts.items()
        if uid and (text or uid != OUTBOUND)
    }
    return Policies(deployment, tenants)


def _list_added(content: VersionContent) -> list[AddedKinds]:
    """Return what the plug-ins of a content add to the policy; raises `PolicyError` if one is not as it should be."""
    stated: Any = next((each["plugins"] for each in content.documents.values() if each.get("plugins")), [])
    try:
        return [plugin.added for plugin in find_plugins([str(each) for each in stated])]
    except PluginError as fault:
        raise PolicyError("the configuration", [PolicyMistake(0, ("plugins",), str(fault))]) from None


def _find_reach(value: Any, document: dict[str, Any], before: Mapping[str, object], key: str) -> str:
    """Return why a value reaches further than a page may: it has a reference that the running version does not have, or
    sends credentials elsewhere."""
    known = {each for _, each in list_values(before) if isinstance(each, str)}
    if any(isinstance(each, str) and "${" in each and each not in known for _, each in list_values(value)):
        return "must not be a reference to a file or the environment here"
    tried: dict[str, Any] = json.loads(json.dumps(document))
    _put(tried, key.split("."), value)
    if set(list_credentials(tried)) - set(list_credentials(before)):
        return "would send credentials elsewhere; where credentials go along, the address is changed in the file"
    return ""


class _Unreadable(msgspec.Struct, frozen=True):
    sentence: str


def parse_value(typed: str) -> Any:
    """Return the value of a typed text, as it would be read in a file: None for an empty one, which is the default.
    Lists and sections are JSON."""
    text = typed.strip()
    if not text:
        return None
    if text[0] in '[{"':
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    document = parse_document(f"value: {' '.join(text.split())}".encode("utf-8", "replace"))
    data = document.data
    if document.mistakes or not isinstance(data, dict) or set(data) != {"value"}:
        said = document.mistakes[0].sentence if document.mistakes else "must be one value"
        return _Unreadable(said)
    return data["value"]


def _read_typed(typed: str) -> Any:
    value = parse_value(typed)
    return typed if isinstance(value, _Unreadable) else value


def render_value(value: Any) -> str:
    """Return a value as a draft has it; what `parse_value` would read as something else is JSON."""
    if isinstance(value, str) and parse_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def find_field(file: str, key: str) -> FieldInfo:
    """Return the field of a dotted key."""
    section: type[Section] | None = _MODELS[file]
    field = FieldInfo()
    for step in key.split("."):
        fields = section.model_fields.values() if section else ()
        field = next(each for each in fields if each.alias == step)
        section = find_section(field.annotation)[0]
    return field


def count_changes(running: VersionContent, draft: DraftContent) -> int:
    """Return how many things a draft changes: settings, and values of policies."""
    before = list_policies(running, DraftContent())
    changed = 0
    for uid, text in draft.policies.items():
        old, new = _flatten_policy(before.get(uid, "")), _flatten_policy(text)
        changed += sum(old.get(key) != new.get(key) for key in {*old, *new}) or int(before.get(uid, "") != text)
    return len(draft.settings) + changed


def _flatten_policy(text: str) -> dict[Key, Any]:
    try:
        return dict(list_values(load_values(text)))
    except ValueError:
        return {("text",): text}


def look_up(document: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key; None where it is not set."""
    found: Any = document
    for step in key.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _put(document: dict[str, Any], steps: list[str], value: Any) -> None:
    """Set a key, or remove it where the value is None."""
    for step in steps[:-1]:
        inner = document.get(step)
        if not isinstance(inner, dict):
            if value is None:
                return
            inner = document[step] = {}
        document = inner
    if value is None:
        document.pop(steps[-1], None)
    else:
        document[steps[-1]] = value


MAX_LINES = 2_000


class Difference(msgspec.Struct, frozen=True):
    """One key or file that differs, for people: a secret is never part of it. `lines` is the difference of a text, line
    by line."""

    file: str
    key: str = ""
    before: str = ""
    after: str = ""
    lines: tuple[str, ...] = ()


def compare(before: VersionContent, after: VersionContent) -> list[Difference]:
    """Return every key and file that differs between two contents."""
    return [*_compare_documents(before, after), *_compare_files(before, after)]


def _compare_documents(before: VersionContent, after: VersionContent) -> Iterator[Difference]:
    for name in sorted({*before.documents, *after.documents}):
        old = dict(list_values(before.documents.get(name, {})))
        new = dict(list_values(after.documents.get(name, {})))
        for key in sorted({*old, *new}, key=render_key):
            if old.get(key) != new.get(key) or (key in old) != (key in new):
                yield Difference(name, render_key(key), _render_value(key, old), _render_value(key, new))


def _render_value(key: Key, values: dict[Key, Any]) -> str:
    if key not in values:
        return "not set"
    value, names = values[key], [step for step in key if isinstance(step, str)]
    if isinstance(value, str) and names:
        is_reference = names[-1] in SECRET_KEYS and value.startswith("${")
        return hide_credentials(value) if is_reference else str(hide(names, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compare_files(before: VersionContent, after: VersionContent) -> Iterator[Difference]:
    for name in sorted({*before.files, *after.files}):
        old, new = before.files.get(name), after.files.get(name)
        if old == new:
            continue
        if name.startswith("models/"):
            yield Difference(name, "", _describe_file(old), _describe_file(new))
            continue
        lines = difflib.unified_diff(_split_lines(old), _split_lines(new), "before", "after", lineterm="", n=2)
        shown = [line for _, line in zip(range(MAX_LINES), lines, strict=False)]
        yield Difference(name, "", _describe_file(old), _describe_file(new), tuple(shown))


def _split_lines(raw: bytes | None) -> list[str]:
    return (raw or b"").decode("utf-8", "replace").splitlines()


def _describe_file(raw: bytes | None) -> str:
    return "not there" if raw is None else f"{len(raw)} bytes"
