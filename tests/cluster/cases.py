"""The faults: each is injected under load, lasts until every replica works again, and is repaired under load."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import inf

import grpc
from client import failure
from cluster import Cluster, Member, Replica, kill_server, primary_with_standby, replicas, until
from load import SESSIONS, Load


@dataclass(frozen=True)
class Setting:
    cluster: Cluster
    primary: Member
    replicas: list[Replica]


@contextmanager
def switchover(it: Setting) -> Iterator[None]:
    # The answer comes up to a second after the switchover.
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(it.primary.ask, "/switchover", "POST", {"leader": it.primary.name}, 30)
        yield
    assert answer.result()[0] == 200, answer.result()


@contextmanager
def kill_of_postgres(it: Setting) -> Iterator[None]:
    kill_server(it.primary.data)
    yield


@contextmanager
def kill_of_the_primary_and_its_patroni(it: Setting) -> Iterator[None]:
    it.primary.patroni.end()
    kill_server(it.primary.data)
    try:
        yield
    finally:
        it.primary.patroni.start()


@contextmanager
def etcd_away(it: Setting) -> Iterator[None]:
    it.cluster.etcd.end()
    try:
        # Without failsafe mode the primary gives up after retry_timeout.
        until("failsafe mode", 20, lambda: (it.primary.ask("/patroni")[1] or {}).get("failsafe_mode_is_active"))
        end = time.monotonic() + 10
        until("the end of the fault", 11, lambda: time.monotonic() > end)
        assert it.primary.is_primary(), "the primary has given up"
        yield
    finally:
        it.cluster.etcd.start()


@contextmanager
def freeze_of_the_primary_and_its_patroni(it: Setting) -> Iterator[None]:
    it.primary.freeze()
    try:
        yield
    finally:
        it.primary.thaw()


@contextmanager
def network_cut(it: Setting) -> Iterator[None]:
    it.primary.network.set_link("down")
    try:
        yield
    finally:
        it.primary.network.set_link("up")


@contextmanager
def rolling_restart(it: Setting) -> Iterator[None]:
    for replica in it.replicas:
        replica.end(signal.SIGTERM)
        replica.start()
        replica.serves()
    yield


@dataclass(frozen=True)
class Case:
    fault: Callable[[Setting], AbstractContextManager[None]]
    # Seconds without an acknowledged append.
    gap: float = inf
    # Seconds from the next primary to the end of the longest gap.
    resumption: float = inf
    moves_primary: bool = True
    cuts_network: bool = False

    @property
    def name(self) -> str:
        return self.fault.__name__.replace("_", " ")


CASES = [
    Case(switchover, gap=8),
    Case(kill_of_postgres, gap=10),
    Case(kill_of_the_primary_and_its_patroni, gap=32),
    Case(etcd_away, gap=3, moves_primary=False),
    Case(freeze_of_the_primary_and_its_patroni, resumption=8),
    Case(network_cut, gap=32, cuts_network=True),
    Case(rolling_restart, gap=3, moves_primary=False),
]


def run(case: Case, cluster: Cluster) -> str:
    """Runs a case on the cluster. Returns the figures of the clients."""
    primary = cluster.recovered()
    # The first of the hosts is the worst place for one that is silent.
    members = sorted(cluster.members, key=lambda member: member is not primary)
    hosts = [(member.network.address, member.port) for member in members]
    name = case.fault.__name__
    with replicas(name, hosts) as found, Load(found, name) as load:
        load.flows(20)
        begun = time.monotonic()
        with case.fault(Setting(cluster, primary, found)):
            if case.moves_primary:
                cluster.other_primary(primary)
            moved = time.monotonic()
            load.flows(45)
        cluster.recovered()
        load.flows(20)
        load.finish()
        figures = load.figures(begun)
        if case.moves_primary:
            figures = f"another primary after {moved - begun:.1f} s, {figures}"
        gap, ended = load.gap()
        if gap >= case.gap:
            load.faults.append(f"the longest gap exceeds {case.gap} s")
        if ended - moved >= case.resumption:
            load.faults.append(
                f"appends resumed {ended - moved:.1f} s after the next primary, bound {case.resumption} s"
            )
        load.check(figures)
        return figures


def refusal(replica: Replica, load: Load) -> str:
    """How a replica refuses a read."""
    try:
        replica.client.get(load.keys[SESSIONS[0]])
    except grpc.RpcError as error:
        return failure(error)
    return ""


def fence() -> str:
    """Without Patroni a standby that lacks commits is promoted. Replicas that know of these do not use it."""
    behind = "UNAVAILABLE STORE_BEHIND"
    with primary_with_standby() as (primary, standby):
        hosts = [("127.0.0.1", server.port) for server in (primary, standby)]
        with replicas("fence", hosts) as found, Load(found, "fence") as load:
            load.flows(20)
            standby.stop()
            load.flows(20)
            begun = time.monotonic()
            kill_server(primary.data)
            standby.start()
            standby.program("pg_ctl", "promote", "-w", "-s")
            promoted = time.monotonic()
            until("reads are refused", 15, lambda: all(refusal(it, load) == behind for it in found))
            until("appends are refused", 15, lambda: all(load.failures[it, behind] > 3 for it in range(len(found))))
            assert not any(it.client.is_serving() for it in found), "SERVING on a database that lacks commits"
            assert load.acks[-1].at < promoted, "an append to a database that lacks commits is acknowledged"
            standby.stop()
            primary.start()
            load.flows(20)
            load.finish()
            figures = load.figures(begun)
            load.check(figures)
            return figures
