"""The declarations of `commands`, as Typer takes them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from gatepost.cli.commands import REQUIRED, Argument, BadParameter, Group, Parameter, assemble, list_parameters


def declare_root(app: typer.Typer, about: str, version: str) -> None:
    """Declare the option of the program itself."""

    def print_version(wanted: bool) -> None:
        if wanted:
            print(f"gatepost {version}")
            raise typer.Exit

    @app.callback(help=about)
    def root(
        version: bool = typer.Option(
            False, "--version", callback=print_version, is_eager=True, help="Show the version."
        ),
    ) -> None:
        pass


def declare_group(
    app: typer.Typer, commands: Mapping[str, Callable[..., None] | Group], fault: BadParameter | None
) -> None:
    """Declare commands and groups; with a `fault`, what they do is to say that."""
    for name, each in commands.items():
        if isinstance(each, Group):
            group = typer.Typer(help=each.help, no_args_is_help=True)
            declare_group(group, each.commands, fault)
            app.add_typer(group, name=name)
        else:
            app.command(name)(_declare(each, fault))


def _declare(function: Callable[..., None], fault: BadParameter | None) -> Callable[..., None]:
    parameters = list_parameters(function)

    def run(**values: Any) -> None:
        try:
            if fault:
                raise fault
            function(**assemble(parameters, values))
        except BadParameter as wrong:
            raise typer.BadParameter(str(wrong), param_hint=wrong.name or None) from None

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__signature__ = inspect.Signature([_describe(each) for each in parameters])  # type: ignore[attr-defined]
    return run


def _describe(parameter: Parameter) -> inspect.Parameter:
    about = parameter.about
    bounds: dict[str, Any] = {"min": about.least, "max": about.most}
    if isinstance(about, Argument):
        said: Any = typer.Argument(metavar=about.metavar, help=about.help, **bounds)
    else:
        said = typer.Option(*about.names, metavar=about.metavar, help=about.help, envvar=about.variable, **bounds)
    default = inspect.Parameter.empty if parameter.default is REQUIRED else parameter.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(parameter.name, kind, default=default, annotation=Annotated[parameter.kind, said])
