"""Copies sessions of another session service of ADK into sessiond.

    python -m sessiond_adk.move --from sqlite:///sessions.db --to 127.0.0.1:50051 --app my_app

The source is any URI that ADK's `--session_service_uri` takes. It is only read. Sessions keep their ids, events their
ids and times. What cannot be copied is named, and the rest goes on. A run that was cut anywhere, or did not copy
everything, is completed by the next one. Stop the agents first: what they write meanwhile is not copied.

`sources.py` opens the source, `moving.py` copies an application, and `shared.py` gives the shared keys their last
values.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from .errors import SessiondError
from .moving import Copied, Stopped, copy_application
from .service import SessiondSessionService
from .sources import open_source


async def _move(arguments: argparse.Namespace) -> int:
    source = open_source(arguments.source)
    everything = True
    async with SessiondSessionService(arguments.to) as target:
        for app_name in arguments.app:
            copied = Copied()
            try:
                await copy_application(
                    source, target, app_name, copied, stop_on_error=arguments.stop_on_error, progress=_show_progress
                )
            finally:
                _show_progress(None)
                _report(app_name, copied)
            everything = everything and copied.everything
    return 0 if everything else 1


def _report(app_name: str, copied: Copied) -> None:
    for line in copied.problems:
        print(f"{app_name}: {line}", file=sys.stderr)
    summary = f"{app_name}: {copied.sessions} sessions, {copied.new_events} new events"
    if copied.failed:
        summary += f", {copied.failed} failed"
    print(summary, flush=True)


def _show_progress(text: str | None) -> None:
    """Shows a line on a terminal, in the place of the last one; None clears it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text or ''}", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program, and returns its exit code: 1 if anything was not copied as it is in the source."""
    parser = argparse.ArgumentParser(
        prog="python -m sessiond_adk.move", description="Copies sessions of another session service of ADK."
    )
    parser.add_argument("--from", dest="source", required=True, metavar="URI", help="as for --session_service_uri")
    parser.add_argument("--to", required=True, metavar="ADDRESS", help="the server's address")
    parser.add_argument("--app", action="append", required=True, metavar="NAME", help="an application; can be repeated")
    parser.add_argument("--stop-on-error", action="store_true", help="end at the first session that cannot be copied")
    try:
        return asyncio.run(_move(parser.parse_args(arguments)))
    except Stopped:
        return 1
    except (SessiondError, ValueError, ImportError) as error:
        print(f"The move ended: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
