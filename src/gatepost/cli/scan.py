"""`gatepost scan`: the analysis of a server, at the keyboard.

Without `--url` the same code runs in this process. DNS is asked only with `--dns`: mail that is looked at twice must
not tell its sender so, and a result must not depend on the day.
"""

from pathlib import Path
from typing import Annotated

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder
from gatepost.cli.policy_files import TenantOption, own_uid

WITHOUT_DNS = "DNS was not asked, so what depends on it stays open; --dns asks it."


def scan(
    files: Annotated[list[Path], typer.Argument(help="Messages, mailboxes (mbox), folders, or - for standard input.")],
    json: JsonOption = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="VERDICT", help="Exit with 3 where a message gets it; repeatable."),
    ] = None,
    sender: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="Envelope sender.")] = "",
    recipients: Annotated[
        list[str] | None, typer.Option("--to", metavar="ADDRESS", help="Envelope recipient; repeatable.")
    ] = None,
    remote_address: Annotated[str | None, typer.Option(metavar="IP", help="Address of the host that sent it.")] = None,
    helo: Annotated[str | None, typer.Option(metavar="NAME", help="What that host called itself.")] = None,
    dns: Annotated[bool, typer.Option("--dns", help="Ask DNS (offline scans only).")] = False,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Have a running Gatepost do it.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with its token; the data folder's if not given.")
    ] = None,
    cacert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate to verify it with; the data folder's if not given.")
    ] = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not verify its certificate.")] = False,
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
) -> None:
    """Analyse messages and print verdict and ledger.

    Exits with 0 when every message was analysed, whatever its verdict; with 3 when a verdict of --fail-on is among
    them; with 1 when something could not be read or reached.
    """
    from gatepost.cli import scan_files, scanners
    from gatepost.mail.message import Envelope
    from gatepost.policy.rules import VERDICTS

    if not set(fail_on or ()) <= set(VERDICTS):
        raise typer.BadParameter(f"must be one of {', '.join(VERDICTS)}", param_hint="--fail-on")
    _check_address(remote_address)
    envelope = Envelope(sender, tuple(recipients or ()), remote_address, helo, own_uid(tenant))
    if url:
        service = scanners.Service(url, token_file, cacert, not no_verify)
        with scanners.online_scanner(service, envelope, data_folder(data)) as scanner:
            counts = scan_files.run(files, scanner, json, "")
    else:
        with scanners.offline_scanner(envelope, dns, config_folder(config, data_folder(data))) as scanner:
            counts = scan_files.run(files, scanner, json, "" if dns else WITHOUT_DNS)
    if counts[scan_files.NOT_SCANNED]:
        raise typer.Exit(1)
    if any(counts[verdict] for verdict in fail_on or ()):
        raise typer.Exit(3)


def _check_address(text: str | None) -> None:
    import ipaddress

    try:
        ipaddress.ip_address(text or "::")
    except ValueError:
        raise typer.BadParameter("must be an IPv4 or IPv6 address", param_hint="--remote-address") from None
