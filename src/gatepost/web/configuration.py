"""The draft of a configuration: the settings that pages change, and the version that it would make; differences of
versions.

Pages change policies and the settings that have a label (`settings/values.py`). Paths of files and references to
secrets are left to the files. Next hops can be changed, but not where credentials go along: whoever may change both a
secret's reference and the host that it is sent to could read every secret of the server. Whatever a draft does not name
stays as it is.
"""

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace
from pydantic.fields import FieldInfo

from gatepost.plugins import PluginError, find_plugins
from gatepost.policy.layers import OUTBOUND, Layer, Policies, lay_over, load_values, unchanged_policies
from gatepost.policy.rules import AddedKinds, PolicyError, PolicyMistake
from gatepost.process.hiding import hide
from gatepost.settings.document import Key, parse_document
from gatepost.settings.faults import Fault, render_key
from gatepost.settings.files import list_values
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import FormGroup, Section, list_form_keys
from gatepost.store.publishing import DraftContent, VersionContent
from gatepost.web.setting_controls import Control, Describing, build_control, list_credentials

# What a value takes in a draft: a list of routes is one value.
MAX_VALUE = 1 << 20
MAX_POLICY = 100_000
DEPLOYMENT = ""

_MODELS: Mapping[str, type[Section]] = {"guard.yml": GuardSettings, "abby.yml": AbbySettings}


class Setting(msgspec.Struct, frozen=True):
    """A key of a file that pages change."""

    file: str
    key: str
    field: FieldInfo
    form: FormGroup

    @property
    def name(self) -> str:
        """How drafts and forms name it."""
        return f"{self.file} {self.key}"

    def find_section(self, content: VersionContent) -> Mapping[str, Any]:
        """Return the section of a content that it stands in."""
        above = self.key.rpartition(".")[0]
        found = look_up(content.documents[self.file], above) if above else content.documents[self.file]
        return found if isinstance(found, dict) else {}

    def find_value(self, content: VersionContent) -> Any:
        """Return its value in a content; None where it is not set."""
        return self.find_section(content).get(str(self.field.alias))


def list_settings(running: VersionContent) -> dict[str, Setting]:
    """Return what pages change of the files and sections that a version has, by name."""
    found = [
        Setting(file, key, field, form)
        for file, model in _MODELS.items()
        if file in running.documents
        for key, field, form in list_form_keys(model, running.documents[file])
    ]
    return {each.name: each for each in found}


class Publisher(Protocol):
    """What the service knows of versions: the content of this node's files, what is wrong with a content, and whether
    its next hops answer, as rows of `gatepost doctor`. It waits for files and hosts, so it
    runs in a thread. `own_content` raises `ConfigError`."""

    def own_content(self) -> VersionContent: ...

    def find_faults(self, content: VersionContent) -> Sequence[Fault]: ...

    def try_connections(self, content: VersionContent) -> Sequence[object]: ...


class ShownGroup(msgspec.Struct, frozen=True):
    """A group of settings as a page shows it."""

    title: str
    about: str
    controls: tuple[Control, ...]


def list_groups(
    page: str, running: VersionContent, draft: DraftContent, said: Describing, search: str = ""
) -> list[ShownGroup]:
    """Return the groups of a page, of the files and sections that a version has; with a search, what fits it."""
    content, _ = apply_draft(running, draft)
    words = search.casefold().split()
    settings = list_settings(running).values()
    shown = []
    for group in FormGroup:
        if group.page != page:
            continue
        controls = [_build(each, running, content, draft, said) for each in settings if each.form is group]
        labels = Counter(each.label for each in controls)
        for index, each in enumerate(controls):
            if labels[each.label] > 1:
                controls[index] = replace(each, label=f"{each.label} in {each.name.partition(' ')[0]}")
        fitting = [
            each
            for each in controls
            if all(word in f"{group.title} {each.label} {each.help} {each.key}".casefold() for word in words)
        ]
        if fitting:
            shown.append(ShownGroup(group.title, group.about, tuple(fitting)))
    return shown


def _build(
    setting: Setting, running: VersionContent, content: VersionContent, draft: DraftContent, said: Describing
) -> Control:
    typed = draft.settings.get(setting.name)
    read = setting.find_value(content) if typed is None else parse_value(typed)
    wanted = typed if isinstance(read, _Unreadable) else read
    beside = setting.find_section(content)
    return build_control(setting.file, setting.key, setting.field, setting.find_value(running), beside, wanted, said)


# The files of policies that are not of a tenant, and the scopes that they are for.
_SCOPES = {"policy/deployment.toml": DEPLOYMENT, "policy/outbound.toml": OUTBOUND}
_FILES = {scope: name for name, scope in _SCOPES.items()}


def list_policies(running: VersionContent, draft: DraftContent) -> dict[str, str]:
    """Return the text of each policy, by the uid of its tenant, "" for the deployment, `OUTBOUND` for outbound mail
    where there is such."""
    found = {DEPLOYMENT: ""}
    if look_up(running.documents.get("guard.yml", {}), "scanSources.smtp.outbound") is not None:
        found[OUTBOUND] = ""
    for name, raw in running.files.items():
        if name in _SCOPES:
            found[_SCOPES[name]] = raw.decode("utf-8", "replace")
        elif name.startswith("policy/tenant-"):
            found[name.removeprefix("policy/tenant-").removesuffix(".toml")] = raw.decode("utf-8", "replace")
    return {**found, **draft.policies}


def apply_draft(running: VersionContent, draft: DraftContent) -> tuple[VersionContent, list[Fault]]:
    """Return the content that a draft makes of the running one, and the values that cannot be taken."""
    documents: dict[str, Any] = json.loads(json.dumps(running.documents))
    files, faults = dict(running.files), list[Fault]()
    settings = list_settings(running)
    for name, typed in draft.settings.items():
        if name not in settings:
            continue
        file, key, value = settings[name].file, settings[name].key, parse_value(typed)
        if isinstance(value, _Unreadable):
            faults.append(Fault(file, 0, key, value.sentence))
        elif fault := _find_reach(value, documents[file], running.documents[file], key):
            faults.append(Fault(file, 0, key, fault))
        else:
            _put(documents[file], key.split("."), value)
    for uid, text in draft.policies.items():
        place = _FILES.get(uid, f"policy/tenant-{uid}.toml")
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


def render_value(value: Any) -> str:
    """Return a value as a draft has it; what `parse_value` would read as something else is JSON."""
    if isinstance(value, str) and parse_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


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
    value = hide(values[key], key)
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
