"""`gatepost scan`: analyse messages from the command line.

Without `--url` the analysis runs in a sealed worker of this command. DNS is asked only with `--dns`: a DNS query tells
the sender that the mail was looked at, and makes the result depend on the day.
"""

from pathlib import Path
from typing import Annotated

import typer

from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    PolicyTenantOption,
    config_folder,
    data_folder,
    parse_tenant_uid,
)

WITHOUT_DNS = "DNS was not asked, so results that depend on it are open; use --dns to ask it."


def scan(
    files: Annotated[list[Path], typer.Argument(help="Messages, mailboxes (mbox), folders, or - for standard input.")],
    json: JsonOption = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="VERDICT", help="Exit with 3 if a message gets this verdict; repeatable."),
    ] = None,
    sender: Annotated[str, typer.Option("--from", metavar="ADDRESS", help="Envelope sender.")] = "",
    recipients: Annotated[
        list[str] | None, typer.Option("--to", metavar="ADDRESS", help="Envelope recipient; repeatable.")
    ] = None,
    remote_address: Annotated[str | None, typer.Option(metavar="IP", help="Address of the host that sent it.")] = None,
    helo: Annotated[str | None, typer.Option(metavar="NAME", help="The HELO or EHLO name of that host.")] = None,
    dns: Annotated[bool, typer.Option("--dns", help="Ask DNS (offline scans only).")] = False,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Let a running Gatepost analyse the messages.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the API token; that of the data folder by default.")
    ] = None,
    cacert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate to verify the server with; that of the data folder by default."),
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not verify the certificate of the server.")
    ] = False,
    tenant: PolicyTenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
) -> None:
    """Analyse messages and print verdict and ledger.

    Exits with 0 if every message was analysed, whatever its verdict; with 3 if a message got a verdict of --fail-on;
    with 1 if a file could not be read or the server not reached.
    """
    from gatepost.cli import scanners
    from gatepost.mail.message import Envelope
    from gatepost.policy.rules import VERDICTS

    if not set(fail_on or ()) <= set(VERDICTS):
        raise typer.BadParameter(f"must be one of {', '.join(VERDICTS)}", param_hint="--fail-on")
    _check_address(remote_address)
    envelope = Envelope(sender, tuple(recipients or ()), remote_address, helo, parse_tenant_uid(tenant))
    if url:
        service = scanners.ScanService(url, token_file, cacert, not no_verify)
        with scanners.online_scanner(service, envelope, data_folder(data)) as scanner:
            counts = scanners.scan_paths(files, scanner, json, "")
    else:
        with scanners.offline_scanner(envelope, dns, config_folder(config, data_folder(data))) as scanner:
            counts = scanners.scan_paths(files, scanner, json, "" if dns else WITHOUT_DNS)
    if counts[scanners.NOT_SCANNED]:
        raise typer.Exit(1)
    if any(counts[verdict] for verdict in fail_on or ()):
        raise typer.Exit(3)


def _check_address(text: str | None) -> None:
    import ipaddress

    try:
        ipaddress.ip_address(text or "::")
    except ValueError:
        raise typer.BadParameter("must be an IPv4 or IPv6 address", param_hint="--remote-address") from None
