"""Prometheus' own parser and linter on the metrics of a server, its alerts and its dashboard."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ["SESSIOND_TEST_PROGRAM"]
PROMTOOL = os.environ["PROMTOOL"]
GRAFANA = ROOT / "packaging" / "grafana"


def scrape(path: Path) -> tuple[str, str]:
    """The head and the body of the answer to GET /metrics."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    head, body = b"".join(parts).decode().split("\r\n\r\n", 1)
    return head, body


def metrics_of_a_server(folder: Path) -> tuple[str, str]:
    """The metrics of a server that has had a few calls."""
    listen = folder / "admin.sock"
    serve = [PROGRAM, "serve", "--http-listen", "off", "--listen", "127.0.0.1:0", "--store", f"sqlite:{folder}/test.db"]
    more = ["--admin-listen", f"unix:{listen}", "--metrics-applications", "2"]
    with subprocess.Popen([*serve, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            line = server.stdout.readline()
            address = line.split()[3]
            for app in ["plain", 'with "quotes", \\ and a\nline', "third"]:
                at = ["--server", address, "--app", app, "--user", "alice", "--session", "s"]
                for command in [["session", "create"], ["event", "append", "--author", "user", "--body", "{}"]]:
                    subprocess.run([PROGRAM, *command, *at], check=True, stdout=subprocess.DEVNULL)
            missing = [
                "session",
                "get",
                "--server",
                address,
                "--app",
                "plain",
                "--user",
                "alice",
                "--session",
                "absent",
            ]
            subprocess.run([PROGRAM, *missing], check=False, stderr=subprocess.DEVNULL)
            return scrape(listen)
        finally:
            server.terminate()


def promtool(*arguments: str, text: str = "") -> None:
    """Runs promtool. It fails with what promtool says."""
    done = subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr.strip(), done.stdout + done.stderr


def documented() -> dict[str, str]:
    """Name and type of each metric of docs/metrics.md that a server on SQLite without TLS has."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    sections = re.split(r"\n## ", text)
    of_others = ("PostgreSQL", "TLS")
    rows = "\n".join(section for section in sections if not section.startswith(of_others))
    return dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", rows, flags=re.MULTILINE))


def the_parser_reads_every_metric(head: str, body: str) -> None:
    """Names and types are the documented ones, and the samples are what happened."""
    assert "content-type: text/plain; version=0.0.4" in head, head
    families = {}
    for family in text_string_to_metric_families(body):
        # The parser names counters without their ending.
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name not in families and family.documentation, name
        families[name] = family
    assert {name: family.type for name, family in families.items()} == documented()
    appends = families["sessiond_application_appends_total"].samples
    assert {sample.labels["application"]: sample.value for sample in appends} == {
        "plain": 1,
        'with "quotes", \\ and a\nline': 1,
        "other": 1,
    }


def histograms_add_up(_: str, body: str) -> None:
    """The buckets of each histogram rise, and the last one has its count."""
    seen = 0
    for family in text_string_to_metric_families(body):
        if family.type != "histogram":
            continue
        buckets: dict[tuple, list[tuple[float, float]]] = {}
        counts = {}
        for sample in family.samples:
            labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
            if sample.name.endswith("_bucket"):
                buckets.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
            elif sample.name.endswith("_count"):
                counts[labels] = sample.value
        for labels, found in buckets.items():
            bounds, values = zip(*found, strict=True)
            assert list(bounds) == sorted(bounds) and list(values) == sorted(values), (family.name, labels)
            assert bounds[-1] == float("inf") and values[-1] == counts[labels], (family.name, labels)
            seen += 1
    assert seen > 20, seen


def promtool_finds_nothing(_: str, body: str) -> None:
    """The linter of Prometheus has nothing to say."""
    promtool("check", "metrics", text=body)


def the_alerts_are_valid(*_: str) -> None:
    """Prometheus takes the alert rules."""
    promtool("check", "rules", str(GRAFANA / "alerts.yaml"))


def the_alert_of_a_writer_fires_while_it_hangs(*_: str) -> None:
    """It does not fire for a writer that is busy, nor for one without writes."""
    promtool("test", "rules", str(ROOT / "tests" / "metrics" / "hanging_writer.yaml"))


def the_dashboard_asks_what_prometheus_understands(*_: str) -> None:
    """Each expression of the dashboard, with Grafana's own variables replaced, is a valid rule."""
    dashboard = json.loads((GRAFANA / "dashboard.json").read_text())
    rows = dashboard["panels"]
    panels = rows + [panel for row in rows for panel in row.get("panels", [])]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    expressions += [annotation["expr"] for annotation in dashboard["annotations"]["list"]]
    assert len(expressions) > 40
    rules = [
        {"record": f"panel:expression:{at}", "expr": expression.replace("$__rate_interval", "5m")}
        for at, expression in enumerate(expressions)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        # JSON is YAML.
        json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        promtool("check", "rules", file.name)


CHECKS: list[Callable[[str, str], None]] = [
    the_parser_reads_every_metric,
    histograms_add_up,
    promtool_finds_nothing,
    the_alerts_are_valid,
    the_alert_of_a_writer_fires_while_it_hangs,
    the_dashboard_asks_what_prometheus_understands,
]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        head, body = metrics_of_a_server(Path(folder))
    failed = 0
    for check in CHECKS:
        try:
            check(head, body)
            print(f"ok {check.__name__}")
        except (AssertionError, ValueError) as error:
            failed += 1
            print(f"FAILED {check.__name__}: {error}")
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
