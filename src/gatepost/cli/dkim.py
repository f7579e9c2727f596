"""`gatepost dkim`: keys that sign mail."""

from pathlib import Path
from typing import Annotated, Literal

from gatepost.cli.commands import BadParameter, Group, Option
from gatepost.cli.deployment import DataOption, Deployment
from gatepost.cli.printing import Output
from gatepost.service.data_folder import StartError

dkim = Group("Make and list the keys that sign mail (DKIM and ARC).")


@dkim.command("key")
def make_key(
    *,
    domain: Annotated[str, Option("--domain", metavar="DOMAIN", help="The domain that signs.")],
    selector: Annotated[str, Option("--selector", metavar="NAME", help="The name of the key within the domain.")],
    algorithm: Annotated[
        Literal["rsa", "ed25519"], Option("--algorithm", help="RSA of 2048 bits, which all verify, or Ed25519.")
    ] = "rsa",
    file: Annotated[
        Path | None, Option("--file", metavar="FILE", help="The new file; by default in `dkim` of the data folder.")
    ] = None,
    data: DataOption = None,
    output: Output,
) -> None:
    """Write a new private key, and print the DNS record of its public half and the lines for guard.yml.

    A file that is there already is not changed. The key signs once guard.yml names it; publish the record before.
    """
    from pydantic import TypeAdapter, ValidationError

    from gatepost.service.signing import make_record, render_record, write_key
    from gatepost.settings.delivery import Selector
    from gatepost.settings.values import Domain

    try:
        domain = TypeAdapter(Domain).validate_python(domain)
        selector = TypeAdapter(Selector).validate_python(selector.lower())
    except ValidationError as fault:
        sentence = fault.errors()[0]["msg"].removeprefix("Value error, ")
        raise BadParameter(sentence, "--domain, --selector") from None
    folder = Deployment(data=data).data_folder.path
    path = (file or folder / "dkim" / f"{domain}.{selector}.pem").expanduser().absolute()
    try:
        made = write_key(path, algorithm)
    except FileExistsError:
        raise StartError(f"{path} is there already. Choose another selector or --file.") from None
    except OSError as fault:
        raise StartError(f"{path} cannot be written: {(fault.strerror or 'unknown error').lower()}.") from None
    name, record = f"{selector}._domainkey.{domain}", make_record(made)
    output.show(
        {"file": str(path), "name": name, "record": record},
        f"Private key: {path}\n\nPublish this record:\n\n{render_record(name, record)}\n\n"
        "Then name the key in guard.yml:\n\n"
        f"dkim:\n  keys:\n    - {{domain: {domain}, selector: {selector}, file: {path}}}",
    )


@dkim.command("list")
def show_keys(*, place: Deployment, output: Output) -> None:
    """Print the keys that guard.yml names, with the records of their public halves, and what DNS has of them."""
    from gatepost.service.signing import compare_with_dns, render_record

    found = compare_with_dns(place.load_guard())
    lines = [(each.domain, each.selector, each.algorithm, each.state, each.reason) for each in found]
    output.show_table(found, ("domain", "selector", "key", "in DNS", "reason"), lines)
    for each in found if not output.json else ():
        if each.state in ("missing", "different"):
            print(f"\n{render_record(each.name, each.record)}")
