"""A model of large deployments, calculated from measured parts: nodes, processors, memory, rows and bytes.

`python -m bench.large_deployments` prints the table of `docs/internals/capacity.md`. The parts are figures of
`RESULTS.md` and of that page; put your own in their place.
"""

# Measured: CPU of a message on a node and memory of a node with two processors (`bench scanning`); bytes of a result on
# PostgreSQL with its indexes, and results a second that a primary takes from four processes which share its two
# processors (`bench recording`).
CPU_SECONDS = 0.00491
NODE_MB = 252
BYTES = 4_602
PRIMARY = 6_486
# Counted: rows of a result with one recipient, with its search row, its recipient and the reply of one next hop.
ROWS = 4
# Assumed: processors of a node and how much of them is used, the busiest minute against the mean of a day, how long
# results are kept, connections.
PROCESSORS, USED, PEAK, DAYS, CONNECTIONS = 2, 0.7, 5, 30, 30
NODES = (1, 10, 100, 1_000)


def run() -> str:
    """The table."""
    lines = [
        "| Nodes | messages a second | a day | memory, GB | rows kept | bytes kept | deployments | connections |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for nodes in NODES:
        rate = nodes * PROCESSORS * USED / CPU_SECONDS
        day = rate * 86_400 / PEAK
        deployments = max(1, -(-int(rate) // PRIMARY))
        lines.append(
            f"| {nodes:,} | {rate:,.0f} | {day / 1e6:,.1f} million | {nodes * NODE_MB / 1_000:,.1f} |"
            f" {day * DAYS * ROWS / 1e9:,.1f} billion | {day * DAYS * BYTES / 1e12:,.1f} TB | {deployments:,} |"
            f" {nodes * CONNECTIONS:,} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(run())
