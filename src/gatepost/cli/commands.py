"""How commands are declared, found and run.

A command is a function. Its positional parameters are the arguments of the command, and its keyword-only parameters are
the options; `Argument` and `Option` in their annotations say the rest. A parameter whose type is a subclass of
`Options` stands for several options, one for each field of that class. A `Group` has commands by name.

A command line in its plain form is read here, with few imports: loading a library for that would take longer than most
commands. Everything else is Typer's: help, completion by a shell, forms that are seldom, and what is wrong with a
command line. It is built from the same declarations.

`COMMANDS`, at the end, says where each command is declared.
"""

import os
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin

import msgspec

from gatepost import describe_build

if TYPE_CHECKING:
    import inspect

    import typer


F = TypeVar("F", bound=Callable[..., None])
REQUIRED: Any = ...
# Of a number: no count and no port has more.
MAX_DIGITS = 18


class BadParameter(Exception):  # noqa: N818  it is said to people as "Invalid value for …"
    """What is wrong with an argument or an option: its name, and the end of a sentence that starts with it."""

    def __init__(self, sentence: str, name: str = "") -> None:
        super().__init__(sentence)
        self.name = name


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

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for; raises `NotPlainError` where Typer has to say."""
        kind = self._kinds[0]
        if get_origin(kind) is list:
            kind = get_args(kind)[0]
        if kind is str or (get_origin(kind) is Literal and text in get_args(kind)):
            return text
        if kind is Path and text:
            return Path(text)
        if kind is int and self._is_number(text):
            return int(text)
        raise NotPlainError

    def parse_number(self, text: str) -> int:
        """Return a number; raises `BadParameter` for another text, or a number out of bounds."""
        if self._is_number(text):
            return int(text)
        least, most = self.about.least, self.about.most
        bounds = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
        raise BadParameter(f"must be a whole number{bounds}, not {text}")

    def _is_number(self, text: str) -> bool:
        if not (text.isascii() and text.isdecimal()) or len(text) > MAX_DIGITS:
            return False
        least, most = self.about.least, self.about.most
        return (least is None or int(text) >= least) and (most is None or int(text) <= most)

    @property
    def is_number(self) -> bool:
        """Whether its value is a number."""
        return self._kinds[0] is int

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self._kinds[0]) is list

    @property
    def _kinds(self) -> tuple[Any, ...]:
        """The type of a value, and None beside it where there may be no value."""
        return get_args(self.kind) if isinstance(self.kind, UnionType) else (self.kind,)


class NotPlainError(Exception):
    """A command line that is left to Typer."""


class Group:
    """Commands by name, and what they are about."""

    def __init__(self, help: str) -> None:  # noqa: A002
        self.help = help
        self.commands: dict[str, Callable[..., None]] = {}

    def command(self, name: str) -> Callable[[F], F]:
        """Declare a function as the command of this name."""

        def declare(function: F) -> F:
            self.commands[name] = function
            return function

        return declare


class CommandTree:
    """All commands of the program. `places` has the module and the name of each command or group of the first level:
    only what is asked for is loaded."""

    def __init__(self, help: str, places: Mapping[str, str]) -> None:  # noqa: A002
        self.help, self._places = help, places

    def load(self, name: str) -> Callable[..., None] | Group:
        """Return a command or group of the first level."""
        module, _, attribute = self._places[name].partition(":")
        found: Callable[..., None] | Group = getattr(import_module(module), attribute)
        return found

    def items(self) -> Iterator[tuple[str, Callable[..., None] | Group]]:
        """Yield everything of the first level."""
        for name in self._places:
            yield name, self.load(name)

    def run(self, words: Sequence[str]) -> NoReturn:
        """Run the command that a command line names, and end the process with its exit code."""
        try:
            function, values = self._read_plain(words)
        except NotPlainError:
            self.build_typer()()
            sys.exit(0)
        try:
            function(**values)
        except BadParameter as fault:
            self.build_typer(fault)()
        except KeyboardInterrupt:
            sys.exit(130)
        except EOFError:
            abort()
        sys.exit(0)

    def _read_plain(self, words: Sequence[str]) -> tuple[Callable[..., None], dict[str, Any]]:
        if not words or words[0] not in self._places or "_GATEPOST_COMPLETE" in os.environ:
            raise NotPlainError
        found, rest = self.load(words[0]), words[1:]
        if isinstance(found, Group):
            if not rest or rest[0] not in found.commands:
                raise NotPlainError
            found, rest = found.commands[rest[0]], rest[1:]
        parameters = list_parameters(found)
        return found, assemble(parameters, read_plain(parameters, rest))

    def build_typer(self, fault: BadParameter | None = None) -> "typer.Typer":
        """Return the same commands for Typer; with a `fault`, what they do is to say that."""
        import typer

        app = typer.Typer(
            name="gatepost",
            help=self.help,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            add_completion=False,
        )

        def print_version(wanted: bool) -> None:
            if wanted:
                print(f"gatepost {describe_build()}")
                raise typer.Exit

        @app.callback(help=self.help)
        def root(
            version: bool = typer.Option(
                False,
                "--version",
                callback=print_version,
                is_eager=True,
                help="Show the version, the schema and the commit.",
            ),
        ) -> None:
            pass

        _add_to_typer(app, dict(self.items()), fault)
        return app


def list_parameters(function: Callable[..., None]) -> list[Parameter]:
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


def read_plain(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command line by parameter; raises `NotPlainError` for one that is left to Typer."""
    options = {name: each for each in parameters for name in each.names}
    given: dict[str, Any] = {}
    arguments: list[str] = []
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        option = options.get(name)
        if option is None and word.startswith("-") and word != "-":
            raise NotPlainError
        if option is None:
            arguments.append(word)
        elif option.kind is bool:
            if equals:
                raise NotPlainError
            given[option.name] = True
        else:
            text = value if equals else next(left, "")
            if not text or (text.startswith("-") and text != "-") or (option.name in given and not option.is_list):
                raise NotPlainError
            parsed = option.parse(text)
            given[option.name] = [*given.get(option.name, ()), parsed] if option.is_list else parsed
    given |= _assign_arguments([each for each in parameters if not each.names], arguments)
    for each in parameters:
        if each.name not in given:
            given[each.name] = _find_default(each)
    return given


def _assign_arguments(parameters: Sequence[Parameter], words: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for each in parameters:
        if each.is_list and words:
            given[each.name], words = [each.parse(word) for word in words], []
        elif words:
            given[each.name], words = each.parse(words[0]), words[1:]
    if words:
        raise NotPlainError
    return given


def _find_default(parameter: Parameter) -> Any:
    variable = parameter.about.variable if isinstance(parameter.about, Option) else None
    if variable and (text := os.environ.get(variable)):
        return parameter.parse(text)
    if parameter.default is REQUIRED:
        raise NotPlainError
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


def _add_to_typer(
    app: "typer.Typer", commands: Mapping[str, Callable[..., None] | Group], fault: BadParameter | None
) -> None:
    import typer

    for name, each in commands.items():
        if isinstance(each, Group):
            group = typer.Typer(help=each.help, no_args_is_help=True)
            _add_to_typer(group, each.commands, fault)
            app.add_typer(group, name=name, short_help=each.help)
        else:
            app.command(name, short_help=_shorten(each))(_adapt_to_typer(each, fault))


def _shorten(function: Callable[..., None]) -> str:
    """The first sentence of what a command says of itself; one that Click shortens ends in the middle."""
    first = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    sentence, dot, _ = first.partition(". ")
    return sentence + dot.strip()


def _adapt_to_typer(function: Callable[..., None], fault: BadParameter | None) -> Callable[..., None]:
    """Return a function with the signature that Typer reads, which calls that of a command."""
    import inspect

    import typer

    parameters = list_parameters(function)

    def run(**values: Any) -> None:
        try:
            if fault:
                raise fault
            function(**assemble(parameters, values))
        except BadParameter as wrong:
            raise typer.BadParameter(str(wrong), param_hint=wrong.name or None) from None

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature([_describe_to_typer(each) for each in parameters])  # type: ignore[attr-defined]
    return run


def _describe_to_typer(parameter: Parameter) -> "inspect.Parameter":
    import inspect

    import typer

    def parse_number(text: str) -> int:
        try:
            return parameter.parse_number(str(text))
        except BadParameter as fault:
            raise typer.BadParameter(str(fault)) from None

    about = parameter.about
    shown: dict[str, Any] = {"help": about.help}
    if parameter.is_number:
        shown |= {"parser": parse_number, "metavar": about.metavar or "N"}
    if isinstance(about, Argument):
        said: Any = typer.Argument(**{"metavar": about.metavar or parameter.name.upper(), **shown})
    else:
        said = typer.Option(*about.names, **{"metavar": about.metavar, "envvar": about.variable, **shown})
    default = inspect.Parameter.empty if parameter.default is REQUIRED else parameter.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(parameter.name, kind, default=default, annotation=Annotated[parameter.kind, said])


_CLI = "gatepost.cli"

COMMANDS = CommandTree(
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
        "quarantine": f"{_CLI}.quarantine:group",
        "mailboxes": f"{_CLI}.quarantine:mailboxes",
        "digest": f"{_CLI}.sent_mail:digests",
        "privacy": f"{_CLI}.privacy:group",
        "storage": f"{_CLI}.maintenance:storage",
        "upgrade": f"{_CLI}.maintenance:upgrade",
        "secrets": f"{_CLI}.maintenance:secrets",
        "backup": f"{_CLI}.maintenance:backup",
        "restore": f"{_CLI}.maintenance:restore",
        "completion": f"{_CLI}.completion:completion",
    },
)
