"""The draft of a configuration: which settings pages may change, and the version that it would make; differences of
versions.

Pages change policies and the settings of `EDITABLE`: numbers, switches and times. Paths, addresses of other hosts and
references to secrets are left to the files, as with feeds: whoever may change both a secret's reference and the host
that it is sent to could read every secret of the server. Whatever a draft does not name stays as it is.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gatepost.plugins import PluginError, find_plugins
from gatepost.policy.layers import OUTBOUND, Layer, Policies, lay_over, unchanged_policies
from gatepost.policy.rules import AddedKinds, PolicyError, PolicyMistake
from gatepost.settings.document import Key, parse_document
from gatepost.settings.faults import Fault, render_key
from gatepost.settings.in_force import SECRET_KEYS, hide, list_values
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import hide_credentials
from gatepost.store.publishing import DraftContent, VersionContent

MAX_VALUE = 500
MAX_POLICY = 100_000
DEPLOYMENT = ""
EDITABLE: Mapping[str, tuple[str, ...]] = {
    "guard.yml": (
        *("history.retention", "history.headers"),
        *("quarantine.retention", "quarantine.deletedRetention", "quarantine.maxSize"),
        *("senderHistory.enabled", "senderHistory.retention", "senderHistory.minDays", "senderHistory.minMessages"),
        *("mainWorkerCount", "maxGuardRequestsInProcessing", "guardRequestThrottleThreshold", "maxThrottleDelay"),
        *("analysisTimeout", "stageLimit", "dns.timeout", "log.level"),
    ),
    "abby.yml": (
        *("publicUrl", "signIn.secondFactor", "signIn.secondFactorTenants"),
        *("signIn.passwords", "signIn.emergencyAccount", "log.level"),
    ),
}
_MODELS: Mapping[str, type[BaseModel]] = {"guard.yml": GuardSettings, "abby.yml": AbbySettings}


class Publisher(Protocol):
    """What the service knows of versions: the content of this node's files, and what is wrong with a content. Files are
    read, so both run in a thread. `own_content` raises `ConfigError`."""

    def own_content(self) -> VersionContent: ...

    def find_faults(self, content: VersionContent) -> Sequence[Fault]: ...


class SettingRow(msgspec.Struct, frozen=True):
    """One setting as the page shows it; values are texts, "" where it is not set."""

    file: str
    key: str
    description: str
    default: str
    running: str
    typed: str
    choices: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its field in the form."""
        return f"{self.file} {self.key}"


def list_settings(running: VersionContent, draft: DraftContent, faults: Sequence[Fault]) -> list[SettingRow]:
    """Return a row for every setting that pages may change, of the files that a version has."""
    rows = []
    for file, keys in EDITABLE.items():
        if file not in running.documents:
            continue
        for key in keys:
            field, default = _find_field(_MODELS[file], key)
            value = _look_up(running.documents[file], key)
            shown = "" if value is None else render_value(value)
            name = f"{file} {key}"
            wrong = tuple(each.sentence for each in faults if _is_about(each, file, key))
            typed = draft.settings.get(name, shown)
            rows.append(SettingRow(file, key, field.description or "", default, shown, typed, _choices(field), wrong))
    return rows


# The files of policies that are not of a tenant, by the scopes that they are for.
_FILES_OF_ALL = {"policy/deployment.toml": DEPLOYMENT, "policy/outbound.toml": OUTBOUND}


def list_policies(running: VersionContent, draft: DraftContent) -> dict[str, str]:
    """Return the text of each policy, by the uid of its tenant, "" for the deployment, `OUTBOUND` for outbound mail
    where there is such."""
    found = {DEPLOYMENT: ""}
    if _look_up(running.documents.get("guard.yml", {}), "scanSources.smtp.outbound") is not None:
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
    """Return the content that a draft makes of the running one, and the values that cannot be read."""
    documents: dict[str, Any] = json.loads(json.dumps(running.documents))
    files, faults = dict(running.files), list[Fault]()
    for name, typed in draft.settings.items():
        file, _, key = name.partition(" ")
        if key not in EDITABLE.get(file, ()) or file not in documents:
            continue
        value = parse_value(typed)
        if isinstance(value, _Unreadable):
            faults.append(Fault(file, 0, key, value.sentence))
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


class _Unreadable(msgspec.Struct, frozen=True):
    sentence: str


def parse_value(typed: str) -> Any:
    """Return the value of a typed text, as it would be read in a file: None for an empty one, which is the default."""
    text = " ".join(typed.split())
    if not text:
        return None
    document = parse_document(f"value: {text}".encode("utf-8", "replace"))
    data = document.data
    if document.mistakes or not isinstance(data, dict) or set(data) != {"value"}:
        said = document.mistakes[0].sentence if document.mistakes else "must be one value"
        return _Unreadable(said)
    if isinstance(data["value"], str) and "${" in data["value"]:
        return _Unreadable("must not be a reference to a file or the environment here")
    return data["value"]


def render_value(value: Any) -> str:
    """Return a value as it is typed; what `parse_value` would read as something else is quoted."""
    if isinstance(value, str) and parse_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_about(fault: Fault, file: str, key: str) -> bool:
    return fault.file.endswith(file) and (fault.key == key or fault.key.startswith((f"{key}.", f"{key}[")))


def _find_field(model: type[BaseModel], key: str) -> tuple[FieldInfo, str]:
    """Return the field of a dotted key, and its default as text."""
    inner: Any = model
    default: Any = None
    field = FieldInfo()
    for step in key.split("."):
        field = next(each for each in inner.model_fields.values() if each.alias == step)
        default = field.get_default(call_default_factory=True, validated_data={})
        inner = field.annotation
    return field, "" if default is None else render_value(default)


def _choices(field: FieldInfo) -> tuple[str, ...]:
    if field.annotation is bool:
        return ("true", "false")
    values = getattr(field.annotation, "__args__", ())
    return values if values and all(isinstance(each, str) for each in values) else ()


def _look_up(document: Mapping[str, Any], key: str) -> Any:
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
