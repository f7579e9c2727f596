"""A node in a process of its own, for tests: it says which lists its next message would get, and how it knew.

Every line that it reads is a message that contains a phrase; it prints whether the lists that the message is analysed
with have this phrase, and how often it had to ask storage.
"""

import asyncio
import json
import sys
from pathlib import Path

from gatepost.guard.answers.lists import ListAnswers
from gatepost.store import open_store, table_watch


async def main(url: str, folder: Path, tenant: str, quiet: float) -> None:
    table_watch.QUIET_SECONDS = quiet
    store = open_store(url, folder)
    answers = ListAnswers(store)
    asked = 0
    ask = store.list_lookup.unkeyed_version

    async def count(scope: str | None) -> str:
        nonlocal asked
        asked += 1
        return await ask(scope)

    setattr(store.list_lookup, "unkeyed_version", count)  # noqa: B010  a method
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    _say("ready")
    while line := await lines.readline():
        before = asked
        snapshot = await answers.snapshot(tenant)
        _say(json.dumps({"has": line.strip() in snapshot.data, "asked": asked - before}))
    await store.close()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
