"""How times, durations, counts and states are written on every page, and the icons of rows."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from django import template
from django.db import DatabaseError
from django.template import Context
from django.template.defaultfilters import stringfilter
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from debugger.access import projects_for
from debugger.queries.escalations import NAV_MOST, n_open
from debugger.queries.pieces import Piece
from debugger.queries.rows import NS
from ingest.models import Project

register = template.Library()

# Paths of our own, drawn in a 16 by 16 box; the style sheet colours them by the row's state.
ICONS = {
    "model": '<circle cx="8" cy="8" r="5"/>',
    "ok": '<circle cx="8" cy="8" r="5.5"/><path d="M5.5 8.2l1.8 1.8 3.3-3.8"/>',
    "bad": '<circle cx="8" cy="8" r="5.5"/><path d="M5 8h6"/>',
    "warn": '<path d="M8 2.6l5.8 10.2H2.2z"/><path d="M8 6.4v3M8 11v.4"/>',
    "open": '<circle cx="8" cy="8" r="5.5" stroke-dasharray="2.6 2.6"/>',
    "hint": '<path class="full" d="M8 1.8l1.8 4.4L14.2 8l-4.4 1.8L8 14.2 6.2 9.8 1.8 8l4.4-1.8z"/>',
    "muted": '<path d="M8 1.8l1.8 4.4L14.2 8l-4.4 1.8L8 14.2 6.2 9.8 1.8 8l4.4-1.8z"/>',
    "plain": '<circle class="full" cx="8" cy="8" r="2"/>',
}

# Units of an offset that would not fit its column in seconds: each from LARGE_FROM of it on.
LARGE = ((365.25 * 86_400, "y"), (86_400, "d"), (3_600, "h"))
LARGE_FROM = 2.8


@register.simple_tag
def icon(state: str) -> SafeString:
    """Return the inline SVG of a row's state; unknown states get the plain dot."""
    shape = mark_safe(ICONS.get(state, ICONS["plain"]))
    return format_html('<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{}</svg>', shape)


@register.filter
def duration(milliseconds: float | None) -> str:
    """Return a duration with its unit: 0.4 ms, 41 ms, 1.31 s, 2 m 05 s, 3 h 10 m; nothing for None."""
    if milliseconds is None:
        return ""
    if milliseconds < 10:  # noqa: PLR2004
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1_000:  # noqa: PLR2004
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:  # noqa: PLR2004
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"  # noqa: PLR2004
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} m {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} m"


@register.filter
def offset(nanoseconds: int) -> str:
    """Return the time since the run's start in seconds: +1.34, +83.20; hours and more with their unit: -27.0 h."""
    seconds = nanoseconds / NS
    size, unit = next(((size, unit) for size, unit in LARGE if abs(seconds) >= LARGE_FROM * size), (1, ""))
    return f"{seconds / size:+,.1f} {unit}" if unit else f"{seconds:+,.2f}"


@register.filter
def count(number: int | None) -> str:
    """Return a count with thousands apart; an en dash while it is not known."""
    return "–" if number is None else f"{number:,}"


@register.simple_tag
def quota_words(own: int | None, default: int) -> str:
    """Return how many events a minute a key may send: its own number, or that of the settings."""
    number = default if own is None else own
    return f"{number:,}" if number else "none"


@register.simple_tag
def moment(value: datetime | None, form: str = "datetime") -> str | SafeString:
    """Return a time in UTC that app.js rewrites in the viewer's zone; `form` is datetime or time."""
    if value is None:
        return ""
    utc = value.astimezone(UTC)
    text = utc.strftime("%H:%M:%S" if form == "time" else "%Y-%m-%d %H:%M:%S")
    full = utc.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
    stamp = utc.isoformat(timespec="milliseconds")
    return format_html('<time datetime="{}" title="{}" data-form="{}">{} UTC</time>', stamp, full, form, text)


@register.filter
def get(mapping: Mapping[str, object], name: str) -> object:
    """Return a value by a name that is itself a variable, or nothing."""
    return mapping.get(name, "")


@register.filter
@stringfilter
def words(value: str) -> str:
    """Return a vocabulary word as people write it."""
    return value.replace("_", " ")


@register.simple_tag
def pieces(parts: Iterable[Piece], link: str = "") -> SafeString:
    """Return a sentence; a piece with an event id becomes a link to that event under the run's address `link`."""
    return format_html_join(" ", "{}", ((_piece(part, link),) for part in parts))


def _piece(part: Piece, link: str) -> SafeString:
    if part.href and link:
        return format_html('<a class="{}" href="{}?event={}">{}</a>', part.tone, link, quote(part.href, ""), part.text)
    return format_html('<span class="{}">{}</span>', part.tone, part.text)


@register.simple_tag
def code(text: str) -> SafeString:
    """Return a text with what stands in backticks as code."""
    parts = text.split("`")
    return format_html_join("", "{}", ((_code_part(part, index, len(parts)),) for index, part in enumerate(parts)))


def _code_part(part: str, index: int, n_parts: int) -> SafeString:
    is_open = index == n_parts - 1 and n_parts % 2 == 0  # a backtick without its partner stays one
    if index % 2 == 0:
        return format_html("{}", part)
    return format_html("`{}", part) if is_open else format_html("<code>{}</code>", part)


@register.simple_tag
def open_escalations(project: Project) -> SafeString | str:
    """Return the count of escalations that nobody has decided, nothing when there are none. One query.

    A database that refuses leaves it unknown: what the page is about is told by the page.
    """
    try:
        number = n_open(project.pk)
    except DatabaseError:
        return format_html(' <span class="n" title="could not be counted">{}</span>', "?")
    if not number:
        return ""
    shown = f"{number}" if number <= NAV_MOST else f"{NAV_MOST}+"
    return format_html(' <span class="n" title="not decided yet">{}</span>', shown)


@register.inclusion_tag("_account.html", takes_context=True)
def account(context: Context) -> dict[str, object]:
    """The menu at the top right: the person's projects and the way out. One query."""
    request = context["request"]
    return {
        "request": request,
        "user": request.user,
        "project": context.get("project"),
        "projects": projects_for(request.user),
        "csrf_token": context.get("csrf_token"),
    }
