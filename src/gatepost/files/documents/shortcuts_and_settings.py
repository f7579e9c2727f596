"""Files that a computer or a program obeys: shortcuts, and settings that connect it to something or start something.

A shortcut gives any command or address a name and an icon (.lnk, .url, and those of macOS). Of settings, the tables say
which programs take which file. Connections go by the name of the file, since their programs do. Commands are looked for
where a program runs them by itself: when a folder is opened, a project built, a session begun.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from html import unescape
from itertools import islice

import msgspec

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.script_strings import expand_commands
from gatepost.files.file_types import find_last_extensions
from gatepost.files.values import File

MAX_STRING = 32_768
HAS_ID_LIST, HAS_LINK_INFO, IS_UNICODE = 0x01, 0x02, 0x80
_STRINGS = ((0x04, "name"), (0x08, "target"), (0x10, "folder"), (0x20, "arguments"), (0x40, "icon"))
_URL = re.compile(r"^[ \t]*(?:BASE)?URL[ \t]*=[ \t]*([^\r\n]{1,4096})", re.IGNORECASE | re.MULTILINE)
_ICON = re.compile(
    r"^[ \t]*(?:IconFile|IconResource|WorkingDirectory|LocalizedResourceName)[ \t]*=[ \t]*([^\r\n]{1,1024})",
    re.IGNORECASE | re.MULTILINE,
)
_LIST_ADDRESS = re.compile(r"(?:https?|ftps?|file|smb|afp|nfs|vnc|ssh):/{0,5}[^\s<>\"\x00-\x1f]{3,2000}", re.IGNORECASE)
_PROPERTY_LISTS = frozenset({"webloc", "inetloc", "fileloc", "afploc", "ftploc", "mailloc"})
MAX_ADDRESSES = 20
_SHARE = re.compile(r"(?:file:)?[\\/]{2,5}[^\\/]", re.IGNORECASE)


def inspect_shortcut(builder: ContentsBuilder) -> None:
    """Add target and arguments of a .lnk file (MS-SHLLINK)."""
    content = builder.file.content
    flags = int.from_bytes(content[20:24], "little")
    place = 76
    if flags & HAS_ID_LIST:
        place += 2 + int.from_bytes(content[place : place + 2], "little")
    target = ""
    if flags & HAS_LINK_INFO:
        size = int.from_bytes(content[place : place + 4], "little")
        target = _find_local_path(content[place : place + min(size, MAX_STRING)])
        place += size
    found = _read_strings(content, place, flags)
    command = " ".join(part for part in (target or found.get("target", ""), found.get("arguments", "")) if part)
    builder.add_trait("shortcut", command)
    if found.get("arguments"):
        builder.add_trait("shortcut-arguments", found["arguments"].strip())
    builder.add_member("command", expand_commands(command))


def _find_local_path(info: bytes) -> str:
    start = int.from_bytes(info[16:20], "little")
    end = info.find(b"\0", start) if 28 <= start < len(info) else -1
    return info[start:end].decode("cp1252", "replace") if end > 0 else ""


def _read_strings(content: bytes, place: int, flags: int) -> dict[str, str]:
    """Return the counted strings whose flags are set (section 2.4)."""
    found: dict[str, str] = {}
    width = 2 if flags & IS_UNICODE else 1
    for flag, name in _STRINGS:
        if flags & flag:
            size = int.from_bytes(content[place : place + 2], "little") * width
            raw = content[place + 2 : place + 2 + size]
            found[name] = raw.decode("utf-16-le" if width == 2 else "cp1252", "replace")
            place += 2 + size
    return found


def is_property_list(file: File) -> bool:
    """Return whether this is a shortcut of macOS (.webloc, .inetloc, .fileloc): a property list with one address."""
    return any(_PROPERTY_LISTS.intersection(find_last_extensions(name)) for name in file.names)


def inspect_property_list(builder: ContentsBuilder) -> None:
    """Add the address of a shortcut of macOS, which is XML or binary; one of a file is opened as a program would be."""
    text = builder.file.content[:65_536].decode("latin-1")
    for match in islice(_LIST_ADDRESS.finditer(text), MAX_ADDRESSES):
        target = unescape(match.group().strip())
        builder.add_link(target)
        is_file = target.lower().startswith(("file:", "smb:", "afp:", "nfs:"))
        builder.add_trait("shortcut-to-share" if is_file else "internet-shortcut", target)


def inspect_internet_shortcut(builder: ContentsBuilder) -> None:
    """Add the address of a .url file; one on a file share is opened as a program would be."""
    text = builder.file.content[:65_536].decode("utf-8", "replace")
    for match in _URL.finditer(text):
        target = match.group(1).strip()
        builder.add_link(target)
        builder.add_trait("shortcut-to-share" if _SHARE.match(target) else "internet-shortcut", target)
    for match in _ICON.finditer(text):
        if _SHARE.match(match.group(1)):
            builder.add_trait("shortcut-to-share", match.group(1))


MAX_SOURCE = 262_144
MAX_FOUND = 20
MAX_LINES = 5_000

# Profiles of private networks, remote desktops and proxies, and the words before the name of their server.
_CONNECTIONS = frozenset({"ovpn", "ica", "tblk", "pbk", "vnc", "remmina", "rdg", "nmconnection", "onc", "pcf", "pac"})
_CONNECTION_SERVER = re.compile(
    r"(?:^[ \t]{0,9}(?:remote|http-proxy|socks-proxy|Address|HttpBrowserAddress|Host|PhoneNumber|server|Endpoint"
    r"|gateway)[= \t]{1,9}|\"Host\"[ \t]{0,9}:[ \t]{0,9}\"|\b(?:PROXY|SOCKS5?|HTTPS?)[ \t]{1,9}(?=[\w.-]{3,255}:\d))"
    r"([\w.:-]{3,255})",
    re.IGNORECASE | re.MULTILINE,
)
# What OpenVPN and Citrix start on the computer that opens the file.
_CONNECTION_PROGRAM = re.compile(
    r"^[ \t]{0,9}(?:up|down|route-up|route-pre-down|ipchange|tls-verify|auth-user-pass-verify|client-connect|"
    r"client-disconnect|learn-address|plugin|iproute|InitialProgram|"
    r"PreUp|PostUp|PreDown|PostDown)[ \t]{0,9}[= \t]([^\r\n]{2,1000})",
    re.IGNORECASE | re.MULTILINE,
)

# A command that fetches something and runs it, or that opens a connection for whoever waits at the other end.
_FETCHES_AND_RUNS = re.compile(
    r"\b(?:curl|wget|fetch)\b[^\n]{0,500}?(?:\|\s{0,9}(?:sudo\s{1,9})?(?:ba|z|k|da|c)?sh\b"
    r"|(?:&&|;)\s{0,9}(?:chmod\s|(?:ba|z|)sh\s|\./))"
    r"|\b(?:ba|z|da|)sh\s{1,9}(?:-c\s{1,9})?[\"']?(?:<\(|\$\(|`)\s{0,9}(?:curl|wget)"
    r"|/dev/tcp/[\w.-]{3}|\bnc(?:at)?\b[^\n]{0,80}?\s-e\s|base64\s{1,9}(?:-d|--decode)\b[^\n]{0,200}?\|\s{0,9}(?:ba|z|)sh\b"
    r"|\b(?:powershell|pwsh|mshta|certutil|bitsadmin|regsvr32|rundll32)\b[^\n]{0,800}?(?:https?:|-e(?:nc|c|ncodedcommand)?\s"
    r"|frombase64|\\\\[\w.-]{3})|\b(?:iex|invoke-expression)\b[^\n]{0,300}?https?:",
    re.IGNORECASE,
)


# One of these, or `nc` with `-e`, is in whatever `_FETCHES_AND_RUNS` finds; to look for each is faster than for that.
_FETCHING_WORDS = (
    "curl wget fetch /dev/tcp/ base64 powershell pwsh mshta certutil bitsadmin regsvr32 rundll32 iex invoke-expression"
).split()
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class StartedCommand(msgspec.Struct, frozen=True):
    """Where a program finds a command that it starts by itself: the extensions and names of its files, a sign that they
    must have, and the command. Of files that honest people send with commands, only those count that fetch and run."""

    extensions: frozenset[str]
    command: re.Pattern[str]
    sign: str = ""
    names: frozenset[str] = frozenset()
    only_fetching: bool = True
    is_line: bool = False  # each line of the file is a command

    def is_for(self, file: File, text: str) -> bool:
        """Return whether a file is one of these."""
        if self.sign and self.sign not in text:
            return False
        return any(
            name.rpartition("/")[2].lower() in self.names or self.extensions.intersection(find_last_extensions(name))
            for name in file.names
        )


_STARTED = (
    # Editors that run tasks of a folder once it is opened.
    StartedCommand(
        frozenset({"code-workspace"}),
        re.compile(r"\"command\"\s{0,9}:\s{0,9}\"((?>[^\"\\\n]|\\.){2,2000}+)"),
        sign="folderOpen",
        names=frozenset({"tasks.json"}),
        only_fetching=False,
    ),
    # Projects: MSBuild.
    StartedCommand(
        frozenset({"csproj", "vbproj", "fsproj", "vcxproj", "proj", "props", "targets", "sln"}),
        re.compile(
            r"(?:\bCommand\s{0,9}=\s{0,9}[\"']|<(?:Pre|Post)(?:Build|Link)Event[^<>]{0,200}>)([^<>\"']{2,4000}+)",
            re.IGNORECASE,
        ),
    ),
    # Agents of macOS that begin with the session.
    StartedCommand(
        frozenset({"plist"}),
        re.compile(
            r"<key>\s{0,9}Program(?:Arguments)?\s{0,9}</key>\s{0,99}((?:<array>)?(?:\s{0,99}<string>[^<]{0,2000}</string>){1,20})"
        ),
        sign="RunAtLoad",
        only_fetching=False,
    ),
    # Units of systemd, tables of cron, settings of shells and clients, scripts of shells.
    StartedCommand(
        frozenset(
            {"service", "timer", "path", "crontab", "cron", "bashrc", "zshrc", "profile", "vimrc", "npmrc", "gitconfig"}
            | {"sh", "bash", "zsh", "ksh", "fish", "rb", "php", "lua", "gradle", "mk", "ssh_config", "conf", "config"}
        ),
        re.compile(r"^([^\r\n]{4,4000})", re.MULTILINE),
        names=frozenset({"crontab", "ssh_config", "config", "makefile", ".bashrc", ".profile", ".vimrc", ".gitconfig"}),
        is_line=True,
    ),
)
# Lists of media: players ask for what they name as soon as they are opened, and with it for the reader's credentials.
_MEDIA_LISTS = frozenset({"m3u", "m3u8", "pls", "wpl", "wax", "wvx", "asx", "wmx", "xspf", "ram"})
_OBEYED = _MEDIA_LISTS.union(*(row.extensions for row in _STARTED))
_STARTED_NAMES = frozenset().union(*(row.names for row in _STARTED))
_TAG = re.compile(r"<[^<>]{0,40}>")
_NAMED_SHARE = re.compile(
    r"(?:file:/{2,5}|\\\\|(?<![:/\w])//)[\w-]{1,100}\.[\w.-]{2,200}(?:@\w{1,9})?[\\/][^\s\"'<>]{1,500}"
)


def is_connection(file: File) -> bool:
    """Return whether this is a file of settings for a connection, by its name: its programs go by that."""
    if any(_CONNECTIONS.intersection(find_last_extensions(name)) for name in file.names):
        return True
    if any(name.rpartition("/")[2].lower() == "wpad.dat" for name in file.names):
        return True
    return b"[Interface]" in file.content[:4_096] and b"PrivateKey" in file.content[:4_096]  # WireGuard


def inspect_connection(builder: ContentsBuilder) -> None:
    """Add the servers of a connection, and the programs that are started with it."""
    text = _read(builder.file)
    servers = [match.group(1) for match in islice(_CONNECTION_SERVER.finditer(text), MAX_FOUND)]
    builder.add_trait("connection-settings", ", ".join(dict.fromkeys(servers)))
    for match in islice(_CONNECTION_PROGRAM.finditer(text), MAX_FOUND):
        if command := match.group(1).strip().strip("\"'#"):
            builder.add_command("program-action", "command", command)


def is_obeyed(file: File) -> bool:
    """Return whether a program does by itself what stands in a file of this name."""
    return any(
        name.rpartition("/")[2].lower() in _STARTED_NAMES or _OBEYED.intersection(find_last_extensions(name))
        for name in file.names
    )


def inspect_commands(builder: ContentsBuilder) -> None:
    """Add the commands that a program starts by itself, and the shares that a player asks for."""
    file = builder.file
    text = _read(file)
    for command in islice(_find_started(file, text), MAX_FOUND):
        builder.add_command("program-action", "command", command)
    if any(_MEDIA_LISTS.intersection(find_last_extensions(name)) for name in file.names):
        for match in islice(_NAMED_SHARE.finditer(text), MAX_FOUND):
            builder.add_trait("remote-object", match.group())


def _read(file: File) -> str:
    return file.content[:MAX_SOURCE].decode("utf-8", "replace")


def _find_started(file: File, text: str) -> Iterator[str]:
    for row in _STARTED:
        if not row.is_for(file, text):
            continue
        marks = _find_fetching(text) if row.only_fetching else []
        if row.only_fetching and not marks:
            continue
        commands = _find_lines(text, marks, row.command) if row.is_line else row.command.finditer(text)
        for match in islice(commands, MAX_LINES):
            if row.only_fetching and not _has_mark(marks, *match.span(1)):
                continue
            command = unescape(_TAG.sub(" ", match.group(1))).strip()
            if command and (not row.only_fetching or _FETCHES_AND_RUNS.search(command)):
                yield command


def _find_fetching(text: str) -> list[int]:
    """Return where something in a text may belong to a command that fetches something and runs it, in order. What is
    written with references to characters, or not in ASCII, is not told from its words."""
    low = text.lower()
    if len(low) != len(text):
        return list(range(len(text)))
    places = [place for word in ("&", "-e", *_FETCHING_WORDS) for place in _find_all(low, word)]
    if not text.isascii():
        places += (match.start() for match in _NOT_ASCII.finditer(text))
    return sorted(places)


def _find_all(text: str, word: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _find_lines(text: str, marks: list[int], line: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the lines that may belong to such a command: settings of a kernel have 5,000 lines."""
    end = -1
    for place in marks:
        if place <= end:
            continue
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        if match := line.match(text, text.rfind("\n", 0, place) + 1):
            yield match


def _has_mark(marks: list[int], start: int, end: int) -> bool:
    """Return whether one of the places lies within a command."""
    place = bisect_left(marks, start)
    return place < len(marks) and marks[place] < end
