"""The content of a version: read and checked from the files of one machine, and written out as files for another.

A version has the two files without their local keys (`settings/key_scopes.py`), and the policies, rules and models that
they name. It holds no secret: a secret key must be a reference (`${env:…}`, `${file:…}`), which each node resolves.
On a node, the files of a version and the local keys of the node's own files make a folder that is read as any other.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings import files
from gatepost.settings.document import Document, Key, parse_document, rename_keys
from gatepost.settings.faults import ConfigError, Fault, render_key
from gatepost.settings.in_force import SECRET_KEYS
from gatepost.settings.key_scopes import is_local
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.section import Section
from gatepost.settings.values import hide_credentials, hide_path
from gatepost.store.publishing import VersionContent

MAX_BYTES = 64 << 20
MODEL_NAMES = ("*.npz", "marked.json")
RULE_ENDINGS = frozenset({".yar", ".yara"})
DOCUMENTS: dict[str, tuple[Path, type[Section]]] = {
    "guard.yml": (files.GUARD_FILE, GuardSettings),
    "abby.yml": (files.ABBY_FILE, AbbySettings),
}
CONTENT = "version.bin"
# Sections that are off where they are not written.
SWITCHES = frozenset({"scanSources.restApi", "scanSources.smtp", "scanSources.milter", "clamd"})
# Where a text is the path of a file, relative to the folder of its configuration file.
PATH_KEYS = frozenset({"ca", "certificate", "file"})

_REFERENCE = re.compile(r"\$\{(?:env|file):[^{}]*+\}")
_FILE_REFERENCE = re.compile(r"\$\{file:([^{}]*+)\}")
_HINT = (
    "is a secret in clear, which a published version may not hold: write it into a file or the environment of every"
    " node, and here ${file:/path} or ${env:NAME}"
)


Prepare: TypeAlias = Callable[[str, dict[str, Any]], dict[str, Any]]


def _unchanged(_name: str, shared: dict[str, Any]) -> dict[str, Any]:
    return shared


def read_content(
    folder: Path, data: DataFolder, before: VersionContent | None, prepare: Prepare = _unchanged
) -> VersionContent:
    """Read and check everything that a version of these files would hold; raises `ConfigError`.

    A file that is not there is taken from the version before, so that each service can be published from its machine.
    `prepare` may change the document of a file, by its name, before secrets are looked for.
    """
    check_files(folder)
    documents: dict[str, dict[str, object]] = {}
    contents: dict[str, bytes] = {}
    faults: list[Fault] = []
    for name, (place, model) in DOCUMENTS.items():
        path = folder / place
        if not path.exists():
            if before and name in before.documents:
                documents[name] = before.documents[name]
                contents |= {each: raw for each, raw in before.files.items() if not each.startswith("models/")}
            continue
        document = rename_keys(parse_document(path.read_bytes()), model.old_names)
        shared = prepare(name, _take_shared(name, document.data, ()))
        faults += find_secrets(str(path), document, shared)
        contents |= _collect_files(path.parent, shared)
        documents[name] = shared
    contents |= {f"models/{each.name}": each.read_bytes() for each in _list_models(data)}
    size = sum(map(len, contents.values()))
    if size > MAX_BYTES:
        faults.append(Fault(str(folder), 0, "", f"has {size >> 20} MiB of policies, rules and models; 64 MiB can be"))
    if faults:
        raise ConfigError(faults)
    return VersionContent(documents, contents)


def digest_content(content: VersionContent) -> str:
    """Return what tells one content from another."""
    return hashlib.sha256(msgspec.msgpack.encode(content, order="deterministic")).hexdigest()


def check_files(folder: Path) -> None:
    """Check all that `gatepost config check` checks."""
    has_guard, has_abby = (folder / files.GUARD_FILE).exists(), (folder / files.ABBY_FILE).exists()
    if has_guard == has_abby:
        files.load(folder, certificates=True)
    elif has_guard:
        files.load_guard(folder, certificates=True)
    else:
        files.load_abby(folder, certificates=True)


def _list_models(data: DataFolder) -> list[Path]:
    return sorted(path for pattern in MODEL_NAMES for path in data.models.glob(pattern) if path.is_file())


def _take_shared(name: str, data: Any, above: Key) -> dict[str, Any]:
    """Return the keys of a document that are not local."""
    return {
        str(key): _take_shared(name, value, (*above, key)) if isinstance(value, dict) else value
        for key, value in data.items()
        if not is_local(name, render_key((*above, key)))
    }


def _take_local(name: str, data: Any, above: Key) -> dict[str, Any]:
    """Return the keys of a document that are local, with the sections above them."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        if is_local(name, render_key((*above, key))):
            found[str(key)] = value
        elif isinstance(value, dict) and (inner := _take_local(name, value, (*above, key))):
            found[str(key)] = inner
    return found


def find_secrets(file: str, document: Document, shared: dict[str, Any]) -> list[Fault]:
    """Return a fault for every secret that stands in clear among the keys of a version."""
    faults = []
    for key, value in _walk(shared, ()):
        names = [step for step in key if isinstance(step, str)]
        if not names or not isinstance(value, str):
            continue
        rest = _REFERENCE.sub("", value)
        is_secret = names[-1] in SECRET_KEYS
        is_hook = names[-1] == "url" and ("webhook" in names or "webhooks" in names) and hide_path(rest) != rest
        if rest.strip() and (is_secret or is_hook or hide_credentials(rest) != rest):
            faults.append(Fault(file, document.line_of(key), render_key(key), _HINT))
    return faults


def _walk(data: Any, above: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _walk(value, (*above, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _walk(value, (*above, index))
    else:
        yield above, data


def _collect_files(folder: Path, shared: dict[str, Any]) -> dict[str, bytes]:
    """Return the policies and rules that a document names, and name them in it by their places in the version."""
    found: dict[str, bytes] = {}
    policy = shared.get("policy")
    if isinstance(policy, dict):
        policy = shared["policy"] = dict(policy)
        if file := policy.get("file"):
            found["policy/deployment.toml"] = Path(folder, file).expanduser().read_bytes()
            policy["file"] = "policy/deployment.toml"
        if file := policy.get("outbound"):
            found["policy/outbound.toml"] = Path(folder, file).expanduser().read_bytes()
            policy["outbound"] = "policy/outbound.toml"
        tenants = {}
        for uid, file in (policy.get("tenants") or {}).items():
            tenants[uid] = f"policy/tenant-{str(uid).lower()}.toml"
            found[tenants[uid]] = Path(folder, file).expanduser().read_bytes()
        if tenants:
            policy["tenants"] = tenants
    rules = shared.get("yara")
    if isinstance(rules, dict) and rules.get("folder"):
        place = Path(folder, rules["folder"]).expanduser()
        for path in sorted(each for each in place.iterdir() if each.suffix in RULE_ENDINGS):
            found[f"rules/{path.name}"] = path.read_bytes()
        shared["yara"] = {**rules, "folder": "rules"}
    return found


def write_folder(content: VersionContent, number: int, local: Path, place: Path) -> Path:
    """Write a version with the local keys of this node as a folder that services read, and return it.

    Every call makes a folder of its own, so that one in use never changes; raises `StartError`.
    """
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = Path(tempfile.mkdtemp(dir=place, prefix=f"{number}-"))
        for name, raw in content.files.items():
            if ".." in Path(name).parts or Path(name).is_absolute():
                raise StartError(f"Version {number} has a file with a bad name and is not used.")
            (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (target / name).write_bytes(raw)
        for name, (path, _) in DOCUMENTS.items():
            own = local / path
            if name in content.documents or own.exists():
                (target / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                text = json.dumps(_lay_over(name, content, own, target), ensure_ascii=False, indent=1)
                (target / path).write_text(text, "utf-8")
        (target / CONTENT).write_bytes(msgspec.msgpack.encode(content))
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise StartError(f"Version {number} cannot be written to {place}: {reason}.") from None
    return target


def renew_folder(folder: Path, number: int, local: Path) -> Path:
    """Write the version of a folder once more, with the local keys as they are now; raises `StartError`."""
    try:
        content = msgspec.msgpack.decode((folder / CONTENT).read_bytes(), type=VersionContent)
    except (OSError, msgspec.DecodeError):
        raise StartError(f"{folder}, where version {number} was written to, cannot be read.") from None
    return write_folder(content, number, local, folder.parent)


def _lay_over(name: str, content: VersionContent, own: Path, target: Path) -> dict[str, Any]:
    """Return a document of a version with the local keys of a node's own file, all paths absolute."""
    found = parse_document(own.read_bytes()).data if own.exists() else {}
    mine = _make_absolute(found if isinstance(found, dict) else {}, own.parent, ())
    if name not in content.documents:
        return dict(mine)
    shared = _make_absolute(dict(content.documents[name]), own.parent, ())
    for section, key in (("policy", "file"), ("policy", "outbound"), ("yara", "folder")):
        if isinstance(shared.get(section), dict) and (given := content.documents[name].get(section)):
            named = given.get(key) if isinstance(given, dict) else None
            if named:
                shared[section][key] = str(target / named)
    if isinstance(policy := shared.get("policy"), dict) and policy.get("tenants"):
        policy["tenants"] = {uid: str(target / file) for uid, file in policy["tenants"].items()}
    merged: dict[str, Any] = _merge(shared, _take_local(name, mine, ()), "")
    return merged


def _merge(base: Any, over: Any, above: str) -> Any:
    """Return sections with the keys of another one laid over them. A section that switches something on is not added:
    whether it is on, the version says."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    merged = dict(base)
    for key, value in over.items():
        path = f"{above}{key}"
        if key in base:
            merged[key] = _merge(base[key], value, f"{path}.")
        elif path not in SWITCHES:
            merged[key] = value
    return merged


def _make_absolute(value: Any, folder: Path, key: Key) -> Any:
    """Return data whose paths and file references do not depend on the folder that it is read from."""
    if isinstance(value, dict):
        return {name: _make_absolute(inner, folder, (*key, name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [_make_absolute(inner, folder, (*key, index)) for index, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    if "${file:" in value:
        return _FILE_REFERENCE.sub(
            lambda found: f"${{file:{Path(folder, found.group(1).strip()).expanduser()}}}", value
        )
    is_path = key and (key[-1] in PATH_KEYS or key == ("tls", "key")) and "://" not in value
    return str(Path(folder, value).expanduser()) if is_path and "${" not in value else value
