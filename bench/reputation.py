"""What ten reputation zones cost a message: CPU, and time where each answer of DNS takes 20 ms.

The same real mail goes to two services in turns, one with ten zones (three of hosts, five of domains, one of addresses,
one of files) and one without. Both ask a name server that answers "no such name" after 20 ms.
"""

import contextlib
from statistics import median

from bench import corpus, load
from bench.gateway import NoSuchName
from bench.scanning import CONNECTIONS, Round, gatepost, measured

MESSAGES = 600
ROUNDS = 3
DELAY = 0.02
LISTED = "answers: [{codes: ['127.0.0.2-127.0.0.254'], means: listed}]"
ZONES = (
    *(f"{{name: host{number}, zone: host{number}.example, asks: ip, {LISTED}}}" for number in range(3)),
    *(f"{{name: site{number}, zone: site{number}.example, asks: domain, {LISTED}}}" for number in range(5)),
    f"{{name: people, zone: people.example, asks: hash, of: [address], hash: sha1, encoding: hex, {LISTED}}}",
    f"{{name: files, zone: files.example, asks: hash, {LISTED}}}",
)
SETTINGS = "reputation:\n  zones:\n" + "".join(f"    - {zone}\n" for zone in ZONES)


def run() -> str:
    """Run both in turns and compare them."""
    try:
        messages = corpus.mail(MESSAGES)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    rounds: dict[str, list[Round]] = {}
    with contextlib.ExitStack() as stack:
        names = NoSuchName(DELAY)
        stack.callback(names.close)
        servers = {
            "without zones": stack.enter_context(gatepost(messages, names.address)),
            "ten zones": stack.enter_context(gatepost(messages, names.address, SETTINGS)),
        }
        for server in servers.values():
            load.send(server.url, server.requests[:50], CONNECTIONS)
        for _ in range(ROUNDS):
            for name, server in servers.items():
                rounds.setdefault(name, []).append(measured(server))
    lines = ["| | server CPU a message, ms | p50, ms | p99, ms | errors |", "|---|---:|---:|---:|---:|"]
    figures = {}
    for name, seen in rounds.items():
        figures[name] = cpu, p50 = median(each.cpu for each in seen), median(each.p50 for each in seen)
        p99, errors = median(each.p99 for each in seen), sum(each.errors for each in seen)
        lines.append(f"| {name} | {cpu:.2f} | {p50:.1f} | {p99:.1f} | {errors} |")
    (cpu, p50), (more_cpu, more_p50) = figures["without zones"], figures["ten zones"]
    lines.append(f"\nCPU with ten zones: {more_cpu / cpu:.2f} of that without; p50: {more_p50 / p50:.2f}.")
    return "\n".join(lines)
