"""How commands are declared, found and read.

A command is a function. Its positional parameters are the arguments of the command, and its keyword-only parameters are
the options; `Argument` and `Option` in their annotations say the rest. A parameter whose type is a subclass of
`Options` stands for several options, one for each field of that class. A `Group` has commands by name.

Little is imported here: loading a library for command lines takes longer than most commands. Help and the words on
faults are in `gatepost.cli.help`, which `gatepost.cli` loads when they are wanted.

`COMMANDS`, at the end, says where each command is declared.
"""

import os
import sys
from collections import ChainMap, UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NoReturn, TypeVar, cast, get_args, get_origin

import msgspec

from gatepost.process.hiding import hide

Command = Callable[..., None]
F = TypeVar("F", bound=Command)
REQUIRED: Any = ...
# Of a number: no count and no port has more.
MAX_DIGITS = 18


class UsageError(Exception):
    """What is wrong with a command line, as a sentence. Where a word is not one of those that are `known`, both are
    given, so that a similar one can be named."""

    def __init__(self, sentence: str, word: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(sentence)
        self.word, self.known = word, known


class BadParameter(UsageError):  # noqa: N818  it is said to people as "Invalid value for …"
    """What is wrong with an argument or an option: its name, and the end of a sentence that starts with it."""

    def __init__(self, sentence: str, name: str = "") -> None:
        super().__init__(f"Invalid value for {name}: {sentence}" if name else f"Invalid value: {sentence}")


class HelpWanted(Exception):  # noqa: N818  it is no error
    """The command line has --help."""


class Argument:
    """What an argument means. `metavar` is its name for people, and `least` the smallest number that it may be."""

    def __init__(self, help: str = "", *, metavar: str | None = None, least: int | None = None) -> None:  # noqa: A002
        self.help, self.metavar, self.least, self.most = help, metavar, least, None


class Option:
    """What an option means. Without names it has that of its parameter. `variable` is an environment variable that
    stands for it; `least` and `most` bound a number."""

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002
        metavar: str | None = None,
        variable: str | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> None:
        self.names, self.help, self.metavar, self.variable = names, help, metavar, variable
        self.least, self.most = least, most


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options that several commands share: each field is one."""


class Parameter(msgspec.Struct, frozen=True):
    """An argument or an option of a command, as it was declared. `group` is the parameter of the function that it
    belongs to, with the class of that, or None where it is one by itself."""

    name: str
    about: Argument | Option
    kind: Any
    default: Any
    group: tuple[str, type[Options]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of an option on the command line; none for an argument."""
        if isinstance(self.about, Argument):
            return ()
        return self.about.names or (f"--{self.name.replace('_', '-')}",)

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.names[0] if self.names else self.about.metavar or self.name.upper()

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for; raises `BadParameter` for a text that stands for none."""
        kind = self.value_kind
        if get_origin(kind) is Literal and text not in get_args(kind):
            raise BadParameter(f"must be one of {', '.join(get_args(kind))}, not {hide(text)}", self.label)
        if kind is int:
            return self._parse_number(text)
        return Path(text) if kind is Path else text

    def _parse_number(self, text: str) -> int:
        least, most = self.about.least, self.about.most
        if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS:
            number = int(text)
            if (least is None or number >= least) and (most is None or number <= most):
                return number
        bounds = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
        raise BadParameter(f"must be a whole number{bounds}, not {hide(text)}", self.label)

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self._kind) is list

    @property
    def value_kind(self) -> Any:
        """The type of one value."""
        return get_args(self._kind)[0] if self.is_list else self._kind

    @property
    def _kind(self) -> Any:
        return get_args(self.kind)[0] if isinstance(self.kind, UnionType) else self.kind


class Group:
    """Commands by name, and what they are about. Those of `places`, which has a module and a name for each, are loaded
    when they are asked for."""

    def __init__(self, help: str, places: Mapping[str, str] | None = None) -> None:  # noqa: A002
        self.help = help
        self.commands: MutableMapping[str, Command | Group] = _Commands(cast(Any, places))

    def command(self, name: str) -> Callable[[F], F]:
        """Declare a function as the command of this name."""

        def declare(function: F) -> F:
            self.commands[name] = function
            return function

        return declare

    def list_commands(self) -> "Iterator[tuple[str, Command]]":
        """Yield every command with its words, also those of the groups within."""
        for name, found in self.commands.items():
            if isinstance(found, Group):
                yield from ((f"{name} {words}", command) for words, command in found.list_commands())
            else:
                yield name, found


class _Commands(UserDict[str, "Command | Group"]):
    def __getitem__(self, name: str) -> "Command | Group":
        found: Any = super().__getitem__(name)
        if not isinstance(found, str):
            return cast("Command | Group", found)
        module, _, attribute = found.partition(":")
        return cast("Command | Group", getattr(import_module(module), attribute))


def list_parameters(function: Command) -> list[Parameter]:
    """Return the arguments and options of a command in their order."""
    code, types = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    plain = function.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(plain) : code.co_argcount], plain, strict=True))
    defaults |= function.__kwdefaults__ or {}
    found = []
    for name in names:
        kind = types[name]
        if isinstance(kind, type) and issubclass(kind, Options):
            fields = ChainMap(*(vars(each).get("__annotations__", {}) for each in kind.__mro__))
            found += [
                Parameter(field, fields[field].__metadata__[0], fields[field].__origin__, default, (name, kind))
                for field, default in zip(kind.__struct_fields__, kind.__struct_defaults__, strict=True)
            ]
        else:
            found.append(Parameter(name, kind.__metadata__[0], kind.__origin__, defaults.get(name, REQUIRED)))
    return found


def read(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command line by parameter; raises `UsageError` or `HelpWanted`."""
    options = {name: each for each in parameters for name in each.names}
    given: dict[str, Any] = {}
    arguments: list[str] = []
    left = [*reversed(words)]
    while left:
        word = left.pop()
        if word == "--":
            arguments += reversed(left)
            break
        if word == "-" or not word.startswith("-"):
            arguments.append(word)
            continue
        name, text = _split(word) if word.startswith("--") else (word[:2], word[2:] or None)
        option = options.get(name)
        if option is None:
            if name == "--help":
                raise HelpWanted
            raise UsageError(f"There is no option {name}.", name, options)
        if option.kind is bool:
            if text is not None:
                raise UsageError(f"{name} takes no value.")
            given[option.name] = True
            continue
        if text is None and not left:
            raise UsageError(f"{name} needs a value.")
        value = option.parse(left.pop() if text is None else text)
        given[option.name] = [*given.get(option.name, ()), value] if option.is_list else value
    given |= _assign_arguments([each for each in parameters if not each.names], arguments)
    return {each.name: given[each.name] if each.name in given else _find_default(each) for each in parameters}


def _split(word: str) -> tuple[str, str | None]:
    name, equals, text = word.partition("=")
    return name, text if equals else None


def _assign_arguments(parameters: Sequence[Parameter], words: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for each in parameters:
        if each.is_list and words:
            given[each.name], words = [each.parse(word) for word in words], []
        elif words:
            given[each.name], words = each.parse(words[0]), words[1:]
    if words:
        raise UsageError(f"There is an argument too many: {hide(words[0])}")
    return given


def _find_default(parameter: Parameter) -> Any:
    variable = parameter.about.variable if isinstance(parameter.about, Option) else None
    if variable and (text := os.environ.get(variable)):
        return parameter.parse(text)
    if parameter.default is REQUIRED:
        raise UsageError(f"{parameter.label} is missing.")
    return parameter.default


def assemble(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command's function from the values of its parameters."""
    values: dict[str, Any] = {}
    groups: dict[str, tuple[type[Options], dict[str, Any]]] = {}
    for each in parameters:
        if each.group is None:
            values[each.name] = given[each.name]
        else:
            name, kind = each.group
            groups.setdefault(name, (kind, {}))[1][each.name] = given[each.name]
    return values | {name: kind(**fields) for name, (kind, fields) in groups.items()}


def confirm(question: str) -> None:
    """Ask on the terminal, and end the process unless the answer is yes."""
    try:
        answer = input(f"{question} [y/N]: ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        abort()


def abort() -> NoReturn:
    """Say that the command was ended by the person at the terminal, and end the process."""
    print("Aborted!", file=sys.stderr)
    sys.exit(1)


_CLI = "gatepost.cli"

COMMANDS = Group(
    "Gatepost, an e-mail security service.",
    {
        "serve": f"{_CLI}.serve:serve",
        "guard": f"{_CLI}.serve:guard",
        "abby": f"{_CLI}.serve:abby",
        "scan": f"{_CLI}.scan:scan",
        "examples": f"{_CLI}.examples:examples",
        "demo": f"{_CLI}.demo:demo",
        "try": f"{_CLI}.try_change:try_change",
        "doctor": f"{_CLI}.maintenance:doctor",
        "nodes": f"{_CLI}.config:nodes",
        "restart": f"{_CLI}.config:restart",
        "config": f"{_CLI}.config:group",
        "lists": f"{_CLI}.lists:group",
        "feeds": f"{_CLI}.feeds:group",
        "import": f"{_CLI}.imports:group",
        "tenant": f"{_CLI}.accounts:tenants",
        "user": f"{_CLI}.accounts:users",
        "apikey": f"{_CLI}.accounts:keys",
        "audit": f"{_CLI}.events:audit",
        "events": f"{_CLI}.events:group",
        "policy": f"{_CLI}.policy:group",
        "plugins": f"{_CLI}.policy:plugins",
        "dkim": f"{_CLI}.sent_mail:dkim",
        "reports": f"{_CLI}.sent_mail:reports",
        "learn": f"{_CLI}.learn:group",
        "messages": f"{_CLI}.messages:group",
        "trace": f"{_CLI}.messages:trace",
        "quarantine": f"{_CLI}.quarantine:group",
        "mailboxes": f"{_CLI}.quarantine:mailboxes",
        "digest": f"{_CLI}.sent_mail:digests",
        "privacy": f"{_CLI}.privacy:group",
        "storage": f"{_CLI}.maintenance:storage",
        "upgrade": f"{_CLI}.maintenance:upgrade",
        "secrets": f"{_CLI}.maintenance:secrets",
        "backup": f"{_CLI}.maintenance:backup",
        "restore": f"{_CLI}.maintenance:restore",
        "completion": f"{_CLI}.help:completion",
    },
)
