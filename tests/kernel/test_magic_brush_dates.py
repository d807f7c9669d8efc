"""The clock told in three ways, and which texts assert today's date, in English, Russian and Chinese."""

import zoneinfo
from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.messages import TimeReceipt
from kernel.runtime.config import ConfigError, worker_config
from kernel.tools.clock import DEFAULT_ZONE, read_clock, receipt_dates, zone_named
from kernel.tools.date_claims import claims_of, claims_of_name

SHANGHAI = zone_named(DEFAULT_ZONE)
TODAY = (date(2026, 11, 30),)
ENVIRONMENT = {
    "TEMPORALITY_URL": "http://127.0.0.1:1",
    "TEMPORALITY_API_KEY": "tk_x",
    "KERNEL_DATABASE_URL": "postgresql:///x",
    "KERNEL_WORK_DIR": "/nowhere/work",
}


def at(utc: str, nanoseconds: int = 0) -> int:
    """The clock's reading at a UTC time."""
    return int(datetime.fromisoformat(utc).timestamp()) * 1_000_000_000 + nanoseconds


@pytest.mark.parametrize(
    ("utc", "zone", "zoned", "dates"),
    [
        ("2026-11-30T15:59:59Z", "Asia/Shanghai", "2026-11-30T23:59:59+08:00", ["2026-11-30"]),
        ("2026-11-30T16:00:00Z", "Asia/Shanghai", "2026-12-01T00:00:00+08:00", ["2026-11-30", "2026-12-01"]),
        ("2026-11-30T23:59:59Z", "Asia/Shanghai", "2026-12-01T07:59:59+08:00", ["2026-11-30", "2026-12-01"]),
        ("2026-12-01T00:00:00Z", "Asia/Shanghai", "2026-12-01T08:00:00+08:00", ["2026-12-01"]),
        ("2026-12-31T16:00:00Z", "Asia/Shanghai", "2027-01-01T00:00:00+08:00", ["2026-12-31", "2027-01-01"]),
        ("2028-02-29T15:59:59Z", "Asia/Shanghai", "2028-02-29T23:59:59+08:00", ["2028-02-29"]),
        ("2026-03-08T06:59:59Z", "America/New_York", "2026-03-08T01:59:59-05:00", ["2026-03-08"]),
        ("2026-03-08T07:00:00Z", "America/New_York", "2026-03-08T03:00:00-04:00", ["2026-03-08"]),
        ("2026-11-01T05:30:00Z", "America/New_York", "2026-11-01T01:30:00-04:00", ["2026-11-01"]),
        ("2026-11-01T06:30:00Z", "America/New_York", "2026-11-01T01:30:00-05:00", ["2026-11-01"]),
        ("2026-06-01T00:00:00Z", "Asia/Kathmandu", "2026-06-01T05:45:00+05:45", ["2026-06-01"]),
        ("2026-06-01T00:00:00Z", "UTC", "2026-06-01T00:00:00+00:00", ["2026-06-01"]),
    ],
)
def test_one_reading_in_three_renderings(utc: str, zone: str, zoned: str, dates: list[str]) -> None:
    """Around midnight here and there, at the change of the year, and where the clocks are put forward and back."""
    receipt = read_clock(lambda: at(utc, 999_999_999), zone_named(zone))
    assert receipt == TimeReceipt(utc, zoned, zone, at(utc) // 1_000_000_000)
    assert [day.isoformat() for day in receipt_dates(receipt)] == dates


@given(
    st.integers(0, 4_000_000_000_000_000_000), st.sampled_from([DEFAULT_ZONE, "America/St_Johns", "Pacific/Kiritimati"])
)
def test_the_renderings_are_the_same_instant(now_ns: int, zone: str) -> None:
    """At any time and in any zone the texts and the number name one instant, and the clock was looked at once."""
    looks = []

    def clock_ns() -> int:
        looks.append(now_ns)
        return now_ns

    receipt = read_clock(clock_ns, zone_named(zone))
    instants = [datetime.fromisoformat(text).timestamp() for text in (receipt.utc, receipt.zoned)]
    assert instants == [receipt.unix, receipt.unix]
    assert receipt.utc.endswith("Z") and len(receipt.utc) == 20
    assert looks == [now_ns]


def test_zones_are_there_without_the_systems_own() -> None:
    """The zone data comes as a package: a machine without any has the zones all the same."""
    found = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    try:
        zone = zoneinfo.ZoneInfo.no_cache(DEFAULT_ZONE)
        assert datetime.fromtimestamp(0, zone).isoformat() == "1970-01-01T08:00:00+08:00"
    finally:
        zoneinfo.reset_tzpath(to=found)


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "Asia", "x" * 100, "a\x00b", "+08:00"]
)
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    """A wrong name is refused in words that say what to do, by the worker with the variable."""
    with pytest.raises(ValueError, match="use a name of the IANA database"):
        zone_named(name)
    if name:
        with pytest.raises(ConfigError, match="^KERNEL_TIME_ZONE: there is no time zone"):
            worker_config({**ENVIRONMENT, "KERNEL_TIME_ZONE": name})


def test_what_the_worker_is_given() -> None:
    """Notes lie beside the runs' folders and the second zone is Shanghai's, unless the environment says otherwise."""
    config = worker_config(ENVIRONMENT)
    assert (str(config.notes_dir), config.time_zone) == ("/nowhere/work/notes", "Asia/Shanghai")
    config = worker_config({**ENVIRONMENT, "KERNEL_NOTES_DIR": "/notes", "KERNEL_TIME_ZONE": "Europe/Berlin"})
    assert (str(config.notes_dir), config.time_zone) == ("/notes", "Europe/Berlin")


# Each is followed by the same text with another date, which disagrees.
ASSERTIONS = [
    ("# 2026-11-30", "# 2025-01-30"),
    ("## Monday, 30 November 2026", "## Thursday, 30 January 2025"),
    ("**30 ноября 2026 г.**", "**30 января 2025 г.**"),
    ("2026年11月30日 周一", "2025年1月30日 周四"),
    ("2026-11-30T23:30:00-05:00", "2025-01-30T23:30:00-05:00"),
    ("# 2026-11-30 Standup", "# 2026-01-30 Standup"),
    ("[2026-11-30 10:05] built it", "[2026-01-30 10:05] built it"),
    ("- 2026-11-30: fixed the build", "- 2026-01-30: fixed the build"),
    ("30.11.2026 — сборка исправлена", "30.01.2026 — сборка исправлена"),
    ("notes\n\n11/30/2026\nmore", "notes\n\n1/30/2026\nmore"),
    ("Date: 2026-11-30", "Date: 2026-01-30"),
    ("---\ntitle: x\ndate: '2026-11-30'\n---\n", "---\ntitle: x\ndate: '2026-01-30'\n---\n"),
    ("**Updated:** November 30th, 2026", "**Updated:** November 30th, 2024"),
    ("_Last updated 2026/11/30_", "_Last updated 2025/11/30_"),
    ("Дата: 30 ноября 2026 года", "Дата: 30 ноября 2024 года"),
    ("日期：2026年11月30日", "日期：2024年11月30日"),
    ("Today is 30 November.", "Today is 30 January."),
    ("Note that today's date is Nov. 30, 2026, a Monday", "Note that today's date is Jan. 30, 2026"),
    ("As of today, 2026-11-30, nothing is open", "As of today, 2026-01-30, nothing is open"),
    ("It’s now November 30, 2026.", "It’s now November 30, 2023."),
    ("We met on 30 November 2026 (today).", "We met on 30 January 2026 (today)."),
    ("Сегодня 30 ноября, собрали релиз", "Сегодня 30 января, собрали релиз"),
    ("Итак, сегодня — понедельник, 30 ноября 2026", "Итак, сегодня — понедельник, 30 ноября 2024"),
    ("текущая дата: 30.11.2026", "текущая дата: 30.11.2024"),
    ("今天是11月30日，星期一", "今天是1月30日，星期一"),
    ("今天是二〇二六年十一月三十日", "今天是二〇二四年十一月三十日"),
    ("当前日期：2026-11-30", "当前日期：2024-11-30"),
    ("The current year is 2026.", "The current year is 2024."),
    ("сейчас 2026 год, так что", "сейчас 2024 год, так что"),
    ("今年是2026年", "今年是2024年"),
    ("Ｄａｔｅ：２０２６－１１－３０", "Ｄａｔｅ：２０２４－１１－３０"),
    ("# Journal — 2026-11-30", "# Journal — 2025-11-30"),
    ("Daily log: 30 November 2026", "Daily log: 30 November 2025"),
    ("Запись от 30.11.2026", "Запись от 30.11.2025"),
    ("2026年11月30日 日记", "2025年11月30日 日记"),
    ("The date is 2026-11-30.", "The date is 2025-11-30."),
    ("**2026-11-30** fixed the build", "**2025-11-30** fixed the build"),
    ('{"date": "2026-11-30", "by": "me"}', '{"date": "2025-11-30", "by": "me"}'),
    ("It's November 2026.", "It's November 2025."),
    ("timestamp: 1796059800", "timestamp: 1700000000"),
    ("- Unix time = 1796059800000", "- Unix time = 1700000000000"),
    ("# Meeting notes - November 30, 2026", "# Meeting notes - January 30, 2026"),
    ("# Standup (2026-11-30)", "# Standup (2026-01-30)"),
    ("# Weekly report, 2026-11-30", "# Weekly report, 2026-01-30"),
    ("# Отчёт за 30 ноября 2026", "# Отчёт за 30 января 2026"),
    ("* 2026-11-30 10:00 deployed", "* 2026-01-30 10:00 deployed"),
    ("November 30, 2026. It rained.", "January 30, 2026. It rained."),
    ("# Project log\n\n- 2026-11-30: set it up", "# Project log\n\n- 2026-01-30: set it up"),
    ("As of November 30, 2026, nothing is open", "As of January 30, 2026, nothing is open"),
    ("| Date | 2026-11-30 |", "| Date | 2026-01-30 |"),
    ("Report date: 2026-11-30", "Report date: 2026-01-30"),
    ("Generated on 2026-11-30", "Generated on 2026-01-30"),
    ("<!-- 2026-11-30 -->", "<!-- 2026-01-30 -->"),
    ("# 2026-02-30", "# 2026-13-45"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong"), ASSERTIONS)
def test_a_text_asserts_today(right: str, wrong: str) -> None:
    """The form counts whatever the date; a date that is today agrees, another one does not, nor one there is not."""
    assert claims_of(right) and claims_of(wrong)
    assert bool(claims_of(right).wrong(TODAY)) is ("02-30" in right)
    assert claims_of(wrong).wrong(TODAY)


@pytest.mark.parametrize(
    "text",
    [
        "The current time is 10:30.",
        "It's now 9:05 pm",
        "сейчас 10:30",
        "现在是10:30",
        "当前时间：10:30",
        "Today is Monday.",
        "Сегодня понедельник",
        "今天星期一",
    ],
)
def test_a_time_or_weekday_is_asserted_and_disagrees_with_no_date(text: str) -> None:
    """It needs a receipt like a date does; which date it belongs to is not said."""
    assert claims_of(text) and not claims_of(text).wrong(TODAY)


@pytest.mark.parametrize(
    "text",
    [
        "Release notes 2019-03-04 and 20051107",
        "The release date is 2026-12-31; I sat down today.",
        "The meeting is at 10:30; it is now at risk.",
        "order 1796059800 has the timestamp of its file",
        "The war in Europe ended on 8 May 1945.",
        "On 1945-05-08 the war ended.",
        "Python 3.0 was released 2008-12-03; version 2026.11.30 is not.",
        "Meeting on 2026-12-05 at noon. Deadline: 2026-12-31",
        "Date of birth: 1990-01-01",
        "# Timeline\n\n- 1939-09-01: the war begins",
        "# Changelog\n\n- 2019-03-04: first release",
        "# Log\n\nwork began\n\n- 2019-03-04: first release",
        "Date: next week",
        "Today I fixed the bug of 2019-03-04.",
        "Today's meeting was moved to 2026-12-02.",
        "the log of 2024-01-05 shows it, see 2024-01-05-report.md",
        "> Today is 2025-01-01",
        "it said\n```\nDate: Mon, 03 Mar 2025 10:00:00 GMT\nToday is 2025-03-03\n```\n",
        "Она родилась 1 января 1990 года.",
        "1 сентября — день знаний",
        "Сегодня обсудили события 11 сентября 2001 года.",
        "1949年10月1日中华人民共和国成立。",
        "今天修复了2019年3月4日的错误",
        "it is now 2026 rows long, the current year plan has 12",
        "we may 30 times try; ratio 11/30",
        "",
    ],
)
def test_a_date_that_is_told_of_asserts_nothing(text: str) -> None:
    """History, plans, other labels, quotations and mere numbers are not about today."""
    assert not claims_of(text)


def test_a_journal_is_right_when_one_of_its_days_is_today() -> None:
    """Earlier days keep their headings; what is said in so many words must be right each time."""
    journal = "# 2026-11-29\nrested\n\n# 2026-11-30\nworked\n"
    assert claims_of(journal).wrong(TODAY) == ()
    assert [one.text for one in claims_of(journal.replace("11-30", "01-30")).wrong(TODAY)] == [
        "2026-11-29",
        "2026-01-30",
    ]
    assert [one.text for one in claims_of(journal + "Today is 2026-01-30").wrong(TODAY)] == ["2026-01-30"]


def test_the_name_of_a_days_note_asserts_the_day() -> None:
    """A note that is named by nothing but a date is that day's; a date among other words is a name."""
    assert claims_of_name("journal/2026-01-30.md").wrong(TODAY)
    assert not claims_of_name("journal/2026-11-30.md").wrong(TODAY)
    assert not claims_of_name("2019-03-04-outage.md")
    assert not claims_of_name("2019-03-04/outage.md")


@given(st.text(max_size=200) | st.text("今天是today is2026-/.年月日 сегодня:#[]\n", max_size=200))
def test_any_text_is_judged(text: str) -> None:
    """No text is a fault, and what is found is a part of it."""
    claims = claims_of(text)
    assert set(claims.wrong(TODAY)) <= {*claims.said, *claims.headed}
    assert bool(claims) or not claims.wrong(TODAY)


@pytest.mark.parametrize("piece", ["2", " ", "today is ", "1.1.", "- ", "#", "一", " ,", "date: ", "[", "May 1 "])
def test_long_texts_are_judged_in_steady_time(piece: str) -> None:
    """A text of the largest size, made of what a form begins with, is looked through and asserts nothing wrong."""
    text = "\n".join([piece * (900 // len(piece))] * 17)
    assert len(claims_of(text).said) <= len(text)
