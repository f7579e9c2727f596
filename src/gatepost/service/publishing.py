"""Published versions of the configuration: what they hold, and which one a node runs.

A version is read and checked from the files of one machine, and written out as files for another. It has the two files
without their local keys (`settings/values.py`), and the policies, rules and models that they name. It holds no
secret: a secret key must be a reference (`${env:…}`, `${file:…}`), which each node resolves. On a node, the files of a
version and the local keys of the node's own files make a folder that is read as any other.

The folder of a version is complete before it is named, and the name is replaced in one step. How a node takes a version
over is in `changes`, and how nodes do so one after the other in `rollout`.
"""

import copy
import hashlib
import json
import re
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gatepost.plugins import PluginError, find_code_fault, pin_plugins
from gatepost.process.hiding import hide
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.doctor.rows import read_files
from gatepost.settings import files
from gatepost.settings.document import Document, Key, parse_document, rename_keys
from gatepost.settings.faults import ConfigError, Fault, render_key
from gatepost.settings.files import list_values
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.scan_sources import ASKERS
from gatepost.settings.values import Section, is_local
from gatepost.store.publishing import VersionContent

MAX_BYTES = 64 << 20
# Who reads a hash must not be able to guess the token: 16 random bytes in hex have as many characters.
MIN_TOKEN = 32
RULE_ENDINGS = frozenset({".yar", ".yara"})
DOCUMENTS: dict[str, tuple[Path, type[Section]]] = {
    "guard.yml": (files.GUARD_FILE, GuardSettings),
    "abby.yml": (files.ABBY_FILE, AbbySettings),
}
CONTENT = "version.bin"
# Sections that are off where they are not written.
SWITCHES = frozenset({"scanSources.restApi", "scanSources.smtp", "clamd", *(f"scanSources.{name}" for name in ASKERS)})
# Where a text is the path of a file, relative to the folder of its configuration file.
PATH_KEYS = frozenset({"ca", "certificate", "file"})
KEY_FILES = frozenset({("tls", "key"), ("delivery", "key")})

_REFERENCE = re.compile(r"\$\{(?:env|file):[^{}]*+\}")
_FILE_REFERENCE = re.compile(r"\$\{file:([^{}]*+)\}")
_HINT = (
    "is a secret in clear, which a published version may not hold: write it into a file or the environment of every"
    " node, and here ${file:/path} or ${env:NAME}"
)


def read_content(
    folder: Path, data: DataFolder, before: VersionContent | None, *, hashes_tokens: bool = False
) -> VersionContent:
    """Read and check everything that a version of these files would hold; raises `ConfigError`.

    A file that is not there is taken from the version before, so that each service can be published from its machine.
    With `hashes_tokens`, tokens of the Email Scanning API that stand in clear become their hashes before secrets are
    looked for: who has a token can go on using it.
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
        shared = _pin_plugins(path, _take_shared(model, document.data, ()))
        if hashes_tokens and isinstance(tokens := shared.get("staticApiTokens"), list):
            shared["staticApiTokens"] = [_hash_token(copy.copy(each)) for each in tokens]
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


def _pin_plugins(path: Path, shared: dict[str, Any]) -> dict[str, Any]:
    """Return a document that names its plug-ins with the versions of this machine: a node with others refuses it."""
    try:
        return {**shared, "plugins": pin_plugins(shared["plugins"])} if shared.get("plugins") else shared
    except PluginError as fault:
        raise ConfigError([Fault(str(path), 0, "plugins", str(fault))]) from None


def _hash_token(entry: Any) -> Any:
    """Return an entry of `staticApiTokens` with the hash of its token; a short one stays, and is a fault."""
    token = entry.get("token") if isinstance(entry, dict) else None
    if isinstance(token, str) and "${" not in token and len(token) >= MIN_TOKEN:
        del entry["token"]
        entry["tokenHash"] = hashlib.sha256(token.encode()).hexdigest()
    return entry


def check_files(folder: Path) -> dict[str, Section]:
    """Check all that `gatepost config check` checks; returns the settings of each file that is there, by its name."""
    read = read_files(folder)
    # A child process loads the checks of plug-ins.
    if read.guard and (fault := find_code_fault(read.guard.plugins)):
        raise ConfigError([Fault(files.GUARD_FILE.name, 0, "plugins", fault)])
    found = {files.GUARD_FILE.name: read.guard, files.ABBY_FILE.name: read.abby}
    return {name: settings for name, settings in found.items() if settings}


def _list_models(data: DataFolder) -> list[Path]:
    return sorted(path for path in data.models.glob("*.npz") if path.is_file())


def _take_shared(model: type[Section], data: Any, above: Key) -> dict[str, Any]:
    """Return the keys of a document that are not local."""
    return {
        str(key): _take_shared(model, value, (*above, key)) if isinstance(value, dict) else value
        for key, value in data.items()
        if not is_local(model, render_key((*above, key)))
    }


def _take_local(model: type[Section], data: Any, above: Key) -> dict[str, Any]:
    """Return the keys of a document that are local, with the sections above them."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        if is_local(model, render_key((*above, key))):
            found[str(key)] = value
        elif isinstance(value, dict) and (inner := _take_local(model, value, (*above, key))):
            found[str(key)] = inner
    return found


def find_secrets(file: str, document: Document, shared: dict[str, Any]) -> list[Fault]:
    """Return a fault for every secret that stands in clear among the keys of a version."""
    faults = []
    for key, value in list_values(shared):
        # Most feeds are public: a path alone is no secret.
        steps = [step for step in key if step != "feeds"]
        if hide(value, steps) != value or hide(steps) != steps:
            faults.append(Fault(file, document.line_of(key), render_key(key), _HINT))
    return faults


def _collect_files(folder: Path, shared: dict[str, Any]) -> dict[str, bytes]:
    """Return the policies and rules that a document names, and name them in it by their places in the version."""
    found: dict[str, bytes] = {}
    policy = shared.get("policy")
    if isinstance(policy, dict):
        policy = shared["policy"] = dict(policy)
        for key, place in (("file", "policy/deployment.toml"), ("outbound", "policy/outbound.toml")):
            if file := policy.get(key):
                found[place] = Path(folder, file).expanduser().read_bytes()
                policy[key] = place
        tenants = {}
        for uid, file in (policy.get("tenants") or {}).items():
            tenants[uid] = f"policy/tenant-{str(uid).lower()}.toml"
            found[tenants[uid]] = Path(folder, file).expanduser().read_bytes()
        if tenants:
            policy["tenants"] = tenants
    rules = shared.get("yara")
    if isinstance(rules, dict) and rules.get("folder"):
        own = Path(folder, rules["folder"]).expanduser()
        for path in sorted(each for each in own.iterdir() if each.suffix in RULE_ENDINGS):
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


def copy_files(local: Path, place: Path) -> Path:
    """Copy a node's own files with the policies and rules that they name; raises `ConfigError`, `StartError`."""
    documents: dict[str, dict[str, object]] = {}
    contents: dict[str, bytes] = {}
    try:
        for name, (path, model) in DOCUMENTS.items():
            if (local / path).exists():
                document = rename_keys(parse_document((local / path).read_bytes()), model.old_names)
                documents[name] = dict(document.data or {})
                contents |= _collect_files((local / path).parent, documents[name])
    except OSError as fault:
        raise StartError(f"{local} cannot be read: {(fault.strerror or str(fault)).lower()}.") from None
    return write_folder(VersionContent(documents, contents), 0, local, place)


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
    merged: dict[str, Any] = _merge(shared, _take_local(DOCUMENTS[name][1], mine, ()), "")
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
    is_path = key and (key[-1] in PATH_KEYS or key in KEY_FILES) and "://" not in value
    return str(Path(folder, value).expanduser()) if is_path and "${" not in value else value


class NodePublisher:
    """What the pages of the web interface need to know of versions, which are files of this node; `local` is the folder
    of its own files. A draft begins with the running version, or with these files where nothing was published yet."""

    def __init__(self, local: Path, data: DataFolder) -> None:
        self._local, self._data = local, data

    def own_content(self) -> VersionContent:
        """Return what a version of this node's files would hold; raises `ConfigError`."""
        return read_content(self._local, self._data, None, hashes_tokens=True)

    def find_faults(self, content: VersionContent) -> Sequence[Fault]:
        """Return what is wrong with a content on this node, with its local keys and its secrets."""
        try:
            with tempfile.TemporaryDirectory(prefix="gatepost-draft-") as place:
                folder = write_folder(content, 0, self._local, Path(place))
                try:
                    check_files(folder)
                except ConfigError as fault:
                    return [_shorten(each, folder) for each in fault.faults]
        except (StartError, OSError) as fault:
            return [Fault("the draft", 0, "", f"cannot be checked: {fault}")]
        return []

    def try_connections(self, content: VersionContent) -> Sequence[object]:
        """Return whether the next hops of a content answer, seen from this node."""
        from gatepost.service.doctor.mail_path import check_next_hops

        with tempfile.TemporaryDirectory(prefix="gatepost-draft-") as place:
            folder = write_folder(content, 0, self._local, Path(place))
            guard = files.read_settings(folder / files.GUARD_FILE, GuardSettings)
            return tuple(check_next_hops(guard, datetime.now(UTC))) if guard else ()


def _shorten(fault: Fault, folder: Path) -> Fault:
    """Return a fault with the name of its file instead of a path that is gone already."""
    try:
        file = str(Path(fault.file).relative_to(folder))
    except ValueError:
        file = fault.file
    return Fault(file, 0, fault.key, fault.sentence)
