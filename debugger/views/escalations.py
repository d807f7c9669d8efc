"""The escalations of a project, and the page of one where a reviewer grants tools or dismisses it. (Seed 003.)

Nothing resumes the run that asked: a grant is for runs that are started later.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from contract.redaction import redact
from debugger.access import GuardedRun, get_project_for, get_run_for, may_act, person_only
from debugger.grants import AlreadyDecided, Ask, Choice, RunIsGone, decide
from debugger.htmx import HtmxHttpRequest
from debugger.queries.escalations import (
    SHOWN,
    TOOL_NAME,
    Escalation,
    escalation_of,
    list_escalations,
    refused_names,
)
from debugger.queries.waiting import NOTE_LIMIT, Written, read_written
from debugger.views.refusals import BAD_REQUEST, looking_on
from ingest.accept import rules_of
from ingest.errors import IngestError

CONFLICT: Final = 409
TOOLS_LIMIT: Final = 20  # tools of one grant
BETWEEN_NAMES: Final = re.compile(r"[\s,;]+")
NAMES_TEXT_LIMIT: Final = 4_000  # code points of the field


@dataclass(frozen=True, slots=True)
class Filled:
    """The form as it was sent: `choice` is None while something is wrong, which `errors` says by field."""

    verdict: str
    names: tuple[str, ...]
    note: Written
    errors: dict[str, str]
    choice: Choice | None


@person_only
@require_GET
def escalation_list(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The list; `show` is open, decided or all."""
    found = get_project_for(request.user, project)
    asked = request.GET.get("show", "")
    show = asked if asked in SHOWN else "open"
    context: dict[str, Any] = {"project": found, "show": show, "is_first_page": not request.GET.get("cursor")}
    context["filters"] = [(word, label, word == show) for word, label in SHOWN.items()]
    try:
        context["found"] = list_escalations(found.pk, show, request.GET.get("cursor", ""))
    except IngestError as error:
        return render(request, "escalation_list.html", {**context, "problem": error.detail}, status=error.status)
    return render(request, "escalation_list.html", context)


@person_only
@require_http_methods(["GET", "POST"])
def escalation(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """One escalation; a POST decides it, once. What was typed stays when it could not be kept."""
    run = get_run_for(request.user, project, run_id)
    shown = escalation_of(run)
    if shown is None:
        raise Http404("no such escalation")
    if request.method == "GET":
        return _page(request, run, shown)
    if not may_act(request.user, run.project):
        said = f"You look on in {run.project.name}; members who act decide its escalations."
        return looking_on(request, run.project, said, _address(run))
    if shown.asked is None or _one_ended(request.POST.get("event", "")) != _one_ended(shown.asked.event_id):
        problem = "This form is not that of the escalation shown here. Nothing was decided: look at it again."
        return _page(request, run, shown, CONFLICT, problem=problem)
    try:
        filled = read_form(request.POST, run, may_grant=bool(shown.asked.holds_for))
    except IngestError as error:  # the project's patterns cannot be used: the note would keep what they take out
        return _page(request, run, shown, error.status, problem=f"Nothing was decided: {error.detail}.")
    if filled.choice is None:
        return _page(request, run, shown, BAD_REQUEST, filled=filled)
    asked = shown.asked
    ask = Ask(shown.run_id, asked.event_id, asked.task_id, "" if asked.task_id else asked.actor_id)
    try:
        decide(run.project, ask, filled.choice, request.user.get_username())
    except AlreadyDecided as error:
        problem = f"Already {error}. Yours was not kept."
        return _page(request, run, escalation_of(run) or shown, CONFLICT, problem=problem, filled=filled)
    except RunIsGone:
        raise Http404("no such run") from None
    return redirect(_address(run))


def read_form(post: QueryDict, run: GuardedRun, *, may_grant: bool) -> Filled:
    """Return what the form decides, or what is wrong with it."""
    verdict = post.get("verdict", "")
    note = read_written(post.get("note", ""), "Note", NOTE_LIMIT, rules=rules_of(run.project.pk))
    names = _names(post)
    errors = {"note": note.error} if note.error else {}
    if verdict not in ("granted", "dismissed"):
        errors["verdict"] = "Say whether it is granted or dismissed."
    elif verdict == "granted":
        problem = _names_problem(names, post) if may_grant else "A grant would reach no run: dismiss it."
        errors |= {"tools": problem} if problem else {}
    if errors or verdict not in ("granted", "dismissed"):
        return Filled(verdict, names, note, errors, None)
    choice = Choice("granted", names, note.text) if verdict == "granted" else Choice("dismissed", (), note.text)
    return Filled(verdict, names, note, errors, choice)


def _one_ended(event_id: str) -> str:
    """Return an id with its line ends of one kind: a browser sends those of a form as it likes."""
    return "\n".join(event_id.splitlines())


def _names(post: QueryDict) -> tuple[str, ...]:
    typed = BETWEEN_NAMES.split(post.get("tools", "")[:NAMES_TEXT_LIMIT])
    return tuple(dict.fromkeys(name for name in (*post.getlist("tool"), *typed) if name))


def _names_problem(names: tuple[str, ...], post: QueryDict) -> str:
    if len(post.get("tools", "")) > NAMES_TEXT_LIMIT:
        return f"At most {NAMES_TEXT_LIMIT:,} characters of names: name fewer tools."
    if not names:
        return "Name at least one tool, or dismiss it."
    if "*" in names:
        return "* is not the name of a tool: name each one that is granted."
    if not all(TOOL_NAME.fullmatch(name) for name in names):
        return "A tool's name has 1 to 128 Latin letters, digits, _ and -: write the names as the run calls them."
    if any(redact(name)[1] for name in names):
        return "One of them looks like a secret, which no tool's name is: take it out."
    if len(names) > TOOLS_LIMIT:
        return f"{len(names)} tools are named; a grant holds at most {TOOLS_LIMIT}: name fewer."
    return ""


def _page(request: HtmxHttpRequest, run: GuardedRun, shown: Escalation, status: int = 200, **more: Any) -> HttpResponse:
    acts = may_act(request.user, run.project)
    proposed = refused_names(run) if acts and shown.decision is None else ()
    filled: Filled | None = more.get("filled")
    context = {
        "project": run.project,
        "run": run,
        "run_id": shown.run_id,
        "shown": shown,
        "decision": shown.decision,
        "may_act": acts,
        "proposed": [(name, filled is not None and name in filled.names) for name in proposed],
        "typed": " ".join(name for name in filled.names if name not in proposed) if filled else "",
        "note_limit": NOTE_LIMIT,
        **more,
    }
    return render(request, "escalation.html", context, status=status)


def _address(run: GuardedRun) -> str:
    return reverse("escalation", args=[run.project.slug, run.registry.run_id])
