"""Decides how one reading of the clock is told: the same instant in UTC, in a second zone, and as Unix seconds."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kernel.messages import TimeReceipt

DEFAULT_ZONE: Final = "Asia/Shanghai"
NAME_LIMIT: Final = 64  # characters of a zone's name
SECOND: Final = 1_000_000_000  # nanoseconds


def zone_named(name: str) -> ZoneInfo:
    """Return the zone of an IANA name. Raises ValueError for anything else."""
    problem = f"there is no time zone of this name; use a name of the IANA database, such as {DEFAULT_ZONE}"
    if not name or len(name) > NAME_LIMIT:
        raise ValueError(problem)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of one of the database's folders
        raise ValueError(problem) from None


def utc_now(clock_ns: Callable[[], int]) -> datetime:
    """Read the clock, in Unix nanoseconds, and return the moment in UTC, in whole seconds."""
    return datetime.fromtimestamp(clock_ns() // SECOND, UTC)


def read_clock(clock_ns: Callable[[], int], zone: ZoneInfo) -> TimeReceipt:
    """Read the clock once and return the receipt: whole seconds, the same in all three renderings."""
    utc = utc_now(clock_ns)
    return TimeReceipt(
        utc=utc.replace(tzinfo=None).isoformat() + "Z",
        zoned=utc.astimezone(zone).isoformat(),
        zone=zone.key,
        unix=int(utc.timestamp()),
    )


def receipt_dates(receipt: TimeReceipt) -> tuple[date, ...]:
    """Return the dates that were today at the receipt: in UTC, and in the second zone where it differs."""
    both = (datetime.fromisoformat(text).date() for text in (receipt.utc, receipt.zoned))
    return tuple(dict.fromkeys(both))
