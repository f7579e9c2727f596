"""The figures of a soak as markdown."""

import os
from collections import defaultdict

from bench.soak.account import Account, Outcome
from bench.soak.faults import Faults
from bench.soak.node import DISK_MIB, SoakNode
from bench.soak.samples import Sampler

MB = 1_000_000


def describe(outcome: Outcome, sampler: Sampler, faults: Faults, node: SoakNode, seconds: float) -> str:
    """All sections."""
    account = outcome.account
    happened = ", ".join(f"{count} × {name}" for name, count in sorted(faults.happened.items()))
    disk = f"a tmpfs of {DISK_MIB} MiB filled to the last byte" if node.has_disk else "not run, no tmpfs can be mounted"
    losses = outcome.losses
    total = sum(losses.values())
    ordered = sorted(account.latencies) or [0.0]
    quantiles = ", ".join(f"{name} {_at(ordered, share):.2f} s" for name, share in (("p50", 0.5), ("p99", 0.99)))
    setting = (
        f"{seconds / 60:.0f} minutes on {node.engine}, {account.answered:,} messages answered "
        f"({account.answered / seconds:.1f} a second; REST {quantiles}, slowest {ordered[-1]:.1f} s), "
        f"{account.changes:,} list changes, {account.comparisons} lists compared whole. Faults: {happened}; full "
        f"disk: {disk}; each of disk, DNS and database lasts {faults.lasting:.0f} s. The node was started "
        f"{node.starts} times. Load of the machine at the end: {os.getloadavg()[0]:.1f}."
    )
    kept = (
        f"{outcome.records:,} records, {outcome.held:,} held, {outcome.duplicates} SMTP duplicates after "
        f"{sum(account.cut.values())} cut replies. Decisions over REST: {_counts(account.decisions)}."
    )
    lost = f"**{total} lost**: " + ", ".join(f"{count} {name}" for name, count in losses.items()) + "."
    differences = [f"- {each}" for each in account.differences[:20]]
    tables = (_outcomes(outcome), _slopes(sampler), _sizes(sampler))
    return "\n".join((setting, "", lost, kept, *differences, *(line for table in tables for line in ("", *table))))


def describe_interim(account: Account, sampler: Sampler) -> str:
    """What can be said while clients still send."""
    seen = (
        f"{account.answered:,} answered, {len(account.timeouts)} timed out, {len(account.unknown_records)} without a "
        f"record, {len(account.differences)} of {account.comparisons} lists differ"
    )
    return "\n".join((seen, *_slopes(sampler)))


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counted.items()))


def _outcomes(outcome: Outcome) -> list[str]:
    rows: dict[str, dict[str, int]] = defaultdict(dict)
    for (client, what), count in outcome.account.outcomes.items():
        rows[client][what] = count
    return [
        "| Client | Answers; all that failed was sent again |",
        "|---|---|",
        *(f"| {client} | {_counts(whats)} |" for client, whats in sorted(rows.items())),
    ]


def _slopes(sampler: Sampler) -> list[str]:
    columns = "memory (USS) MB, line's start → end | MB an hour | MB for 1,000 messages"
    lines = [
        f"| Process | minutes | {columns} | descriptors an hour | threads an hour |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    memory = list(sampler.slopes(lambda each: each.memory))
    descriptors = list(sampler.slopes(lambda each: each.descriptors))
    threads = list(sampler.slopes(lambda each: each.threads))
    for (role, line), (_, files), (_, several) in sorted(
        zip(memory, descriptors, threads, strict=True), key=lambda row: (row[0][0], -row[0][1].minutes)
    ):
        lines.append(
            f"| {role} | {line.minutes:.0f} | {line.first / MB:.1f} → {line.last / MB:.1f} | "
            f"{line.hourly / MB:+.2f} ± {line.error / MB:.2f} | {line.by_messages / MB:+.3f} | "
            f"{files.hourly:+.1f} | {several.hourly:+.1f} |"
        )
    return lines


def _sizes(sampler: Sampler) -> list[str]:
    lines = ["| On disk | MB at first | MB at last | KB for 1,000 messages |", "|---|---:|---:|---:|"]
    looks = [(count, sizes) for count, sizes in sampler.sizes if sizes]
    if len(looks) < 2:
        return lines
    for name in looks[-1][1]:
        known = [(count, sizes[name]) for count, sizes in looks if name in sizes]
        (before, first), (after, last) = known[0], known[-1]
        each = (last - first) / max(1, after - before)
        lines.append(f"| {name} | {first / MB:.1f} | {last / MB:.1f} | {each:.1f} |")
    return lines
