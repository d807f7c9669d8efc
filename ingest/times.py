"""Turns the senders' clocks into integer Unix nanoseconds and back, without a float anywhere. Pure.

RFC 3339 text with any offset, exact to its ninth fraction digit, or whole nanoseconds as a number or digits.
(Seed 001 §13.)
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final

from contract.integers import INT64_MAX, INT64_MIN

NS_PER_SECOND: Final = 1_000_000_000
NS_MIN: Final = INT64_MIN
NS_MAX: Final = INT64_MAX
LONGEST_NS: Final = 366 * 86_400 * NS_PER_SECOND  # what is said to last longer has a wrong end

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC_3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_DIGITS: Final = re.compile(r"-?\d{1,20}", re.ASCII)

HOW: Final = (
    "RFC 3339 text with an offset (digits past the nanosecond are dropped), for example 2026-11-30T03:00:00.123456789Z"
)
HOW_NANO: Final = "a whole number of nanoseconds since 1970, within 64 bits"


def parse_rfc3339(text: str) -> int:
    """Return Unix nanoseconds. Raises ValueError with what is expected when the text is no time or is out of range.

    A leap second (`:60`) is the first moment of the next minute.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError(f"must be {HOW}")
    day, hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups()
    seconds = _seconds_of_day(hour, minute, second) + _days(day) * 86_400
    if sign:
        if int(offset_hour) > 23:
            raise ValueError(f"must be {HOW}")
        offset = _seconds_of_day(offset_hour, offset_minute, "0")
        seconds += offset if sign == "-" else -offset
    return _in_range(seconds * NS_PER_SECOND + (int(fraction.ljust(9, "0")) if fraction else 0))


def _seconds_of_day(hour: str, minute: str, second: str) -> int:
    if hour > "23" or minute > "59" or second > "60":
        raise ValueError(f"must be {HOW}")
    return int(hour) * 3600 + int(minute) * 60 + int(second)


@lru_cache(maxsize=1024)
def _days(day: str) -> int:
    """Return the days from 1970 to a date `YYYY-MM-DD`."""
    try:
        return date(int(day[:4]), int(day[5:7]), int(day[8:])).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError(f"must be {HOW}") from None


def parse_unix_nano(value: object) -> int:
    """Return Unix nanoseconds from a JSON integer or its digits as text. Raises ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _in_range(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return _in_range(int(value))
    raise ValueError(f"must be {HOW_NANO}")


def _in_range(nanoseconds: int) -> int:
    if not NS_MIN <= nanoseconds <= NS_MAX:
        raise ValueError("must lie between the years 1678 and 2261, what 64 bits of nanoseconds can hold")
    return nanoseconds


def rfc3339(nanoseconds: int) -> str:
    """Return the UTC time with all nine fraction digits."""
    seconds, fraction = divmod(nanoseconds, NS_PER_SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def start_of(day: date) -> datetime:
    """Return the first moment of a day in UTC."""
    return datetime.combine(day, time.min, UTC)


def to_nanoseconds(moment: datetime) -> int:
    """Return Unix nanoseconds of an aware datetime, exactly."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * NS_PER_SECOND + delta.microseconds * 1_000
