"""Replicas on a cluster of Patroni, under faults: nothing acknowledged is lost, and calls succeed again within a bound.

Arguments choose cases by parts of their names. A line for each case says what clients saw, the last one has the counts.
"""

import signal
import sys
import time
from collections.abc import Callable
from functools import partial

from cases import CASES, fence, run
from cluster import LOGS, OWN_NETWORKS, Cluster

# Lines of each log that a failure shows.
LINES = 12


def attempt(name: str, case: Callable[[], str]) -> bool:
    begun = time.monotonic()
    try:
        figures = case()
    except Exception as error:
        print(f"FAILED {name}: {type(error).__name__}: {error}", *getattr(error, "__notes__", []), sep="\n  ")
        # The last three are of the replicas of this case.
        for log in LOGS:
            if log.exists() and (log.name.startswith(("etcd.", "member")) or log in LOGS[-3:]):
                print(f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-LINES:], sep="\n", flush=True)
        return False
    print(f"ok {name}: {figures}; {time.monotonic() - begun:.0f} s", flush=True)
    return True


def start(cluster: Cluster) -> str:
    cluster.recovered()
    return "three members"


def main(words: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results: list[bool] = []

    def is_chosen(name: str) -> bool:
        return not words or any(word in name for word in words)

    cases = [case for case in CASES if is_chosen(case.name)]
    if not OWN_NETWORKS:
        for case in (case for case in cases if case.cuts_network):
            print(f"skipped: {case.name}: a network for each member is refused here")
        cases = [case for case in cases if not case.cuts_network]
    if cases:
        with Cluster() as cluster:
            results.append(attempt("start of the cluster", partial(start, cluster)))
            for case in cases if results[0] else []:
                results.append(attempt(case.name, partial(run, case, cluster)))
    if is_chosen("standby that lacks commits"):
        results.append(attempt("standby that lacks commits", fence))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


sys.exit(main(sys.argv[1:]))
