"""What customers write and mail that is made for it: the CPU time that both together add to the message.

Lists that no key finds, rules, YARA rules and learnt models come to a worker, which compiles them once, and every
message of their tenant is compared with them: the first message after a change pays for what is compiled on first use.
Lists that are looked up by key, those of feeds and custom ones, cost storage a probe for each key and list; that is the
row of custom lists, on SQLite. Neither compiling nor a message may take 0.5 s. Entries, mail and limits are in
`bench/nasty.py`, and `tests/lists/test_hostile_pairs.py` counts the work of each pair at two sizes.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from bench.nasty import CUSTOM_PAIRS, MODEL_PAIRS, PAIRS, RULE_PAIRS, YARA_PAIRS
from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.files.yara import compile_rules
from gatepost.lists.catalogue import KINDS, make_custom_list
from gatepost.lists.entries import UnkeyedEntry
from gatepost.lists.unkeyed import NO_LISTS, UnkeyedLists, compile_lists, pack_lists
from gatepost.policy.rules import OwnRule, shipped_policy
from gatepost.questions import Answers, Lookup
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.textmodel.learnt import LearntModels, make_model, parse_learnt_models
from gatepost.workers import warmup

MOST_SECONDS = 0.5
Prepare = Callable[[], Context]
Keys = tuple[tuple[str, tuple[str, ...]], ...]


def pack(entries: dict[str, list[str]]) -> bytes:
    """Return the snapshot of these lists, as workers get it."""
    found = {name: tuple(UnkeyedEntry(name, "tenant", each, each) for each in shown) for name, shown in entries.items()}
    return pack_lists(UnkeyedLists("1", found))


def use_lists(entries: dict[str, list[str]]) -> Prepare:
    """What a worker does once with lists."""
    data = pack(entries)
    return lambda: Context(now=warmup.NOW, lists=compile_lists(data))


def use_rules(conditions: list[str]) -> Prepare:
    """What a worker does once with rules: they are compiled with the first message."""
    rules = {f"r{number}": OwnRule(when, "x", "spam") for number, when in enumerate(conditions)}
    policy = msgspec.structs.replace(shipped_policy(), rules=rules)
    return lambda: Context(now=warmup.NOW, policy=policy)


def use_yara_rules(text: str) -> Prepare:
    """What the loader does once with YARA rules."""

    def prepare() -> Context:
        with tempfile.TemporaryDirectory() as name:
            Path(name, "rules.yar").write_text(text, "utf-8")
            return Context(now=warmup.NOW, rules=compile_rules(Path(name)))

    return prepare


def use_models(features: int) -> Prepare:
    """What a worker does once with the models of a tenant and of the deployment."""
    table = np.zeros(1 << 16)
    table[:features] = 0.5
    data = msgspec.msgpack.encode((make_model(table, 0.1, 1_000).to_bytes(),) * 2)

    def prepare() -> Context:
        models = parse_learnt_models(data)
        assert isinstance(models, LearntModels)
        return Context(now=warmup.NOW, learnt=models)

    return prepare


def list_pairs(share: float) -> Iterator[tuple[str, Prepare, bytes]]:
    """Yield every pair that costs a worker, at this share of the limits: its name, what is prepared, the message."""
    for name, of_lists in PAIRS.items():
        entries, raw = of_lists(share)
        yield name, use_lists(entries), raw
    for name, of_rules in RULE_PAIRS.items():
        conditions, raw = of_rules(share)
        yield name, use_rules(conditions), raw
    for name, of_yara in YARA_PAIRS.items():
        text, raw = of_yara(share)
        yield name, use_yara_rules(text), raw
    for name, of_models in MODEL_PAIRS.items():
        features, raw = of_models(share)
        yield name, use_models(features), raw


def report_on(raw: bytes, context: Context, asked: list[Keys] | None = None) -> Report:
    """Analyse one message; `asked` gets the keys that lists are asked for."""
    analysis = analyse(raw, warmup.ENVELOPE, context)
    try:
        questions = next(analysis)
        while True:
            if asked is not None:
                asked += [each.keys for each in questions if isinstance(each, Lookup)]
            answers: Answers = warmup.answers_to(questions)
            questions = analysis.send(answers)
    except StopIteration as stop:
        report: Report = stop.value
        return report


def collect_asked_keys(raw: bytes) -> Keys:
    """Return the keys that lists are asked for about a message, where every kind of list has entries."""
    asked: list[Keys] = []
    lists = compile_lists(pack_lists(UnkeyedLists("1", keyed=tuple(KINDS))))
    report_on(raw, Context(now=warmup.NOW, lists=lists), asked)
    return asked[0]


def _time(raw: bytes, context: Context) -> float:
    before = time.process_time()
    report_on(raw, context)
    return time.process_time() - before


def _time_look_up(lists: int, raw: bytes) -> tuple[float, float]:
    """Return what the first and the next look-up take in storage."""

    async def measure(folder: Path) -> tuple[float, float]:
        store = open_store(f"sqlite:{folder / 'pairs.db'}", folder)
        tenant = await store.tenants.create("pairs", CLI)
        uid = str(getattr(tenant, "uid", ""))
        for number in range(lists):
            made = make_custom_list(f"own-{number}", "url", "block", "", "", 1_000)
            await store.lists.create(uid, made, CLI)
            entries = [NewEntry(f"x{each}.example", f"x{each}.example") for each in range(500)]
            await store.lists.add(uid, made, entries, CLI)
        keys, taken = collect_asked_keys(raw), []
        for _ in range(3):
            before = time.process_time()
            await store.list_lookup.find_for_mail(uid, keys)
            taken.append(time.process_time() - before)
        await store.close()
        return taken[0], min(taken[1:])

    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(measure(Path(name)))


def run() -> str:
    """Measure every pair at its limits."""
    gc.set_threshold(20_000, 10, 10)  # as in a worker
    lines = [
        "| Pair | compiled, s | first message, s | next message, s | the message alone, s |",
        "|---|---:|---:|---:|---:|",
    ]

    def tell(name: str, compiled: float, first: float, again: float, plain: float) -> None:
        late = " **over**" if max(compiled, first, again) > MOST_SECONDS else ""
        lines.append(f"| {name}{late} | {compiled:.2f} | {first:.2f} | {again:.2f} | {plain:.2f} |")

    alone = Context(now=warmup.NOW, lists=NO_LISTS)
    for name, prepare, raw in list_pairs(1.0):
        before = time.process_time()
        context = prepare()
        compiled = time.process_time() - before
        plain = min(_time(raw, alone) for _ in range(2))
        first, again = _time(raw, context) - plain, min(_time(raw, context) for _ in range(2)) - plain
        tell(name, compiled, first, again, plain)
    for name, make in CUSTOM_PAIRS.items():
        lists, raw = make(1.0)
        tell(name, 0.0, *_time_look_up(lists, raw), _time(raw, alone))
    return "\n".join(lines)


if __name__ == "__main__":
    print(run())
