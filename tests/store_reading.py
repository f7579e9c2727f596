"""What tests read of a store although no part of the program asks for it."""

from functools import partial

from gatepost.store.audit import MESSAGE_REPORTED, AuditFilter, AuditRecord
from gatepost.store.engine import Engine, Read, Work
from gatepost.store.sql import compose
from gatepost.store.store import Store


async def list_reports(store: Store) -> list[AuditRecord]:
    """The reports of wrong decisions, oldest first; the sample of each is the message and what was said of it."""
    page = await store.audit.page(AuditFilter(action=MESSAGE_REPORTED), limit=1_000)
    return [*reversed(page.rows)]


async def list_work(store: Store) -> list[tuple[str, str]]:
    """Every piece of work that was made of a form, by whomever: whose it is, and what it is about."""
    return await store.bulk_actions._engine.query(_list_work)


def _list_work() -> Work[list[tuple[str, str]]]:
    rows = yield Read(compose("SELECT user_uid, items FROM bulk_actions ORDER BY id"))
    return [(user, items) for user, items in rows]


async def read_attempts(store: Store, user_uid: str) -> dict[str, tuple[int, int]]:
    """The failures to sign in that are counted for each source of a user, and until when the source is locked."""
    return await store._engine.query(partial(_read_attempts, user_uid))


def _read_attempts(user_uid: str) -> Work[dict[str, tuple[int, int]]]:
    rows = yield Read(
        compose("SELECT source, failures, locked_until FROM sign_in_attempts WHERE user_uid = $1"), (user_uid,)
    )
    return {source: (failures, locked_until) for source, failures, locked_until in rows}


def mail_engine(store: Store) -> Engine:
    """The engine of the database that has the mail, where all of it is in one."""
    parts = getattr(store.quarantine, "_parts", (store.quarantine,))
    engine: Engine = parts[-1]._engine
    return engine
