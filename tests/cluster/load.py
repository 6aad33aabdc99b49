"""Writers, readers and watchers on all replicas, and what has to hold of what they saw."""

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import grpc
from client import failure, session_key
from cluster import Replica, until

SESSIONS = ["one", "two", "three", "four"]
WRITERS = 8
# Seconds between two events of a writer, two reads of a replica, two looks at health, and two attempts of any.
WRITE_PAUSE, READ_PAUSE, HEALTH_PAUSE, RETRY_PAUSE = 0.1, 0.05, 0.1, 0.1


@dataclass(frozen=True)
class Ack:
    """An append that was acknowledged."""

    begun: float
    at: float
    replica: int
    session: str
    event: str
    sequence: int


class Load:
    def __init__(self, replicas: list[Replica], app: str) -> None:
        self.clients = [replica.client for replica in replicas]
        self.keys = {session: session_key(app, session) for session in SESSIONS}
        self.lock = threading.Lock()
        self.acks: list[Ack] = []
        # The last sequence of each session that was acknowledged.
        self.last = dict.fromkeys(SESSIONS, 0)
        self.read_at = [0.0] * len(replicas)
        # When a replica was not SERVING.
        self.away: list[float] = []
        self.is_serving = [True] * len(replicas)
        self.watched: dict[tuple[str, int], list[str]] = {}
        self.streams: dict[tuple[str, int], Any] = {}
        self.failures: Counter[tuple[int, str]] = Counter()
        # Watches that ended, and resumptions that were refused.
        self.ended: Counter[str] = Counter()
        self.refused = 0
        # Violations of what has to hold.
        self.faults: list[str] = []
        self.stopping, self.over = threading.Event(), threading.Event()
        self.writers: list[threading.Thread] = []
        self.others: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for session in SESSIONS:
            self.clients[0].create(self.keys[session])
        self.begun = time.monotonic()
        for number in range(WRITERS):
            self.writers.append(self.thread(self.write, number))
        for number in range(len(self.clients)):
            self.others += [self.thread(self.read, number), self.thread(self.look, number)]
            for session in SESSIONS:
                self.others.append(self.thread(self.watch, session, number))
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self.end()
        if error is not None:
            for fault in self.faults[:8]:
                error.add_note(fault)

    def end(self) -> None:
        self.stopping.set()
        self.over.set()
        while any(thread.is_alive() for thread in self.writers + self.others):
            for stream in list(self.streams.values()):
                stream.cancel()
            for thread in self.writers + self.others:
                thread.join(0.01)

    def thread(self, run: Callable[..., None], *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                run(*arguments)
            except Exception as error:
                self.faults.append(f"{run.__name__}{arguments}: {error!r}")

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def write(self, number: int) -> None:
        """Appends one event after the other, each until it is acknowledged, by the next replica each time."""
        session = SESSIONS[number % len(SESSIONS)]
        replicas = itertools.cycle(range(len(self.clients)))
        for event in (f"{number}-{count}" for count in itertools.count(1)):
            begun = time.monotonic()
            for replica in replicas:
                if self.over.is_set():
                    return
                try:
                    sequence = self.clients[replica].append(self.keys[session], event)
                except grpc.RpcError as error:
                    self.failures[replica, failure(error)] += 1
                    self.over.wait(RETRY_PAUSE)
                    continue
                with self.lock:
                    self.acks.append(Ack(begun, time.monotonic(), replica, session, event, sequence))
                    self.last[session] = max(self.last[session], sequence)
                break
            if self.stopping.wait(WRITE_PAUSE):
                return

    def read(self, number: int) -> None:
        """No read has less than what was acknowledged before it, and none is torn."""
        for session in itertools.cycle(SESSIONS):
            if self.over.wait(READ_PAUSE):
                return
            with self.lock:
                before, total = self.last[session], sum(self.last.values())
            try:
                found = self.clients[number].get(self.keys[session])
            except grpc.RpcError as error:
                self.failures[number, f"read {failure(error)}"] += 1
                continue
            self.read_at[number] = time.monotonic()
            state = json.loads(found.state_json)
            last, own, shared = found.last_sequence, state.get("n", 0), state.get("app:n", 0)
            if last < before or own != last or shared < max(total, own):
                has = f"{last} events and sums of {own} and {shared}"
                self.faults.append(f"{session}: a read has {has}, {before} and {total} were acknowledged")

    def look(self, number: int) -> None:
        """Follows the health of a replica."""
        while not self.over.wait(HEALTH_PAUSE):
            self.is_serving[number] = self.clients[number].is_serving()
            if not self.is_serving[number]:
                self.away.append(time.monotonic())

    def watch(self, session: str, number: int) -> None:
        """Sees each event once and in order, over any number of streams."""
        seen = self.watched[session, number] = []
        cursor = ""
        while not self.over.is_set():
            stream = self.streams[session, number] = self.clients[number].watch(self.keys[session], cursor)
            is_live = False
            try:
                for message in stream:
                    is_live, cursor = True, message.cursor
                    if message.WhichOneof("kind") == "event":
                        seen.append(message.event.event_id)
                        if message.event.sequence != len(seen):
                            self.faults.append(f"{session}: a watch has {message.event.sequence} as event {len(seen)}")
            except grpc.RpcError as error:
                if self.over.is_set():
                    return
                if is_live:
                    self.ended[failure(error)] += 1
                else:
                    self.refused += 1
            self.over.wait(RETRY_PAUSE)

    def flows(self, limit: float) -> None:
        """Waits until every replica has acknowledged appends and answered a read from now on, and is SERVING."""
        begun, numbers = time.monotonic(), range(len(self.clients))

        def flows() -> bool:
            late = itertools.takewhile(lambda ack: ack.at > begun, reversed(self.acks))
            counts = Counter(ack.replica for ack in late if ack.begun > begun)
            return all(counts[it] > 2 and self.read_at[it] > begun and self.is_serving[it] for it in numbers)

        until("appends and reads on every replica", limit, flows)

    def finish(self) -> None:
        """Ends the load when all is acknowledged and seen, and compares what each replica has with that."""
        self.stopping.set()
        self.stopped = time.monotonic()
        for writer in self.writers:
            writer.join(30)
        late = sum(writer.is_alive() for writer in self.writers)
        assert not late, f"{late} writers have an append that is not acknowledged after 30 s"
        acknowledged: dict[str, dict[str, int]] = {session: {} for session in SESSIONS}
        for ack in self.acks:
            acknowledged[ack.session][ack.event] = ack.sequence

        def is_seen() -> bool:
            return all(len(seen) >= len(acknowledged[session]) for (session, _), seen in self.watched.items())

        with suppress(TimeoutError):
            until("all events on all watches", 20, is_seen)
        self.end()
        for (number, client), session in itertools.product(enumerate(self.clients), SESSIONS):
            wanted, events = acknowledged[session], client.list_events(self.keys[session])
            recovered = {event.event_id: event.sequence for event in events}
            lost = wanted.keys() - recovered.keys()
            state = json.loads(client.get(self.keys[session]).state_json)
            sums, right = (state["n"], state["app:n"]), (len(wanted), len(self.acks))
            violations = {
                f"{len(lost)} acknowledged events are lost": lost,
                "events are there twice": len(recovered) < len(events),
                "sequences have gaps": [it.sequence for it in events] != list(range(1, len(events) + 1)),
                "events or sequences are not those that were acknowledged": recovered != wanted,
                "a watch has missed events": self.watched[session, number] != [it.event_id for it in events],
                f"the sums are {sums}, not {right}": sums != right,
            }
            self.faults += [f"{session} on replica {number}: {text}" for text, wrong in violations.items() if wrong]

    def check(self, figures: str) -> None:
        assert not self.faults, f"{len(self.faults)} violations, {figures}"

    def gap(self) -> tuple[float, float]:
        """The longest time without an acknowledged append, and when it ended."""
        times = [self.begun, *sorted(ack.at for ack in self.acks if ack.at < self.stopped), self.stopped]
        return max((later - earlier, later) for earlier, later in itertools.pairwise(times))

    def figures(self, begun: float) -> str:
        """The figures of the clients, with times since the fault began."""
        (gap, ended), away = self.gap(), [at - begun for at in self.away if at > begun]
        health = f"{min(away):.1f}-{max(away):.1f} s" if away else "never"
        slowest = max(ack.at - ack.begun for ack in self.acks)
        codes: Counter[str] = Counter()
        for (_, code), count in self.failures.items():
            codes[code] += count
        parts = [
            f"longest gap {gap:.1f} s, which ended at {ended - begun:.1f} s",
            f"slowest append {slowest:.1f} s",
            f"not serving {health}",
            f"{self.ended.total()} of {len(self.watched)} watches ended, {self.refused} resumptions refused",
            f"{len(self.acks)} appends",
            *(f"{count} {code}" for code, count in sorted(codes.items())),
            *(f"{count} watch {code}" for code, count in sorted(self.ended.items())),
        ]
        return ", ".join(parts)
