"""Writes BENCHMARKS.md from the rows of benches/run: `report.py ROWS SECONDS VERSION POSTGRES FILESYSTEM`."""

import json
import os
import platform
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

WORKLOADS = {
    "append": "append, a session per caller",
    "hot": "append, one session",
    "stream": "append, 16 streams",
    "read": "read",
}
GROUPS = {
    "grpc": (
        "The service",
        "`sessiond bench`, over gRPC. An append has a body of 1 KiB and changes a key of each scope. A read returns 20 keys of\n"
        "each scope and the newest 20 of 10,000 events, as JSON text. The echo answers with the same messages, and neither\n"
        "decides nor stores anything: what HTTP/2 and protobuf allow on this machine.",
    ),
    "rust": (
        "ADK for Rust",
        "Through ADK's `SessionService`. An append has 1 KiB of text and changes a key of each scope; all callers share the\n"
        "application's key. A read returns the newest 20 of 200 events. adk-session's services run in the callers' process,\n"
        "sessiond in its own. `SqliteSessionService` has a pool of one connection in WAL mode, its best setting: with more, its\n"
        "transactions fail because the file is locked.",
    ),
    "python": (
        "ADK for Python",
        "Through ADK's `BaseSessionService`. An append has 1 KiB of text and changes two keys of the session and one of the\n"
        "user. A read returns the newest 20 of 200 events. `DatabaseSessionService` has a file in WAL mode.",
    ),
}
DURABILITY = """| contender | an append is acknowledged |
|---|---|
| sessiond, SQLite | after one flush of the WAL (`synchronous=FULL`), which appends that wait share |
| sessiond, PostgreSQL | after a commit with `synchronous_commit=on` |
| SqliteSessionService | after a flush of the WAL (`synchronous=FULL`) by each append |
| PostgresSessionService | after a commit by each append, with PostgreSQL's default `synchronous_commit=on` |
| DatabaseSessionService, SQLite | after a flush of the WAL (`synchronous=FULL`) by each append |
| echo | stores nothing |"""


def machine(version: str, postgres: str, filesystem: str) -> str:
    """The machine and the versions, as a list."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text()).group(1)) // 1_000_000
    lock = Path("benches/rust/Cargo.lock").read_text()
    adk = re.search(r'name = "adk-session"\nversion = "(.*)"', lock).group(1)
    google_adk = re.search(r"google-adk==(\S+)", Path("clients/python/requirements.lock").read_text()).group(1)
    return "\n".join([
        f"* {os.cpu_count()} cores of {cpu.group(1) if cpu else platform.processor()}, {memory} GB of memory, {filesystem},"
        f" Linux {platform.release().split('-')[0]}",
        f"* {version}, PostgreSQL {re.search(r'[0-9.]+', postgres).group()} with its default settings",
        f"* adk-session {adk}, google-adk {google_adk}",
        "* clients, servers and databases share the machine",
    ])


def cell(rows: list[dict]) -> str:
    """Median and spread of the rate, and medians of the latencies."""
    if not rows:
        return "–"
    rates = [row["per_second"] for row in rows]
    p50, p99 = (median(row[key] for row in rows) / 1000 for key in ("p50_micros", "p99_micros"))
    return f"**{median(rates):,.0f}/s** ({min(rates):,.0f}–{max(rates):,.0f}), {p50:.2f}, {p99:.2f} ms"


def main(path: str, seconds: str, version: str, postgres: str, filesystem: str) -> None:
    """Prints the page."""
    measured = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    for row in rows:
        measured[row["group"]][row["workload"], row["in_flight"]][row["contender"]].append(row)
    rounds = max(row["round"] for row in rows)
    print(f"""# Benchmarks

Written by `benches/run`, which measures all of this on your machine. Each round measures every contender in turn. A
cell has the median of {rounds} rounds of {seconds} s in calls per second, the lowest and the highest round, and the medians
of p50 and p99. Compare the columns of a row; other machines have other figures.

{machine(version, postgres, filesystem)}
""")
    for group, (title, text) in GROUPS.items():
        contenders = list(dict.fromkeys(row["contender"] for row in rows if row["group"] == group))
        print(f"## {title}\n\n{text}\n\n| calls | in flight | {' | '.join(contenders)} |\n|---|---{'|---' * len(contenders)}|")
        order = sorted(measured[group], key=lambda it: (list(WORKLOADS).index(it[0]), it[1]))
        for workload, in_flight in order:
            of = measured[group][workload, in_flight]
            cells = " | ".join(cell(of[contender]) for contender in contenders)
            print(f"| {WORKLOADS[workload]} | {in_flight} | {cells} |")
        print()
    print(f"## Durability\n\n{DURABILITY}")
    if failed := sum(row.get("errors", 0) for row in rows):
        print(f"\n{failed} calls failed.")


main(*sys.argv[1:])
