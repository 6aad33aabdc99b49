"""The processes of the cases: etcd, members of Patroni, replicas of sessiond, and servers without Patroni."""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from string import Template
from typing import Any, Self, TypeVar

import psutil
from client import Client

HOME = Path(os.environ["SESSIOND_TEST_POSTGRES_HOME"])
BIN = Path(os.environ["SESSIOND_TEST_POSTGRES_BIN"])
PROGRAM = os.environ["SESSIOND_TEST_PROGRAM"]
# Whether this program runs in a network of its own, in which it may make more.
OWN_NETWORKS = "SESSIOND_TEST_OWN_NETWORKS" in os.environ
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": str(HOME), "LC_ALL": "C"}

# Ends a command with this program. AS_OWNER also runs it as the owner of the home, because PostgreSQL refuses root.
# Python and this checkout may be in a folder of root.
WITH_US = ["setpriv", "--pdeathsig", "KILL"]
IDS = [f"--reuid={HOME.stat().st_uid}", f"--regid={HOME.stat().st_gid}", "--clear-groups"]
REACH = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]
AS_OWNER = [*WITH_US, *([*IDS, *REACH] if os.geteuid() == 0 else [])]

T = TypeVar("T")


def until(what: str, limit: float, holds: Callable[[], T | None]) -> T:
    """The first value of a condition that holds."""
    end = time.monotonic() + limit
    while not (value := holds()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {limit:.0f} s")
        time.sleep(0.05)
    return value


def free_port() -> int:
    """A port below those that outgoing connections get."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", random.randrange(20_000, 32_000)))
            return int(probe.getsockname()[1])


def run(*command: str | Path) -> None:
    done = subprocess.run(command, env=ENVIRONMENT, cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr or done.stdout}")


# The files with the output of programs.
LOGS: list[Path] = []


class Process:
    """A program whose output is in a file."""

    def __init__(self, name: str, *command: str | Path) -> None:
        self.command, self.log = command, HOME / f"{name}.log"
        LOGS.append(self.log)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, cwd=HOME
            )

    def end(self, sign: signal.Signals = signal.SIGKILL) -> None:
        if self.process:
            self.process.send_signal(sign)
            self.process.wait(30)

    @property
    def pid(self) -> int:
        assert self.process, "it was started"
        return self.process.pid


class Network:
    """The network of a member: its own, connected to a bridge, or an address of the loopback device."""

    @staticmethod
    def make_hub() -> str:
        """The address of everything that is no member."""
        if not OWN_NETWORKS:
            return "127.0.0.1"
        for command in ("link add name hub type bridge", "addr add 10.77.0.1/24 dev hub", "link set hub up"):
            run("ip", *command.split())
        return "10.77.0.1"

    def __init__(self, number: int) -> None:
        self.address, self.enter = f"127.0.0.{10 + number}", list[str]()
        if not OWN_NETWORKS:
            return
        self.address, self.link = f"10.77.0.{10 + number}", f"member{number}"
        self.holder = Process(f"network{number}", *WITH_US, "unshare", "--net", "sleep", "infinity")
        self.holder.start()
        pid = str(self.holder.pid)
        ours, others = (Path("/proc", which, "ns", "net") for which in ("self", pid))
        until("a network of its own", 10, lambda: others.readlink() != ours.readlink())
        self.enter = ["nsenter", "--target", pid, "--net"]
        run("ip", "link", "add", "name", self.link, "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", self.link, "master", "hub", "up")
        for command in ("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up"):
            run(*self.enter, "ip", *command.split())

    def set_link(self, state: str) -> None:
        """Cuts the network off (`down`) or connects it (`up`)."""
        run("ip", "link", "set", self.link, state)

    def close(self) -> None:
        if self.enter:
            self.holder.end()


def tree(data: Path) -> list[int]:
    """The processes of the server in a folder, the first one first."""
    with suppress(FileNotFoundError, IndexError, psutil.NoSuchProcess):
        first = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
        if str(data) in first.cmdline():
            return [first.pid, *(child.pid for child in first.children())]
    return []


def send(sign: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, sign)


def kill_server(data: Path) -> None:
    """Kills a server with all of its processes. None that it starts meanwhile stays."""
    send(signal.SIGSTOP, tree(data)[:1])
    pids = tree(data)
    send(signal.SIGKILL, pids)
    until("the end of a killed server", 10, lambda: not any(map(psutil.pid_exists, pids)))


def end_server(data: Path) -> None:
    """Ends the server in a folder. No stale number of a process stays there, which another process may get."""
    send(signal.SIGQUIT, tree(data)[:1])
    with suppress(TimeoutError):
        until("the end of a server", 10, lambda: not tree(data))
    kill_server(data)
    (data / "postmaster.pid").unlink(missing_ok=True)


def make_folder(path: Path) -> Path:
    run(*AS_OWNER, "mkdir", "-p", "-m", "700", path)
    return path


class Member:
    """A PostgreSQL with its Patroni."""

    def __init__(self, number: int, etcd: str) -> None:
        self.name, self.network = f"member{number}", Network(number)
        self.port, self.api = free_port(), free_port()
        folder = make_folder(HOME / self.name)
        self.data = folder / "data"
        settings = {
            "name": self.name,
            "address": self.network.address,
            "port": self.port,
            "api": self.api,
            "etcd": etcd,
            "folder": folder,
            "bin": BIN,
        }
        file = HOME / f"{self.name}.yml"
        file.write_text(Template(Path(__file__).with_name("patroni.yml").read_text()).substitute(settings))
        patroni = Path(sys.executable).parent / "patroni"
        self.patroni = Process(self.name, *self.network.enter, *AS_OWNER, patroni, file)

    def ask(self, path: str, method: str = "GET", body: Any = None, limit: float = 1) -> tuple[int, Any]:
        """The status and the body of an answer of Patroni; 0 without one."""
        connection = http.client.HTTPConnection(self.network.address, self.api, timeout=limit)
        try:
            connection.request(method, path, json.dumps(body) if body else None)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text[:1] == b"{" else text
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def is_primary(self) -> bool:
        return self.ask("/primary")[0] == 200

    def freeze(self) -> None:
        send(signal.SIGSTOP, [self.patroni.pid, *tree(self.data)])

    def thaw(self) -> None:
        send(signal.SIGCONT, [*tree(self.data), self.patroni.pid])

    def close(self) -> None:
        if self.patroni.process:
            self.thaw()
            self.patroni.end()
        end_server(self.data)
        self.network.close()


class Cluster:
    """Three members, and one etcd."""

    def __init__(self) -> None:
        hub, port, peers = Network.make_hub(), free_port(), f"http://127.0.0.1:{free_port()}"
        client = f"http://{hub}:{port}"
        data = make_folder(HOME / "etcd")
        urls = ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peers]
        urls += ["--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"]
        self.etcd = Process("etcd", *AS_OWNER, "etcd", "--data-dir", data, *urls)
        self.members = [Member(number, f"{hub}:{port}") for number in range(1, 4)]

    def __enter__(self) -> Self:
        self.etcd.start()
        for member in self.members:
            member.patroni.start()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.close()
        self.etcd.end()

    def primary(self) -> Member | None:
        return next((member for member in self.members if member.is_primary()), None)

    def other_primary(self, old: Member) -> Member:
        """The next primary, as soon as there is one."""
        others = [member for member in self.members if member is not old]
        return until("another primary", 45, lambda: next((it for it in others if it.is_primary()), None))

    def is_healthy(self) -> bool:
        primary = self.primary()
        _, answer = primary.ask("/cluster") if primary else (0, None)
        members = answer["members"] if answer else []
        roles = Counter(member["role"] for member in members)
        running = all(member["state"] in ("running", "streaming") for member in members)
        lines = {member.get("timeline") for member in members}
        return running and len(lines) == 1 and roles == Counter(["leader", "sync_standby", "replica"])

    def recovered(self) -> Member:
        """Waits until all members are well. The primary of then."""
        until("a cluster of three", 90, self.is_healthy)
        return until("a primary", 10, self.primary)


class Server:
    """A PostgreSQL without Patroni."""

    def __init__(self, name: str) -> None:
        folder = make_folder(HOME / name)
        self.data, self.log, self.port = folder / "data", folder / "log", free_port()
        self.options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"

    def program(self, name: str, *arguments: str | Path) -> None:
        run(*AS_OWNER, BIN / name, "-D", self.data, *arguments)

    def start(self) -> None:
        self.program("pg_ctl", "start", "-w", "-s", "-l", self.log, "-o", self.options)

    def stop(self) -> None:
        self.program("pg_ctl", "stop", "-w", "-s", "-m", "fast")


@contextmanager
def primary_with_standby() -> Iterator[tuple[Server, Server]]:
    """Two servers without Patroni. The standby does not hold up commits."""
    primary, standby = Server("primary"), Server("standby")
    with ExitStack() as stack:
        for server in (primary, standby):
            stack.callback(end_server, server.data)
        primary.program("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        primary.start()
        source = ["-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres", "-c", "fast"]
        standby.program("pg_basebackup", "-R", "--no-sync", *source)
        standby.start()
        yield primary, standby


class Replica(Process):
    """A sessiond."""

    def __init__(self, name: str, store: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        serve = [PROGRAM, "serve", "--http-listen", "off", "--listen", self.address, "--store", store]
        super().__init__(name, *WITH_US, *serve)
        self.client = Client(self.address)

    def serves(self) -> None:
        """Waits until it serves."""

        def serves() -> bool:
            assert self.process is not None and self.process.poll() is None, f"{self.log.name}: it has exited"
            return self.client.is_serving()

        until(f"{self.log.name}: SERVING", 30, serves)


@contextmanager
def replicas(name: str, hosts: list[tuple[str, int]]) -> Iterator[list[Replica]]:
    """Three replicas on one of the hosts."""
    listed = ",".join(f"{host}:{port}" for host, port in hosts)
    store = f"postgres://postgres@{listed}/postgres?sslmode=disable&target_session_attrs=read-write"
    found = [Replica(f"{name}-{number}", store) for number in range(1, 4)]
    try:
        for replica in found:
            replica.start()
        for replica in found:
            replica.serves()
        yield found
    finally:
        for replica in found:
            replica.end()
            replica.client.channel.close()
