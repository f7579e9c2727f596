"""`gatepost scan`: analyse messages from the command line.

Without `--url` the analysis runs in a sealed worker of this command. DNS is asked only with `--dns`: a DNS query tells
the sender that the mail was looked at, and makes the result depend on the day.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

from gatepost.cli.api_client import CaOption, MessageService, NoVerifyOption, TokenOption
from gatepost.cli.commands import Argument, BadParameter, Option
from gatepost.cli.deployment import Deployment, PolicyTenantOption, parse_tenant_uid
from gatepost.cli.printing import Output

WITHOUT_DNS = "DNS was not asked, so results that depend on it are open; use --dns to ask it."


def scan(
    files: Annotated[list[Path], Argument(help="Messages, mailboxes (mbox), folders, or - for standard input.")],
    *,
    output: Output,
    fail_on: Annotated[
        list[str] | None,
        Option("--fail-on", metavar="VERDICT", help="Exit with 3 if a message gets this verdict; repeatable."),
    ] = None,
    sender: Annotated[str, Option("--from", metavar="ADDRESS", help="Envelope sender.")] = "",
    recipients: Annotated[
        list[str] | None, Option("--to", metavar="ADDRESS", help="Envelope recipient; repeatable.")
    ] = None,
    remote_address: Annotated[str | None, Option(metavar="IP", help="Address of the host that sent it.")] = None,
    helo: Annotated[str | None, Option(metavar="NAME", help="The HELO or EHLO name of that host.")] = None,
    dns: Annotated[bool, Option("--dns", help="Ask DNS (offline scans only).")] = False,
    url: Annotated[str | None, Option(metavar="URL", help="Let a running Gatepost analyse the messages.")] = None,
    token_file: TokenOption = None,
    cacert: CaOption = None,
    no_verify: NoVerifyOption = False,
    tenant: PolicyTenantOption = None,
    place: Deployment,
) -> None:
    """Analyse messages and print verdict and ledger.

    Exits with 0 if every message was analysed, whatever its verdict; with 3 if a message got a verdict of --fail-on;
    with 1 if a file could not be read or the server not reached.
    """
    from gatepost.cli import scanners
    from gatepost.mail.message import Envelope
    from gatepost.policy.rules import VERDICTS

    if not set(fail_on or ()) <= set(VERDICTS):
        raise BadParameter(f"must be one of {', '.join(VERDICTS)}", "--fail-on")
    _check_address(remote_address)
    envelope = Envelope(sender, tuple(recipients or ()), remote_address, helo, parse_tenant_uid(tenant))
    if url:
        service = MessageService(
            url=url, token_file=token_file, cacert=cacert, no_verify=no_verify, config=place.config, data=place.data
        )
        with service.connect() as client:
            counts = scanners.scan_paths(files, partial(scanners.scan_online, client, envelope), output)
    else:
        with scanners.offline_scanner(envelope, dns, place) as scanner:
            counts = scanners.scan_paths(files, scanner, output, "" if dns else WITHOUT_DNS)
    if counts[scanners.NOT_SCANNED]:
        raise SystemExit(1)
    if any(counts[verdict] for verdict in fail_on or ()):
        raise SystemExit(3)


def _check_address(text: str | None) -> None:
    import ipaddress

    try:
        ipaddress.ip_address(text or "::")
    except ValueError:
        raise BadParameter("must be an IPv4 or IPv6 address", "--remote-address") from None
