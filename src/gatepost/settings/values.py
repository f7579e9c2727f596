"""Types of configuration values, with a check and an error message for each, and the base of every section.

Each type of value is a text or number with a validator, which raises `ValueError` with the end of a sentence that
starts with the key ("must be …"). Files and folders are made absolute against the folder of the configuration file,
which is in the validation context.

Every key is defined by `setting`, and so is a section inside another. A `local` key holds for one machine alone and is
not part of a published version; a local section stands for all keys below it. The reference page and published versions
follow from this mark.

Pages of the web interface are generated from the same definitions. A key with a `label` can be changed there, in the
`form` that the key names, or else the section that it stands in. Its control follows from its type, and its help is its
`description`, which the reference page has as well.
"""

import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from inspect import get_annotations
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args
from urllib.parse import SplitResult, urlsplit

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationInfo
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from gatepost.lists.addresses import normalise_tenant_domain
from gatepost.lists.entries import ListRefusal
from gatepost.plugins import MAX_PLUGINS, STATED
from gatepost.process.hiding import hide
from gatepost.settings.removed_keys import REMOVED

_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?\Z",
    re.IGNORECASE,
)
# A network that is believed may not be most of the internet; private ranges may have any size.
_WIDEST = {4: 8, 6: 16}
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*\Z")
_SOCKET_MODE = re.compile(r"0?[67][0-7][0-7]")
# The room for a path in the address of a Unix socket (unix(7)), without the NUL at its end.
MAX_SOCKET_PATH = 107
_PLACEHOLDER = re.compile(r"\{[^{}]*+\}|<[^<>]*+>")
_QUARANTINE_URL = re.compile(r"(?:file|s3|gs|az):.", re.DOTALL)


def require(fits: Callable[[str], object], must: str) -> AfterValidator:
    """Return the check of a text that has to fit; `must` is the end of a sentence that says what it has to be."""

    def check(text: str) -> str:
        if not fits(text):
            raise ValueError(must)
        return text

    return AfterValidator(check)


def split_address(text: str, default_port: int) -> tuple[str, int]:
    """`host`, `host:port`, `1.2.3.4:53`, `::1` and `[::1]:53` as host and port; `ValueError` for anything else."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("must be written as [address]:port")
        port = rest[1:]
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host or (text.endswith(":") and not text.endswith("::")):
        raise ValueError("must be an address, with :port if need be")
    return host, _parse_port(port) if port else default_port


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:9]) <= 65535):
        found = f", not {text}" if text.isdigit() else ""  # anything else may be a piece of a password
        raise ValueError(f"must have a port between 0 and 65535{found}")
    return int(text)


def _check_host(text: str) -> str:
    if text in ("*", "0", "any"):
        raise ValueError(f'must be an address or a host name, not {text}; "::" and "0.0.0.0" stand for every address')
    if "{" in text or "<" in text:
        raise ValueError("still has the placeholder of an example in it; write an address or a host name")
    if not _is_host(text):
        raise ValueError("must be an address or a host name, without a port")
    return text


def _is_host(text: str) -> bool:
    """Return whether a text is an IP address or a host name; a name never ends in a number (RFC 3696 section 2)."""
    if "%" in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_HOST_NAME.match(text)) and not text.rstrip(".").rpartition(".")[2].isdigit()
    return True


def _check_nameserver(text: str) -> str:
    host, _ = split_address(text, 53)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ValueError("must be an IP address, with :port if need be") from None
    return text


def _check_network(text: str) -> str:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("must be an IP address or a network like 192.0.2.0/24") from None
    widest = _WIDEST[network.version]
    if network.prefixlen < widest and not network.is_private:
        raise ValueError(f"is too wide: anybody in it would be believed; at most a /{widest}")
    return text


def _check_listen_address(text: str) -> str:
    if not text.rpartition("]")[2].count(":"):
        raise ValueError("must be address:port")
    host, _ = split_address(text, 0)
    if not _is_host(host):
        raise ValueError("must be address:port")
    return text


def _check_socket_address(text: str) -> str:
    form = "must be address:port, or unix:/path of a Unix socket"
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or path.endswith("/") or "\0" in path:
            raise ValueError(form)
        if len(path.encode()) > MAX_SOCKET_PATH:
            raise ValueError(f"has a path of more than {MAX_SOCKET_PATH} bytes, which no Unix socket can have")
        return text
    host, port = split_address(text, 0)
    if not _is_host(host) or not port:
        raise ValueError(form)
    return text


def _check_core_host(text: str) -> str:
    parts = _split_url(text)
    if not _is_base(parts, "https"):
        raise ValueError("must be a base address of the form https://host:9785")
    if not parts.port:
        raise ValueError("must name the port of the core: https://host:9785")
    return text.rstrip("/")


def _check_next_hop(text: str) -> str:
    if text == "mx:":
        raise ValueError(REMOVED["delivery.nextHop: mx:"])
    parts = _split_url(text, "must be of the form smtp://host:port; a user and a password stand under auth")
    if parts.scheme == "lmtp" and text.startswith("lmtp:/") and not parts.netloc:
        if not parts.path.strip("/") or parts.query or parts.fragment or "\0" in text:
            raise ValueError("must be of the form lmtp:/path of a Unix socket")
        return text
    if parts.port == 0 or not _is_base(parts, "smtp", "lmtp"):
        raise ValueError("must be of the form smtp://host:port, lmtp://host:port or lmtp:/path")
    return text


def _check_server(text: str) -> str:
    parts = _split_url(text, "must be of the form smtp://host:port; a user or password is not supported here")
    if parts.port == 0 or not _is_base(parts, "smtp"):
        raise ValueError("must be of the form smtp://host:port")
    return text


def _check_clamd(text: str) -> str:
    if text.startswith("/"):
        return text
    host, port = split_address(text, 0) if ":" in text else ("", 0)
    if not _is_host(host) or not port:
        raise ValueError("must be host:port, or the absolute path of a Unix socket")
    return text


def _split_url(text: str, no_user: str = "") -> SplitResult:
    """Return the parts of a URL. One with a user or a password is refused with `no_user`, if that is given."""
    if placeholder := _PLACEHOLDER.search(hide(text)):
        raise ValueError(f"still has the placeholder {placeholder.group()} in it; write the name of your host")
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  reading it is what checks it
    except ValueError:
        raise ValueError("must be an address with a host and, if need be, a port between 0 and 65535") from None
    if no_user and (parts.username is not None or parts.password is not None):
        raise ValueError(no_user)
    return parts


def _is_base(parts: SplitResult, *schemes: str) -> bool:
    """Return whether a URL has one of these schemes, a host, perhaps a port, and no more."""
    has_more = "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment
    return parts.scheme in schemes and not has_more and _is_host(parts.hostname or "")


def _check_syslog(text: str) -> str:
    form = "must be udp://host:514, tcp://host:601, tls://host:6514 or unix:/path"
    if text.startswith("unix:"):
        if not text.startswith("unix:/") or "\0" in text:
            raise ValueError(form)
        return text
    parts = _split_url(text)
    if parts.port == 0 or not _is_base(parts, "udp", "tcp", "tls"):
        raise ValueError(form)
    return text


def _check_webhook(text: str) -> str:
    parts = _split_url(text, "must not have a user or password in it; calls are signed with the secret")
    return _check_page(text, parts, "https://host/path", "https://host/path", is_right=parts.port != 0)


def _check_web_url(text: str) -> str:
    parts = _split_url(text, "must not have a user or password in it")
    return _check_page(text, parts, "https://host or https://host/path", "https://host", is_right=not parts.query)


def _check_page(text: str, parts: SplitResult, form: str, short: str, *, is_right: bool) -> str:
    """Return the address of a page over HTTPS, or over HTTP on this machine; raises `ValueError` for another one."""
    host = parts.hostname or ""
    if not is_right or not _is_host(host) or parts.fragment or not (text.isascii() and text.isprintable()):
        raise ValueError(f"must be of the form {form}")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in ("localhost", "127.0.0.1", "::1")):
        raise ValueError(f"must be of the form {short}; http:// is accepted for 127.0.0.1 and localhost only")
    return text


def _check_public_url(text: str) -> str:
    parts = _split_url(text)
    if parts.port == 0 or not _is_base(parts, "https") or not (text.isascii() and text.isprintable()):
        raise ValueError("must be of the form https://host or https://host:port")
    return text.rstrip("/")


def _is_mail_address(text: str) -> bool:
    local, _, domain = text.rpartition("@")
    return _is_host(domain) and len(text) <= 254 and _LOCAL_PART.match(local) is not None


def _check_storage_url(text: str) -> str:
    scheme, _, rest = text.partition(":")
    if scheme in {"postgresql", "postgres"} and rest.startswith("//"):
        return text
    if scheme != "sqlite" or not rest:
        raise ValueError("must be sqlite:FILE or postgresql://…")
    return text


def _check_uid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError("must be a tenant's uid, a UUID as `gatepost tenant create` prints it") from None


def _normalise_domain(text: str) -> str:
    normal = normalise_tenant_domain(text)
    if isinstance(normal, ListRefusal):
        raise ValueError(normal.reason)
    return normal.key


def _normalise_route_domain(text: str) -> str:
    below = text.startswith("*.")
    normal = _normalise_domain(text.removeprefix("*."))
    return f"*.{normal}" if below else normal


def _check_file(text: str, info: ValidationInfo) -> str:
    path = resolve_path(text, info)
    if info.context and not _exists(path, Path.is_file):
        raise ValueError(f"names a file that does not exist: {resolve_path(hide(text), info)}")
    return str(path)


def _check_folder(text: str, info: ValidationInfo) -> str:
    path = resolve_path(text, info)
    if info.context and not _exists(path, Path.is_dir):
        raise ValueError(f"names a folder that does not exist: {resolve_path(hide(text), info)}")
    return str(path)


def _exists(path: Path, kind: Callable[[Path], bool]) -> bool:
    try:
        return kind(path)
    except OSError as fault:
        raise ValueError(f"cannot be read: {path}: {(fault.strerror or 'unknown error').lower()}") from None


def resolve_path(text: str, info: ValidationInfo) -> Path:
    """Return a path of a configuration file as an absolute one."""
    if not text or "\0" in text:
        raise ValueError("must be a path")
    return Path(info.context["folder"], text) if info.context else Path(text)


class Written(msgspec.Struct, frozen=True):
    """A mark of a type: what its values are, for pages that have a control of its own for them: a number with a unit,
    the uid of a tenant."""

    kind: Literal["bytes", "milliseconds", "minutes", "hours", "days", "tenant"]


IN_BYTES, IN_MILLISECONDS = Written("bytes"), Written("milliseconds")
IN_MINUTES, IN_HOURS, IN_DAYS = Written("minutes"), Written("hours"), Written("days")

Port = Annotated[int, Field(ge=1, le=65535)]
Milliseconds = Annotated[int, Field(ge=1, le=1 << 40), IN_MILLISECONDS]
Days = Annotated[int, Field(ge=1, le=36_500), IN_DAYS]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Bytes = Annotated[int, Field(ge=64 << 20, le=1 << 50), IN_BYTES]
UpToThousand = Annotated[int, Field(ge=1, le=1_000)]
FileBytes = Annotated[int, Field(ge=1 << 16, le=1 << 40), IN_BYTES]
Host = Annotated[str, AfterValidator(_check_host)]
Hosts = Annotated[
    Annotated[Host, Tag("[one]")] | Annotated[list[Host], Field(min_length=1), Tag("[several]")],
    Discriminator(lambda value: "[several]" if isinstance(value, list | tuple) else "[one]"),
]
ClamdAddress = Annotated[str, AfterValidator(_check_clamd)]
Nameserver = Annotated[str, AfterValidator(_check_nameserver)]
Network = Annotated[str, AfterValidator(_check_network)]
ListenAddress = Annotated[str, AfterValidator(_check_listen_address)]
SocketAddress = Annotated[str, AfterValidator(_check_socket_address)]
ListenAddresses = Annotated[
    Annotated[SocketAddress, Tag("[one]")] | Annotated[list[SocketAddress], Field(min_length=1), Tag("[several]")],
    Discriminator(lambda value: "[several]" if isinstance(value, list | tuple) else "[one]"),
]
SocketMode = Annotated[
    str, require(_SOCKET_MODE.fullmatch, 'must be the mode of a file in quotes, such as "660" or "666"')
]
CoreHost = Annotated[str, AfterValidator(_check_core_host)]
NextHop = Annotated[str, AfterValidator(_check_next_hop)]
SmtpServer = Annotated[str, AfterValidator(_check_server)]
StorageUrl = Annotated[str, AfterValidator(_check_storage_url)]
QuarantineUrl = Annotated[
    str, require(_QUARANTINE_URL.match, "must be an address that starts with file:, s3:, gs: or az:")
]
Domain = Annotated[str, AfterValidator(_normalise_domain)]
RouteDomain = Annotated[str, AfterValidator(_normalise_route_domain)]
TenantUid = Annotated[str, AfterValidator(_check_uid), Written("tenant")]
TenantOrAny = Annotated[str, AfterValidator(lambda text: text if text == "*" else _check_uid(text))]
Secret = Annotated[
    str,
    Field(min_length=1),
    require(
        lambda text: text == text.strip() and text.isascii() and text.isprintable(),
        "must be printable ASCII without spaces at its ends, since it travels in a header field",
    ),
]
SyslogAddress = Annotated[str, AfterValidator(_check_syslog)]
PublicUrl = Annotated[str, AfterValidator(_check_public_url)]
WebhookUrl = Annotated[str, AfterValidator(_check_webhook)]
WebUrl = Annotated[str, AfterValidator(_check_web_url)]
MailAddress = Annotated[str, require(_is_mail_address, "must be an address such as admin@example.com, without a name")]
NodeName = Annotated[
    str,
    Field(min_length=1),
    require(re.compile(r"[!-~]{1,255}").fullmatch, "must be at most 255 printable ASCII characters without spaces"),
]
NewFile = Annotated[
    str, require(lambda text: text and "\0" not in text and not text.endswith("/"), "must be the path of a file")
]
_PluginName = Annotated[str, require(STATED.fullmatch, "must be the name of an installed package, or name==version")]
PluginNames = Annotated[list[_PluginName], Field(max_length=MAX_PLUGINS)]
FilePath = Annotated[str, AfterValidator(_check_file)]
FolderPath = Annotated[str, AfterValidator(_check_folder)]


class Section(BaseModel):
    """Strict: no coercion, no unknown keys, no changes after reading.

    `old_names` maps keys that a file may still use to the keys that replaced them.
    """

    old_names: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)


S = TypeVar("S", bound=Section)


class FormGroup(Enum):
    """Settings that stand together on a page of the web interface: the page, a title, and a sentence on them. Pages
    show groups in this order."""

    KEEPING_MAIL = (
        "settings",
        "Keeping mail",
        "How long results and held messages stay, and how much room they may take.",
    )
    SIGNING_IN = "settings", "Signing in", "Who may sign in to these pages, and with what."
    DIGESTS = "settings", "Digests", "The daily mail to recipients. Each tenant switches it on under Digests."
    LEARNING = "settings", "Learning", "What reports of people and delivered mail teach."
    ANALYSIS = "settings", "Analysis", "How long things may take, and what is logged."
    ROUTES = "routes", "Routes", "Where delivered mail goes; routes by domain go before those by tenant."
    OTHER_MAIL = "routes", "All other mail", "Where mail goes that no route is for."
    RECIPIENTS = "recipients", "Rules", "Recipients that do not exist are refused before their mail is taken."
    THROTTLING = "limits", "Throttling", "How many messages are in processing at once, and when new ones wait."
    SMTP_PORT = "limits", "SMTP port", "Limits on connections and messages of SMTP clients."

    def __init__(self, page: str, title: str, about: str) -> None:
        self.page, self.title, self.about = page, title, about


_LOCAL, _FORM = "local", "form"


def setting(
    default: Any = ...,
    *,
    description: str,
    local: bool = False,
    label: str | None = None,
    form: FormGroup | None = None,
    **more: Any,
) -> Any:
    """A key, or a section inside of a section."""
    if "default_factory" not in more:
        more["default"] = default
    marks: Any = {_LOCAL: local, _FORM: form}
    return Field(title=label, description=description, json_schema_extra=marks, **more)


def _mark(field: FieldInfo, mark: str) -> Any:
    return field.json_schema_extra.get(mark) if isinstance(field.json_schema_extra, dict) else None


def list_labelled(section: type["Section"]) -> list[FieldInfo]:
    """Return the keys of a section that a page changes, its own before those that it inherits."""
    own = get_annotations(section)
    fields = sorted(section.model_fields.items(), key=lambda each: each[0] not in own)
    return [field for _, field in fields if field.title]


def list_form_keys(
    section: type["Section"], stated: object = None, above: str = "", form: FormGroup | None = None
) -> Iterator[tuple[str, FieldInfo, FormGroup]]:
    """Yield each key that a page changes, with its form. `stated` is the document: a section that is off there has no
    keys."""
    document = stated if isinstance(stated, dict) else {}
    for field in list_labelled(section):
        if found := _mark(field, _FORM) or form:
            yield f"{above}{field.alias}", field, found
    for field in section.model_fields.values():
        inner, is_list = find_section(field.annotation)
        below = document.get(field.alias)
        if inner and not is_list and (field.default is not None or isinstance(below, dict)):
            yield from list_form_keys(inner, below, f"{above}{field.alias}.", _mark(field, _FORM))


def find_section(annotation: Any) -> tuple[type[Section] | None, bool]:
    """Return the section class inside an annotation, and whether the annotation is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, False
    for inner in get_args(annotation):
        found, _ = find_section(inner)
        if found:
            return found, getattr(annotation, "__origin__", None) is list
    return None, False


def is_local(model: type[Section], key: str) -> bool:
    """Whether a key holds for one machine alone and is not part of a published version."""
    return any(_mark(field, _LOCAL) for field in _follow(model, key))


def _follow(model: type[Section], key: str) -> Iterator[FieldInfo]:
    """Yield the fields that a key leads through, as far as it names some: what is below them are names of the user."""
    section: type[Section] | None = model
    for step in key.split("."):
        name = step.partition("[")[0]
        field = next((each for each in section.model_fields.values() if each.alias == name), None) if section else None
        if field is None:
            return
        yield field
        section = find_section(field.annotation)[0]


def list_changes(before: Section, after: Section, above: str = "") -> Iterator[str]:
    """Yield every key whose value differs between two settings of one file."""
    for name, field in type(after).model_fields.items():
        key, old, new = f"{above}{field.alias}", getattr(before, name), getattr(after, name)
        if isinstance(old, Section) and isinstance(new, Section) and type(old) is type(new):
            yield from list_changes(old, new, f"{key}.")
        elif old != new:
            yield key
