"""What a run waits for, on its page: approve or deny a call, answer a question, cancel the run.

htmx puts only answers of 2xx into a page, so a fragment that tells of a refusal has status 200; as a page of its own,
which is what a browser without script gets, it has the status of what happened. (Seed 001 §14.)
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HTMX_STOP_POLLING, reswap, retarget, trigger_client_event

from debugger import kernel_client
from debugger.access import GuardedRun, get_run_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.kernel_client import Answer, Ask, KernelError, NoAnswer, NotDrivenHere, RunAddress, RunEnded, RunSilent
from debugger.launching import Runtime
from debugger.queries.waiting import ANSWER_LIMIT, NOTE_LIMIT, Written, answered_by, read_written, show_asks

NOTHING_NEW: Final = 204
FORBIDDEN: Final = 403
SHOWN_LIMIT: Final = 100  # asks that a page may name as shown
ASK_KEY: Final = re.compile(r"[0-9a-f]{24}")
CANCEL: Final = "cancel"  # stands where an ask has its key


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an answer. Unless it is settled the form stays, and with it what the person wrote."""

    state: str
    said: str
    status: int = 200
    is_settled: bool = True
    n_removed: int = 0


Act = Callable[[HtmxHttpRequest, GuardedRun], tuple[Outcome, Written]]


def acting(act: Act) -> Callable[..., HttpResponse]:
    """Make a view of what a person does to a run: a POST of a member who may, told as a fragment or as a page."""

    @person_only
    @require_POST
    @vary_on_headers("HX-Request")
    @wraps(act)
    def view(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
        run = get_run_for(request.user, project, run_id)
        if not may_act(request.user, run.project):
            said = f"You may look at the runs of {project}, not answer for them or cancel them."
            return _told(request, run, (Outcome("bad", said, FORBIDDEN), Written("", "")))
        try:
            return _told(request, run, act(request, run))
        except NotDrivenHere as error:
            raise Http404 from error

    return view


@acting
def answer_ask(request: HtmxHttpRequest, run: GuardedRun) -> tuple[Outcome, Written]:
    """Approve or deny a call, or answer a question: `ask` names what was shown, `text` is the note or the answer."""
    post = request.POST
    kind, decision, raw = post.get("kind"), post.get("decision", ""), post.get("text", "")
    if not _is_known_form(request):
        return Outcome("bad", "This form is not known: reload the page and answer again.", 400), Written(raw, "")
    if kind == "approval":
        written = read_written(raw, "Note", NOTE_LIMIT)
    else:
        written = read_written(raw, "Answer", ANSWER_LIMIT, is_required=True)
    if written.error:
        return Outcome("bad", written.error, 400, is_settled=False), written
    by, is_yes = request.user.get_username(), decision == "approve"
    given = Answer("approval" if kind == "approval" else "question", by, written.text, approved=is_yes)
    try:
        kernel_client.answer(_runtime(), _address(run), post["ask"], given)
    except NoAnswer as error:
        said = f"{error}. It may have arrived all the same; sending it again does no harm."
        return Outcome("bad", said, 503, is_settled=False), written
    except (RunEnded, kernel_client.NotWaiting) as error:
        by = answered_by(run, given.kind, post.get("call_id", ""))
        said = f"Already answered by {by}. Yours was not sent." if by else f"{error}. Yours was not sent."
        return Outcome("warn", said, 409), written
    said = "You answered." if given.kind == "question" else "You approved it." if is_yes else "You denied it."
    return Outcome("warn" if decision == "deny" else "ok", said, n_removed=written.n_removed), written


@acting
def cancel(request: HtmxHttpRequest, run: GuardedRun) -> tuple[Outcome, Written]:
    """Ask the run to stop, with a reason when one was given."""
    written = read_written(request.POST.get("text", ""), "Reason", NOTE_LIMIT)
    if written.error:
        return Outcome("bad", written.error, 400, is_settled=False), written
    by = f"by {request.user.get_username()}"
    try:
        kernel_client.cancel(_runtime(), _address(run), f"{by}: {written.text}" if written.text else by)
    except NoAnswer as error:
        return Outcome("bad", f"{error}. Perhaps it was not cancelled: try again.", 503, is_settled=False), written
    except RunEnded:
        return Outcome("warn", "The run had ended already.", 409), written
    return Outcome("warn", "You cancelled the run. It is stopping.", n_removed=written.n_removed), written


@person_only
@require_GET
@never_cache
@vary_on_headers("HX-Request")
def waiting(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """What the run waits for. `state` and `shown` say what of it a page shows: 204 while that holds.

    An ask that is shown is not drawn again, so that nobody loses what they are writing. 286 when there is nothing to
    follow: the run has ended, or is not executed for this project.
    """
    run = get_run_for(request.user, project, run_id)
    shown = [key for key in request.GET.getlist("shown")[:SHOWN_LIMIT] if ASK_KEY.fullmatch(key)]
    asks: Sequence[Ask] = ()
    problem, state = "", "known"
    try:
        asks = _look(run).asks
        keys = [ask.key for ask in asks]
    except NoAnswer as error:
        problem, keys = f"{error}.", shown
        state = "silent" if isinstance(error, RunSilent) else "away"
    except (NotDrivenHere, RunEnded) as error:
        return _nothing(request, run, error, shown)
    before = request.GET.get("state")
    context = _context(request, run) | {"state": state, "problem": problem, "n_waiting": len(keys)}
    if before is None or (before == "away" != state and not shown):  # nothing of the run is shown yet
        context["asks"] = show_asks(run, asks)
        if not wants_fragment(request):
            return render(request, "waiting_page.html", context)
        return reswap(retarget(render(request, "_waiting.html", context), "#waiting"), "outerHTML")
    if before == state and set(keys) == set(shown):
        return HttpResponse(status=NOTHING_NEW)
    context["asks"] = show_asks(run, [ask for ask in asks if ask.key not in shown])
    context["gone"] = [key for key in shown if key not in keys]
    return render(request, "_waiting_changes.html", context)


def _look(run: GuardedRun) -> kernel_client.Waiting:
    if run.summary is not None and run.summary.status != "running":
        raise RunEnded("The run has ended")
    return kernel_client.look(_runtime(), _address(run))


def _nothing(request: HtmxHttpRequest, run: GuardedRun, error: KernelError, shown: list[str]) -> HttpResponse:
    """Tell that there is nothing to follow; a panel that stands there already says why, another one never appears."""
    context = _context(request, run) | {"over": f"{error}.", "gone": shown}
    if not wants_fragment(request):
        return render(request, "waiting_page.html", context)
    if "state" not in request.GET:
        return HttpResponse(status=HTMX_STOP_POLLING)
    return render(request, "_waiting_over.html", context, status=HTMX_STOP_POLLING)


def _told(request: HtmxHttpRequest, run: GuardedRun, result: tuple[Outcome, Written]) -> HttpResponse:
    outcome, written = result
    key = request.POST.get("ask", "")
    context = _context(request, run) | {"outcome": outcome, "written": written, "key": key}
    if not wants_fragment(request):
        return render(request, "told_page.html", context, status=outcome.status)
    response = render(request, "_told.html", context, status=outcome.status if outcome.status == FORBIDDEN else 200)
    if outcome.is_settled or not (ASK_KEY.fullmatch(key) or key == CANCEL):
        return trigger_client_event(response, "answered", after="settle")
    return reswap(retarget(response, f"#said-{key}"), "innerHTML")


def _is_known_form(request: HtmxHttpRequest) -> bool:
    post = request.POST
    if not ASK_KEY.fullmatch(post.get("ask", "")):
        return False
    return post.get("kind") == "question" or (
        post.get("kind") == "approval" and post.get("decision") in ("approve", "deny")
    )


def _context(request: HtmxHttpRequest, run: GuardedRun) -> dict[str, Any]:
    return {
        "project": run.project,
        "run": run,
        "run_id": run.registry.run_id,
        "may_act": may_act(request.user, run.project),
        "note_limit": NOTE_LIMIT,
        "answer_limit": ANSWER_LIMIT,
    }


def _runtime() -> Runtime:
    return Runtime(settings.TEMPORAL_ADDRESS, settings.TEMPORAL_NAMESPACE, settings.TEMPORAL_TASK_QUEUE)


def _address(run: GuardedRun) -> RunAddress:
    return RunAddress(run.project.slug, run.registry.run_id)
