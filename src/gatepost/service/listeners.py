"""The ports of a process, which stay open while what stands behind them is replaced.

HTTP: connections belong to the port, and each request goes to the application that is newest when it begins; so a
client that keeps its connection open notices nothing. SMTP: a session keeps the services that it began with; when
others take over, it ends with 421 after its current message (RFC 5321 section 3.8), and the client comes again. Milter:
a connection stays, and each message is handled by the services that are newest when it begins.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from gatepost.service.certificates import check_pair
from gatepost.service.http_servers import Server, Serves, build_server, load_pair
from gatepost.service.node import SingleProcess
from gatepost.service.plan import Bound, Plan
from gatepost.settings.scan_sources import ConnectionSettings, SmtpSettings

if TYPE_CHECKING:
    from gatepost.milter.intake import MilterIntake
    from gatepost.milter.session import MilterPart
    from gatepost.smtp.intake import Intake
    from gatepost.smtp.services import Services

HTTP_PORTS = ("guard", "abby", "metrics", "guard metrics")


class SmtpPart(msgspec.Struct, frozen=True):
    """The SMTP source of one generation: what its sessions use, and the limits on them."""

    services: "Services"
    settings: SmtpSettings


class _Application:
    """An application, and the requests that it has not answered yet."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.present = app, 0
        self.idle = asyncio.Event()
        self.idle.set()


class SwitchedApp:
    """The application of a port: the newest one gets every request that begins."""

    def __init__(self) -> None:
        self._newest: _Application | None = None

    def use(self, app: ASGIApp) -> Callable[[], Awaitable[object]]:
        """Give new requests to this application; returns what waits until the one before has answered all of its."""
        before, self._newest = self._newest, _Application(app)

        async def wait() -> None:
            if before:
                await before.idle.wait()

        return wait

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
            return
        newest = self._newest
        assert newest is not None
        newest.present += 1
        newest.idle.clear()
        try:
            await newest.app(scope, receive, send)
        finally:
            newest.present -= 1
            if not newest.present:
                newest.idle.set()


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    """What an application does at the start and the end is done by its generation."""
    for answer in ("lifespan.startup.complete", "lifespan.shutdown.complete"):
        await receive()
        await send({"type": answer})


class Listeners:
    """The servers of a process on its bound ports, built for its first plan and kept to its end."""

    def __init__(self, plan: Plan, bound: Bound, node: SingleProcess) -> None:
        self._apps: dict[str, SwitchedApp] = {}
        self._http: dict[str, Server] = {}
        for name in (name for name in HTTP_PORTS if name in bound):
            app = self._apps[name] = SwitchedApp()
            tally, balance = node.connections(name), node.balance(name)
            pair, limits = _pair_of(plan, name), _limits_of(plan, name)
            if name in ("metrics", "guard metrics"):
                tally = balance = None
            self._http[name] = build_server(app, bound[name], pair, limits, tally=tally, balance=balance)
        self._smtp: Intake | None = None
        self._milter: MilterIntake | None = None
        self._node, self._bound = node, bound

    @property
    def servers(self) -> list[Serves]:
        """Every server; complete once the first generation has taken over."""
        return [*self._http.values(), *(each for each in (self._smtp, self._milter) if each)]

    def intake(self, part: SmtpPart) -> "Intake":
        """Return the SMTP server; the first generation builds it."""
        from gatepost.smtp.client import parse_networks
        from gatepost.smtp.intake import Intake

        if self._smtp is None:
            source = part.settings
            self._smtp = Intake(
                part.services,
                (*self._bound["smtp"], *self._bound.get("smtp outbound", ())),
                source.max_connections,
                parse_networks(source.xclient_hosts),
                reserved=source.reserved_connections,
                tally=self._node.connections("smtp"),
                balance=self._node.balance("smtp"),
            )
        return self._smtp

    def milter_intake(self, part: "MilterPart") -> "MilterIntake":
        """Return the server for mail servers that ask for verdicts; the first generation builds it."""
        from gatepost.milter.intake import MilterIntake

        if self._milter is None:
            tally, balance = self._node.connections("milter"), self._node.balance("milter")
            self._milter = MilterIntake(part, self._bound["milter"], tally=tally, balance=balance)
        return self._milter

    def use_tls(self, contexts: Mapping[str, ssl.SSLContext]) -> None:
        """Speak TLS with these contexts, by port, with clients that connect from now on."""
        for name, server in self._http.items():
            server.use_tls(contexts.get(name))

    def renew_smtp_certificate(self, plan: Plan) -> None:
        """Read the certificate for STARTTLS again; raises `StartError` if it cannot be used."""
        tls = self._smtp.services.tls if self._smtp else None
        if tls:
            check_pair(*plan.smtp_certificate)
            tls.load_cert_chain(*plan.smtp_certificate)

    def use(
        self,
        plan: Plan,
        apps: Mapping[str, ASGIApp],
        smtp: SmtpPart | None,
        milter: "MilterPart | None" = None,
    ) -> Callable[[], Awaitable[object]]:
        """Let what a generation has built serve from now on, with its limits; returns what waits until nothing of the
        one before is in use."""
        waits = [self._apps[name].use(apps[name]) for name in self._apps if name in apps]
        for name, server in self._http.items():
            server.limit_connections(_limits_of(plan, name))
        if smtp and self._smtp:
            from gatepost.smtp.client import parse_networks

            source = smtp.settings
            listed = parse_networks(source.xclient_hosts)
            waits.append(self._smtp.use(smtp.services, source.max_connections, listed, source.reserved_connections))

        if milter and self._milter:
            waits.append(self._milter.use_part(milter))

        async def wait() -> None:
            await asyncio.gather(*(each() for each in waits))

        return wait


def _limits_of(plan: Plan, name: str) -> ConnectionSettings:
    if name == "abby" and plan.abby:
        return plan.abby.connections
    source = plan.guard.scan_sources.rest_api if plan.guard and name == "guard" else None
    return source.connections if source else ConnectionSettings()


def _pair_of(plan: Plan, name: str) -> tuple[Path, Path] | None:
    if name == "abby":
        return plan.certificate
    return plan.guard_certificate if name == "guard" else None


def load_certificates(plan: Plan) -> dict[str, ssl.SSLContext]:
    """Return the context of every HTTPS port of a plan; raises `StartError` if one cannot be used."""
    found: dict[str, ssl.SSLContext] = {}
    for name, service in (("guard", plan.guard), ("abby", plan.abby)):
        if service and (pair := _pair_of(plan, name)):
            found[name] = load_pair(*pair)
    return found


def smtp_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context for STARTTLS; raises `StartError`."""
    check_pair(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
