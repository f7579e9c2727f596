"""`gatepost dkim`: keys that sign mail, and whether DNS has their public halves."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder
from gatepost.service.data_folder import StartError

app = typer.Typer(help="Keys that sign mail: DKIM and ARC.", no_args_is_help=True)


@app.command("key")
def key(
    domain: Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="The domain that signs.")],
    selector: Annotated[str, typer.Option("--selector", metavar="NAME", help="The name of the key within the domain.")],
    algorithm: Annotated[
        Literal["rsa", "ed25519"], typer.Option("--algorithm", help="RSA of 2048 bits, which all verify, or Ed25519.")
    ] = "rsa",
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="The new file; by default in `dkim` of the data folder."),
    ] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Write a new private key, and print the DNS record of its public half and the lines for guard.yml.

    A file that is there already is not changed. The key signs once guard.yml names it; publish the record before.
    """
    from pydantic import TypeAdapter, ValidationError

    from gatepost.cli.printing import print_json
    from gatepost.service.signing import make_record, render_record, write_key
    from gatepost.settings.delivery import Selector
    from gatepost.settings.values import Domain

    try:
        domain = TypeAdapter(Domain).validate_python(domain)
        selector = TypeAdapter(Selector).validate_python(selector.lower())
    except ValidationError as fault:
        raise typer.BadParameter(
            fault.errors()[0]["msg"].removeprefix("Value error, "), param_hint="--domain, --selector"
        ) from None
    path = (file or data_folder(data).path / "dkim" / f"{domain}.{selector}.pem").expanduser().absolute()
    try:
        made = write_key(path, algorithm)
    except FileExistsError:
        raise StartError(f"{path} is there already. Choose another selector or --file.") from None
    except OSError as fault:
        raise StartError(f"{path} cannot be written: {(fault.strerror or 'unknown error').lower()}.") from None
    name, record = f"{selector}._domainkey.{domain}", make_record(made)
    if json:
        print_json({"file": str(path), "name": name, "record": record})
        return
    print(f"Private key: {path}\n\nPublish this record:\n\n{render_record(name, record)}\n")
    print("Then name the key in guard.yml:\n")
    print(f"dkim:\n  keys:\n    - {{domain: {domain}, selector: {selector}, file: {path}}}")


@app.command("list")
def show(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Print the keys that guard.yml names, with the records of their public halves, and what DNS has of them."""
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.service.signing import compare_with_dns, render_record
    from gatepost.settings.files import load_guard

    place = data_folder(data)
    found = compare_with_dns(load_guard(config_folder(config, place)))
    if json:
        print_json(found)
        return
    out = console()
    lines = [(each.domain, each.selector, each.algorithm, each.state, each.reason) for each in found]
    out.print(rows(table("domain", "selector", "key", "in DNS", "reason"), lines))
    for each in found:
        if each.state in ("missing", "different"):
            print(f"\n{render_record(each.name, each.record)}")
