"""Times: float seconds in ADK, nanoseconds on the wire."""

from __future__ import annotations

import math
from decimal import Decimal

NANOS = 1_000_000_000

# The range of google.protobuf.Timestamp: the years 1 to 9999, in nanoseconds since 1970.
EARLIEST_NANOS = -62_135_596_800 * NANOS
LATEST_NANOS = 253_402_300_800 * NANOS - 1
_BEYOND_TIME = 1e12


def to_nanos(seconds: float) -> int:
    """The nanosecond of the float's shortest decimal, which is what JSON shows of it. Order is kept.

    Raises:
      ValueError: not finite, or outside the years 1 to 9999.
    """
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} is not a time. Use finite seconds since 1970.")
    # The contexts of decimal have enough digits for every time, but not for every float.
    nanos = int(round(Decimal(repr(seconds)), 9).scaleb(9)) if abs(seconds) < _BEYOND_TIME else NANOS * int(seconds)
    if not EARLIEST_NANOS <= nanos <= LATEST_NANOS:
        raise ValueError(f"{seconds} seconds since 1970 is outside the years 1 to 9999.")
    return nanos


def to_seconds(nanos: int) -> float:
    """The nearest float. Inverts `to_nanos` for times after April 1970, when floats are coarser than nanoseconds."""
    return nanos / NANOS
