"""Two runs side by side, and the choice of a second run; all of it is in the address. (Seed 001 §14.)"""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from contract.events import ID_LIMIT
from debugger.access import Gone, get_project_for, get_run_for, gone_run_for, person_only
from debugger.htmx import HtmxHttpRequest
from debugger.queries.compare import SAME, VERDICTS, TurnPairs, align, counts_of, first_difference
from debugger.queries.compare_choices import choices_for
from debugger.queries.compare_facts import facts_of, settings_of
from debugger.queries.compare_hints import SHOWN, hint_lines, situation_lines
from debugger.queries.compare_loading import Read, read_run, told_rows
from debugger.queries.compare_rows import READ
from debugger.queries.compare_words import notices_of, where_first
from debugger.queries.export_tables import asked_of, compared_table
from debugger.views.exports import table_file

TURNS: Final = 20  # turns of a window
LINES: Final = 100  # lines of a turn that are shown
LONGEST_FROM: Final = 6  # digits of the place of a turn
NOT_FOUND: Final = 404
FILTERS: Final = {"all": "All rows", "different": "Differences"}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs as the address names it: with its run, or why there is none."""

    letter: str
    run_id: str
    read: Read | None = None
    gone: Gone | None = None

    @property
    def is_lost(self) -> bool:
        return bool(self.run_id) and self.read is None


@person_only
@require_GET
def run_compare(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The page: two runs, or with less than two the choice of the other. 404 when one it names is not there."""
    found = get_project_for(request.user, project)
    a = _side(request.user, project, "A", request.GET.get("a", ""))
    wanted = request.GET.get("b", "")
    is_same = a.read is not None and wanted == a.run_id
    b = Side("B", a.run_id, a.read) if is_same else _side(request.user, project, "B", wanted)
    context: dict[str, Any] = {"project": found, "a": a, "b": b, "sides": (a, b), "is_same": is_same}
    if a.read is None or b.read is None:
        kept = a if a.read else b
        task = kept.read.header.task if kept.read else ""
        context |= {"choices": choices_for(found.pk, kept.run_id, task), "kept": kept}
        return render(request, "compare_choose.html", context, status=NOT_FOUND if a.is_lost or b.is_lost else 200)
    context |= _compared(a.read, b.read)
    context |= _window(request, context["turns"])
    return render(request, "compare.html", context)


@person_only
@require_GET
def run_compare_file(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The rows of the comparison as a file, with the page's filter. Raises Http404 when a run it names is not there."""
    found = get_project_for(request.user, project)
    a, b = (_side(request.user, project, name.upper(), request.GET.get(name, "")) for name in ("a", "b"))
    if a.read is None or b.read is None:
        raise Http404("no such run")
    turns = align(*told_rows(a.read, b.read))
    is_different = request.GET.get("show") == "different"
    table = compared_table(found, turns, asked_of(request.GET.dict()), different=is_different)
    return table_file(request, table)


def _side(user: User | AnonymousUser, project: str, letter: str, raw: str) -> Side:
    run_id = raw.strip()
    if not run_id or len(run_id) > ID_LIMIT or "\x00" in run_id:
        return Side(letter, run_id[:ID_LIMIT].replace("\x00", ""))
    try:
        run = get_run_for(user, project, run_id)
    except Http404:
        return Side(letter, run_id, gone=gone_run_for(user, project, run_id))
    return Side(letter, run_id, read_run(run, timezone.now()))


def _compared(a: Read, b: Read) -> dict[str, Any]:
    turns = align(*told_rows(a, b))
    one, other = a.loaded, b.loaded
    hints, n_same_hints = hint_lines(one.candidates, other.candidates)
    situations = situation_lines((one.activations, one.candidates), (other.activations, other.candidates))
    counts = counts_of(turns)
    return {
        "turns": turns,
        "counts": [(word, VERDICTS[word], n) for word, n in counts.items()],
        "n_lines": sum(counts.values()),
        "n_different": sum(counts.values()) - counts[SAME],
        "facts": facts_of(a, b),
        "settings": settings_of(one.events, other.events),
        "hints": hints[:SHOWN],
        "n_hints": len(hints),
        "n_same_hints": n_same_hints,
        "situations": situations[:SHOWN],
        "n_situations": len(situations),
        "notices": notices_of(a, b, turns),
        "read": READ,
    }


def _window(request: HtmxHttpRequest, turns: tuple[TurnPairs, ...]) -> dict[str, Any]:
    """Return the turns that are shown, the first difference and the addresses of the windows around them."""
    show = request.GET.get("show", "all")
    show = show if show in FILTERS else "all"
    passing = [turn for turn in turns if show == "all" or turn.n_different]
    raw = request.GET.get("from", "")
    start = int(raw) if raw.isascii() and raw.isdecimal() and len(raw) <= LONGEST_FROM else 0
    start = min(start, max(0, len(passing) - 1)) // TURNS * TURNS
    shown = []
    for turn in passing[start : start + TURNS]:
        lines = [pair for pair in turn.pairs if show == "all" or pair.verdict != SAME]
        shown.append((turn, lines[:LINES], len(lines)))
    ids = {"a": request.GET.get("a", "").strip(), "b": request.GET.get("b", "").strip()}
    kept = ids | ({"show": show} if show != "all" else {})
    first = first_difference(turns)
    return {
        "shown": shown,
        "n_turns": len(turns),
        "n_passing": len(passing),
        "first_turn": start + 1,
        "last_turn": start + len(shown),
        "earlier": urlencode({**kept, "from": start - TURNS}) if start else "",
        "later": urlencode({**kept, "from": start + TURNS}) if start + TURNS < len(passing) else "",
        "filters": [(label, urlencode(ids | ({"show": word} if word != "all" else {})), word == show)
                    for word, label in FILTERS.items()],
        "show": show,
        "asked": urlencode(kept),
        "swapped": urlencode({"a": ids["b"], "b": ids["a"]}),
        "first": where_first(turns) if first else None,
        "first_address": _address_of(ids, first[0], turns[first[0]].key) if first else "",
    }  # fmt: skip


def _address_of(ids: dict[str, str], place: int, key: str) -> str:
    start = place // TURNS * TURNS
    return f"?{urlencode({**ids, **({'from': start} if start else {})})}#{key}"
