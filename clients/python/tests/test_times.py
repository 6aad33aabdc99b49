"""Conversion between floats and nanoseconds."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from sessiond_adk.times import EARLIEST_NANOS, LATEST_NANOS, NANOS, to_nanos, to_seconds


def test_nanosecond_of_the_decimal_and_back() -> None:
    """Other languages read the same nanosecond in the float's JSON."""
    rng = random.Random(1)
    for _ in range(20_000):
        seconds = rng.uniform(1e9, 2e9)
        nanos = to_nanos(seconds)
        assert abs(Fraction(repr(seconds)) * NANOS - nanos) <= Fraction(1, 2)
        assert to_seconds(nanos) == seconds


def test_order_is_kept() -> None:
    """A filter by time must separate any two floats correctly."""
    seconds = 1_700_000_000.1234567
    for _ in range(100):
        later = math.nextafter(seconds, math.inf)
        assert to_nanos(seconds) < to_nanos(later)
        seconds = later


@pytest.mark.parametrize("nanos", [EARLIEST_NANOS, -1, 0, 1, LATEST_NANOS // NANOS * NANOS])
def test_bounds(nanos: int) -> None:
    assert to_nanos(to_seconds(nanos)) == nanos


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -math.inf, 253_402_300_800.0, -62_135_596_801.0])
def test_outside_the_bounds(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"not a time|outside"):
        to_nanos(seconds)
