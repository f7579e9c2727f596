"""What is wrong with a PostgreSQL server or the way to it: its own words, and what to do.

The server says what it refuses and why; a sentence of ours instead would hide that. So every fault is the address
without its secrets, the words of the server or of the system, and one piece of advice that depends on the error code
(https://www.postgresql.org/docs/current/errcodes-appendix.html). Codes are more exact than exceptions: `28000` is a
role that does not exist as well as a host that pg_hba.conf does not allow, so there the words decide too.
"""

import os
import pwd
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg

from gatepost.process.hiding import hide, hide_text
from gatepost.store.errors import StorageError

CONNECT_SECONDS = 10
# The oldest major version that the schema works with: partitions are detached beside what goes on.
LEAST_VERSION = 14

_PAGE = "see docs/postgresql.md"
POOLER_NOT_NAMED = (
    f"leads to a pooler, such as PgBouncer; say which mode it has: pooler=session or pooler=transaction ({_PAGE})"
)
# By the beginning of the code and a part of the words; the first that fits.
_ADVICE: tuple[tuple[str, str, str], ...] = (
    ("28", "pg_hba.conf", f"allow this host, user and database in pg_hba.conf of the server ({_PAGE})"),
    ("28", "does not exist", f"create the role with LOGIN and a password ({_PAGE})"),
    ("28", "not permitted to log in", "let the role log in: ALTER ROLE … LOGIN"),
    ("28", "", "check user and password in storage.url"),
    ("3D000", "", f"create the database first, with the encoding UTF8 ({_PAGE})"),
    ("42501", "database", "let the role connect: GRANT CONNECT ON DATABASE … TO …"),
    ("42501", "", f"make the role the owner of the database and of its schema public ({_PAGE})"),
    ("53100", "", "make room on the disk of the server"),
    ("53300", "", f"raise max_connections of the server, or put PgBouncer before it ({_PAGE})"),
    ("53", "", "give the server more of what it lacks; its log says more"),
    ("25006", "", f"name the primary in storage.url, or all servers with target_session_attrs=read-write ({_PAGE})"),
    ("57P03", "", "wait until the server has started, or look at its log"),
    ("57014", "", "look for statement_timeout and lock_timeout on the server"),
    ("57", "", "the server was stopped or has ended this connection"),
    ("08", "", "is a PostgreSQL server there?"),
    ("58", "", "look at the log and the disk of the server"),
    ("55000", "", "wait until the server accepts connections, or look at its log"),
)
# Faults of a server; others are faults of a statement, and so of this program.
_OF_SERVER = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresConnectionError,
    asyncpg.PostgresSystemError,
    asyncpg.ObjectNotInPrerequisiteStateError,  # "not currently accepting connections"
    asyncpg.IdleInTransactionSessionTimeoutError,
)


@contextmanager
def explain_errors(url: str) -> Iterator[None]:
    """Turn errors of the server or the network into a `StorageError` that says what to do."""
    try:
        yield
    except _OF_SERVER as fault:
        raise _explain(url, fault) from fault
    except (OSError, TimeoutError) as fault:
        said = _describe(fault)
        end = "" if said.endswith("?") else "."
        raise StorageError(f"{hide(url)} cannot be reached: {said}{end}") from fault
    except asyncpg.exceptions.TargetServerAttributeNotMatched as fault:
        advice = "promote one, or look why the primary is away"
        raise StorageError(f"{hide(url)}: no server of the address can be written; {advice}.") from fault
    except (asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
        # The second comes where a connection is cut while its next statement is on the way.
        if isinstance(fault, ValueError):
            raise  # a value that no column takes: a fault of the caller, not of the server
        raise StorageError(f"{hide(url)} cannot be used: {fault}.") from fault


@contextmanager
def explain_opening(url: str) -> Iterator[None]:
    """The same while a connection is opened: then whatever the server says is a fault of the server."""
    avoid_unreadable_home()
    try:
        with explain_errors(url):
            yield
    except asyncpg.exceptions.ClientConfigurationError as fault:
        raise StorageError(f"{hide(url)}: {hide_text(str(fault)).rstrip('.')}; check storage.url.") from None
    except ValueError:
        # What could not be read is often a piece of a password, so the words of the fault are not shown.
        advice = "write signs such as / ? # @ and [ in its user and password percent-encoded"
        raise StorageError(f"{hide(url)} is no address of a database; {advice}, and its ports as numbers.") from None
    except asyncpg.PostgresError as fault:
        raise _explain(url, fault) from fault


def check_version(url: str, major: int) -> None:
    """Raise `StorageError` for a server that is too old."""
    if major < LEAST_VERSION:
        raise StorageError(
            f"{hide(url)} is PostgreSQL {major}; Gatepost needs {LEAST_VERSION} or later: upgrade the server."
        )


def _explain(url: str, fault: asyncpg.PostgresError) -> StorageError:
    code, words = fault.sqlstate or "", (fault.message or str(fault)).strip().rstrip(".")
    advice = next((each for start, part, each in _ADVICE if code.startswith(start) and part in words), "")
    return StorageError(f"{hide(url)}: {words} ({code}); {advice or 'its log says more'}.")


def _describe(fault: OSError | TimeoutError) -> str:
    """What the system says, and what to do, as the end of a sentence."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({fault.verify_message}); name its authority with sslrootcert"
    if isinstance(fault, ssl.SSLError):
        return f"TLS failed ({fault.reason or fault}); look at ssl in postgresql.conf"
    if isinstance(fault, socket.gaierror):
        return (
            f"its host name is not known ({str(fault.strerror).lower()}); check it in storage.url, and the name servers"
        )
    if isinstance(fault, TimeoutError) and not fault.errno:
        return f"no answer within {CONNECT_SECONDS} seconds; is a firewall in the way, or does the server hang?"
    if isinstance(fault, ConnectionRefusedError):
        return "connection refused; is it running, and does listen_addresses have this address?"
    if isinstance(fault, FileNotFoundError):
        return "no such file or socket; is it running, and are host and sslrootcert in storage.url right?"
    if isinstance(fault, PermissionError):
        named = fault.filename or "a file or socket"
        return f"this user may not use {named}; look at its rights and those of its folders"
    if "SSL" in str(fault):
        # asyncpg's own words, where the server has no TLS and the address asks for it.
        return f"{str(fault).rstrip('.')}; turn ssl on in postgresql.conf, or say sslmode=prefer"
    said = os.strerror(fault.errno).lower() if fault.errno else str(fault).rstrip(".") or type(fault).__name__
    return f"{said}; is it running?"


def avoid_unreadable_home() -> None:
    """Point HOME to the home of this process's user where the one that it names cannot be read, as after `sudo -E`.

    asyncpg looks for certificates and passwords below HOME, as libpq does, and fails where it may not look."""
    try:
        (Path.home() / ".postgresql").stat()
    except PermissionError:
        try:
            os.environ["HOME"] = pwd.getpwuid(os.geteuid()).pw_dir
            (Path.home() / ".postgresql").stat()
        except (KeyError, PermissionError):
            os.environ["HOME"] = "/nonexistent"
        except OSError:
            return
    except (OSError, RuntimeError):
        return
