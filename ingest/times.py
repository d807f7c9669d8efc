"""Turns the senders' clocks into integer Unix nanoseconds and back, without a float anywhere. Pure.

RFC 3339 text with any offset, exact to its ninth fraction digit, or whole nanoseconds as a number or digits.
(Seed 001 §13.)
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

NS_PER_SECOND: Final = 1_000_000_000
NS_MIN: Final = -(2**63)
NS_MAX: Final = 2**63 - 1

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC_3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
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
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    fraction, sign, offset_hour, offset_minute = match.group(7, 8, 9, 10)
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"must be {HOW}")
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise ValueError(f"must be {HOW}") from None
    offset = 0
    if sign:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            raise ValueError(f"must be {HOW}")
        offset = (int(offset_hour) * 3600 + int(offset_minute) * 60) * (-1 if sign == "-" else 1)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset
    return _in_range(seconds * NS_PER_SECOND + (int(fraction.ljust(9, "0")) if fraction else 0))


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


def to_nanoseconds(moment: datetime) -> int:
    """Return Unix nanoseconds of an aware datetime, exactly."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * NS_PER_SECOND + delta.microseconds * 1_000
