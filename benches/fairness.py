"""Writes the section "Fairness" of BENCHMARKS.md: `fairness.py ROWS PAGE VERSION`; `benches/run` makes the rows."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

Row = dict[str, Any]
HEADING = "## Fairness"
INTRODUCTION = """\
`sessiond-bench fairness` makes each load beside a victim, which begins 50 calls of each kind a second whether or not
earlier ones are answered; [overload](docs/overload.md#measure) says how to run it. A cell has p50, p99 and the worst
latency in milliseconds: `append`, `read` and `watch` (from the answer to an append to its delivery) of another tenant,
an append of the loading tenant to another session, and a probe of `/livez`. `>` marks a call without an answer a second
after the load. `lost` counts calls that got no answer although their client takes all, `account` is the most that the
server has buffered for clients, and `memory` its peak."""
KINDS = {"append": "append", "read": "read", "watch": "watch", "same_tenant": "append, same tenant", "probe": "probe"}


def millis(value: float) -> str:
    """A latency with as many digits as tell something."""
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def cell(latencies: list[Row]) -> str:
    """Medians of a kind of call, and how many calls of all rounds failed."""
    p50, p99, worst = (millis(median(it[f"{name}_millis"] for it in latencies)) for name in ("p50", "p99", "worst"))
    mark = "> " if any(it["unanswered"] for it in latencies) else ""
    failed, calls = (sum(it[name] for it in latencies) for name in ("failed", "calls"))
    return f"{p50}, {p99}, {mark}{worst}" + (f" ({failed / calls:.0%} failed)" if failed else "")


def mib(values: list[int | None]) -> str:
    """The largest of the rounds, because a bound has to hold in each."""
    known = [value for value in values if value is not None]
    return f"{max(known) / 2**20:,.0f} MiB" if known else "–"


def table(rows: list[Row]) -> str:
    """All loads on one store. The first row is the victim alone, before all of them."""

    def cells(of: str, rows: list[Row]) -> list[str]:
        return [cell([it for row in rows for it in row[of] if it["kind"] == kind]) for kind in KINDS]

    lines = [["load", *KINDS.values(), "memory", "account", "lost"], ["---"] * (len(KINDS) + 4)]
    lines.append(["none", *cells("alone", rows), mib([row["memory_before_bytes"] for row in rows]), "–", "–"])
    loads = defaultdict(list)
    for row in rows:
        loads[row["load"], row["about"]].append(row)
    for (load, about), of in loads.items():
        lost = sum(row["attack"]["lost"] for row in of)
        memory, account = (mib([row[name] for row in of]) for name in ("memory_peak_bytes", "buffered_peak_bytes"))
        lines.append([f"`{load}`: {about}", *cells("beside", of), memory, account, f"{lost:,}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def backlog(rows: list[Row]) -> str:
    """What waits for the sweep, each second of the load that makes it."""
    of = [row["sweep_backlog"] for row in rows if row["load"] == "sweep"]
    if not of:
        return ""
    seconds = ", ".join(f"{median(each):,.0f}" for each in zip(*of, strict=False))
    return f"\n\nSessions that wait for the sweep in each second of `sweep`: {seconds}."


def main(path: str, page: str, version: str) -> None:
    """Replaces the section, which is the last one of the page."""
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    parts = [Path(page).read_text().split(f"\n{HEADING}\n")[0].rstrip("\n"), HEADING, INTRODUCTION]
    rounds = max(row["round"] for row in rows)
    parts.append(f"Medians of {rounds} rounds on {version}. Of memory and account the largest of them.")
    for store in dict.fromkeys(row["store"] for row in rows):
        of = [row for row in rows if row["store"] == store]
        parts += [f"### {store}", table(of) + backlog(of)]
    Path(page).write_text("\n\n".join(parts) + "\n")


main(*sys.argv[1:])
