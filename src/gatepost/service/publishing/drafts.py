"""What the pages of the web interface need to know of versions, which are files of this node.

A draft begins with the running version, or with this node's files where nothing was published yet. Tokens of the Email
Scanning API that stand in clear in these files become their hashes: a version holds no secret, and whoever has a token
can go on using it.
"""

import copy
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.publishing.differences import Difference, compare
from gatepost.service.publishing.version import check_files, digest_content, read_content, write_folder
from gatepost.settings.faults import ConfigError, Fault
from gatepost.store.publishing import VersionContent

# Who reads a hash must not be able to guess the token: 16 random bytes in hex have as many characters.
MIN_TOKEN = 32


class NodePublisher:
    """The functions of publishing over the files of one node; `local` is the folder of its own files."""

    def __init__(self, local: Path, data: DataFolder) -> None:
        self._local, self._data = local, data

    def own_content(self) -> VersionContent:
        """Return what a version of this node's files would hold; raises `ConfigError`."""
        return read_content(self._local, self._data, None, prepare=hash_tokens)

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

    def compare(self, before: VersionContent, after: VersionContent) -> Sequence[Difference]:
        """Return what differs between two contents."""
        return compare(before, after)

    def digest(self, content: VersionContent) -> str:
        """Return what tells one content from another."""
        return digest_content(content)


def hash_tokens(name: str, shared: dict[str, Any]) -> dict[str, Any]:
    """Return a document whose long tokens are hashes; short ones stay, and are a fault of the version."""
    tokens = shared.get("staticApiTokens")
    if name != "abby.yml" or not isinstance(tokens, list):
        return shared
    return {**shared, "staticApiTokens": [_hash_token(copy.copy(each)) for each in tokens]}


def _hash_token(entry: Any) -> Any:
    token = entry.get("token") if isinstance(entry, dict) else None
    if isinstance(token, str) and "${" not in token and len(token) >= MIN_TOKEN:
        del entry["token"]
        entry["tokenHash"] = hashlib.sha256(token.encode()).hexdigest()
    return entry


def _shorten(fault: Fault, folder: Path) -> Fault:
    """Return a fault with the name of its file instead of a path that is gone already."""
    try:
        file = str(Path(fault.file).relative_to(folder))
    except ValueError:
        file = fault.file
    return Fault(file, 0, fault.key, fault.sentence)
