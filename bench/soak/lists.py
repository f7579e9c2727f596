"""A client of the List API that knows which entries its lists have: those of every change that was acknowledged."""

import json
import random
import time

import httpx

from bench.soak.account import Account
from bench.soak.node import SoakNode

BASE = "/api/public/lists/v1"
COMPARE_EVERY = 30
# At most so many entries a list; further changes delete.
KEYED, PHRASES = 3_000, 200


class ListClient:
    """One tenant's. A change that is not acknowledged is sent again, whatever became of it."""

    def __init__(self, node: SoakNode, account: Account, name: str, tenant: str) -> None:
        self._account, self._name, self._tenant = account, name, tenant
        self._client = httpx.Client(
            base_url=node.url,
            verify=False,
            trust_env=False,
            timeout=600,
            headers={"Authorization": f"apikey {node.keys[name]}"},
        )
        self._entries: dict[str, set[str]] = {"blocked-urls": set(), "blocked-phrases": set()}
        self._number = 0
        self._dice = random.Random(name)

    def step(self) -> None:
        """One change, and from time to time a comparison of a whole list."""
        self._number += 1
        name = "blocked-phrases" if self._number % 10 == 0 else "blocked-urls"
        present = self._entries[name]
        if len(present) > (PHRASES if name == "blocked-phrases" else KEYED) or (present and self._number % 3 == 0):
            gone = self._dice.sample(sorted(present), min(20, len(present)))
            self._change("deleteEntries", name, gone)
            present.difference_update(gone)
        else:
            fresh = [self._entry(name, place) for place in range(30 if name == "blocked-urls" else 2)]
            self._change("addEntries", name, [{"entry": each, "comment": "soak"} for each in fresh])
            present.update(fresh)
        if self._number % COMPARE_EVERY == 0:
            for each in self._entries:
                self._compare(each)

    def _entry(self, name: str, place: int) -> str:
        if name == "blocked-phrases":
            return f"words {self._name} {self._number} of {place}"
        return f"h{self._number}-{place}.{self._name}.example"

    def _change(self, operation: str, name: str, entries: list[str] | list[dict[str, str]]) -> None:
        body: dict[str, object] = {"listName": name, "tenantUid": self._tenant, "entries": entries}
        while self._call(operation, body) is None:
            time.sleep(0.5)
        self._account.changes += 1

    def _compare(self, name: str) -> None:
        while (text := self._call("listEntries", {"listName": name, "tenantUid": self._tenant})) is None:
            time.sleep(0.5)
        there = {json.loads(line)["entry"] for line in text.splitlines()}
        self._account.comparisons += 1
        if there != self._entries[name]:
            missing, extra = self._entries[name] - there, there - self._entries[name]
            self._account.differences.append(f"{self._name} {name}: {len(missing)} missing, {len(extra)} too many")

    def _call(self, operation: str, body: dict[str, object]) -> str | None:
        """The text of the answer; None if it has to be sent again."""
        try:
            answer = self._client.post(f"{BASE}/{operation}", json=body)
        except httpx.TimeoutException:
            self._account.note(operation, "timeout")
            return None
        except httpx.TransportError:
            self._account.note(operation, "broken connection")
            return None
        self._account.note(operation, str(answer.status_code))
        if answer.status_code >= 500 or answer.status_code == 429:
            return None
        assert answer.status_code == 200, answer.text
        return answer.text
