"""The page of one item, and what is done to it there: each move its lifecycle allows, with a reason. (Seed 001 §7.)"""

from dataclasses import dataclass
from typing import Any, Final

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from debugger.access import get_project_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.knowledge_item import describe_item
from debugger.queries.knowledge_moves import EVIDENCE, RESUME, SUSPEND, Move, moves_of
from debugger.views.refusals import looking_on
from ingest.models import Project
from knowledge import items
from knowledge.drafts import TEXT_LIMIT, KnowledgeConflict, KnowledgeError
from knowledge.item_history import ItemPage, item_page

BAD_REQUEST: Final = 400
CONFLICT: Final = 409


@dataclass(frozen=True, slots=True)
class Wanted:
    """A move as a person asked for it. `seen` is the newest change their page knew."""

    move: Move
    reason: str
    replaced_by: str
    run_id: str
    supports: bool
    seen: int

    def problem(self) -> tuple[str, str]:
        """Return the field that is not in order and what is wrong with it; two empty texts when all is."""
        if problem := reason_problem(self.reason):
            return "reason", problem
        if self.move.needs_replacement and not self.replaced_by:
            return "replaced_by", "Name the item that takes its place, by its id."
        if self.move.needs_run and not self.run_id:
            return "run_id", "Name the run, by its id."
        return "", ""


@person_only
@require_GET
@vary_on_headers("HX-Request")
def knowledge_item(request: HtmxHttpRequest, project: str, knowledge_id: str) -> HttpResponse:
    """The page; for htmx what the revision named by `revision` changed."""
    found = get_project_for(request.user, project)
    page = get_item(found, knowledge_id)
    described = describe_item(page, number_of(request.GET.get("revision", "")))
    context = {"project": found, "may_act": may_act(request.user, found), "page": described, "wanted": None}
    if wants_fragment(request):
        return render(request, "_knowledge_revision.html", context)
    return render(request, "knowledge_item.html", context)


@person_only
@require_POST
def change_item(request: HtmxHttpRequest, project: str, knowledge_id: str) -> HttpResponse:
    """Carry out a move, or show the page again with what was typed and why it was not carried out."""
    found = get_project_for(request.user, project)
    page = get_item(found, knowledge_id)
    back = reverse("knowledge-item", args=[found.slug, knowledge_id])
    if not may_act(request.user, found):
        said = f"You look on in {found.name}; members who act change its knowledge."
        return looking_on(request, found, said, back)
    wanted = _wanted(request, page)
    if wanted is None:
        return _again(request, found, page, None, "", _not_open(page), CONFLICT)
    field, problem = wanted.problem()
    if problem:
        return _again(request, found, page, wanted, field, problem, BAD_REQUEST)
    if page.history and page.history[0].pk != wanted.seen:
        said = (
            "Somebody changed this item while you had it open. Nothing was done; look at what is new and decide again."
        )
        return _again(request, found, page, wanted, "", said, CONFLICT)
    try:
        _carry_out(found, page, wanted, request.user.get_username())
    except KnowledgeError as error:
        status = CONFLICT if isinstance(error, KnowledgeConflict) else BAD_REQUEST
        said = str(error)
        return _again(request, found, get_item(found, knowledge_id), wanted, error.field, f"{said}.", status)
    return redirect(back)


def get_item(project: Project, knowledge_id: str) -> ItemPage:
    """Return an item of the project with its facts. Raises Http404 when there is none."""
    page = item_page(project.pk, knowledge_id, timezone.now())
    if page is None:
        raise Http404("no such item")
    return page


def reason_problem(reason: str) -> str:
    """Return what is wrong with the reason of a change, "" when nothing is."""
    if not reason:
        return "Say why: the reason stands in the item's history."
    if len(reason) > TEXT_LIMIT:
        return f"The reason has {len(reason):,} characters; the limit is {TEXT_LIMIT:,}, shorten it."
    return ""


def number_of(raw: str) -> int | None:
    """Return a whole number of a form or an address, or None."""
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 18 else None  # noqa: PLR2004


def _wanted(request: HtmxHttpRequest, page: ItemPage) -> Wanted | None:
    """Return the move that was asked for; None for one that is not open to the item."""
    post = request.POST
    open_moves = {move.name: move for move in moves_of(page.item.state, page.item.suspended_dynamic)}
    move = open_moves.get(post.get("move", ""))
    if move is None:
        return None
    return Wanted(
        move,
        post.get("reason", "").replace("\r\n", "\n").strip(),
        post.get("replaced_by", "").strip(),
        post.get("run_id", "").strip(),
        post.get("supports", "yes") == "yes",
        number_of(post.get("seen", "")) or 0,
    )


def _not_open(page: ItemPage) -> str:
    word = page.item.state.replace("_", " ")
    return (
        f"That cannot be done to this item any more: it is {word}. Nothing was changed; what can be done stands below."
    )


def _carry_out(project: Project, page: ItemPage, wanted: Wanted, by: str) -> None:
    knowledge_id, revision = page.item.knowledge_id, page.item.revision
    if wanted.move.name == EVIDENCE:
        items.add_evidence(
            project, knowledge_id, wanted.run_id, wanted.supports,
            note=wanted.reason, by=by, expected_revision=revision,
        )  # fmt: skip
    elif wanted.move.name in (SUSPEND, RESUME):
        suspended = wanted.move.name == SUSPEND
        items.suspend_item(project, knowledge_id, suspended, by=by, reason=wanted.reason, expected_revision=revision)
    else:
        items.change_state(
            project, knowledge_id, wanted.move.name,
            by=by, reason=wanted.reason, expected_revision=revision,
            replaced_by=wanted.replaced_by if wanted.move.needs_replacement else None,
        )  # fmt: skip


def _again(
    request: HtmxHttpRequest,
    project: Project,
    page: ItemPage,
    wanted: Wanted | None,
    field: str,
    problem: str,
    status: int,
) -> HttpResponse:
    """Return the page with the move still open: what was typed stays, the reason stands beside it."""
    known = wanted.seen if wanted and status == CONFLICT else None
    context: dict[str, Any] = {
        "project": project,
        "may_act": True,
        "page": describe_item(page, known=known),
        "wanted": wanted,
        "field": field,
        "problem": problem,
    }
    return render(request, "knowledge_item.html", context, status=status)
