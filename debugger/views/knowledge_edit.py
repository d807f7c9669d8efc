"""Making an item and revising it: one form, errors at their fields, and an edit of something older is refused.

(Seed 001 §7.)
"""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from contract import stages
from contract.text import estimate_tokens
from debugger.access import get_project_for, may_act, person_only
from debugger.htmx import HtmxHttpRequest
from debugger.queries.knowledge_diff import compare
from debugger.queries.knowledge_item import revision_text
from debugger.views.knowledge_forms import (
    FIRST_STATES,
    LIMITS,
    LINES,
    LONG_TEXTS,
    SCOPES,
    ItemForm,
    blank_form,
    form_of,
    read_form,
)  # fmt: skip
from debugger.views.knowledge_item import BAD_REQUEST, CONFLICT, get_item, number_of, reason_problem
from debugger.views.refusals import looking_on
from ingest.models import Project
from knowledge import items
from knowledge.drafts import KINDS, PROPOSITION_TOKENS, KnowledgeConflict, KnowledgeError
from knowledge.item_history import ItemPage


@person_only
@require_http_methods(["GET", "POST"])
def new_item(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """The empty form; a POST makes the item or shows the form again with all that was typed."""
    found = get_project_for(request.user, project)
    if not may_act(request.user, found):
        return _refused(request, found, reverse("knowledge-list", args=[found.slug]))
    if request.method == "GET":
        return _page(request, found, blank_form(request.GET.dict()))
    form = read_form(request.POST)
    reason = _reason(request, form)
    if form.draft is None or form.errors:
        return _page(request, found, form, status=BAD_REQUEST, reason=reason)
    try:
        made = items.create_item(found, form.draft, by=request.user.get_username(), reason=reason)
    except KnowledgeError as error:
        return _page(request, found, form, status=_told(form, error), reason=reason)
    return redirect("knowledge-item", project=found.slug, knowledge_id=made.knowledge_id)


@person_only
@require_http_methods(["GET", "POST"])
def revise_item(request: HtmxHttpRequest, project: str, knowledge_id: str) -> HttpResponse:
    """The form with the item's text; a POST adds a revision, unless somebody else did meanwhile."""
    found = get_project_for(request.user, project)
    page = get_item(found, knowledge_id)
    if not may_act(request.user, found):
        return _refused(request, found, reverse("knowledge-item", args=[found.slug, knowledge_id]))
    kept = items.draft_of(page.revision)
    if request.method == "GET" or page.item.state in stages.RETIRED_STATES:
        status = 200 if request.method == "GET" else CONFLICT
        return _page(request, found, form_of(kept), status=status, page=page)
    form = read_form(request.POST, kept)
    reason = _reason(request, form)
    base = number_of(request.POST.get("revision", "")) or 0
    if base != page.item.revision:
        return _page(request, found, form, status=CONFLICT, reason=reason, page=page, base=base)
    if form.draft is None or form.errors:
        return _page(request, found, form, status=BAD_REQUEST, reason=reason, page=page)
    by = request.user.get_username()
    try:
        items.revise_item(found, form.draft, by=by, reason=reason, expected_revision=base)
    except KnowledgeError as error:
        status, page = _told(form, error), get_item(found, knowledge_id)
        return _page(request, found, form, status=status, reason=reason, page=page, base=base)
    return redirect("knowledge-item", project=found.slug, knowledge_id=knowledge_id)


@person_only
@require_POST
def count_tokens(request: HtmxHttpRequest, project: str) -> HttpResponse:
    """Say how many tokens a rule that is being written has, of how many. The text goes nowhere."""
    get_project_for(request.user, project)
    tokens = estimate_tokens(request.POST.get("proposition", "").replace("\r\n", "\n").strip())
    context = {"tokens": tokens, "most": PROPOSITION_TOKENS, "is_over": tokens > PROPOSITION_TOKENS}
    return render(request, "_knowledge_tokens.html", context)


def _reason(request: HtmxHttpRequest, form: ItemForm) -> str:
    """Return the reason as typed; what is wrong with it joins the form's errors."""
    reason = request.POST.get("reason", "").replace("\r\n", "\n").strip()
    problem = reason_problem(reason)
    if problem:
        form.errors["reason"] = problem
    return reason


def _told(form: ItemForm, error: KnowledgeError) -> int:
    """Put what the store refused beside its field, or above the form; return the status of the answer."""
    form.errors[error.field if error.field in form.values else ""] = str(error)
    return CONFLICT if isinstance(error, KnowledgeConflict) else BAD_REQUEST


def _refused(request: HtmxHttpRequest, project: Project, back: str) -> HttpResponse:
    return looking_on(request, project, f"You look on in {project.name}; members who act write its knowledge.", back)


def _page(
    request: HtmxHttpRequest,
    project: Project,
    form: ItemForm,
    *,
    status: int = 200,
    reason: str = "",
    page: ItemPage | None = None,
    base: int | None = None,
) -> HttpResponse:
    """Return the form. `base` is the revision an edit started from, when that is not the current one any more."""
    context: dict[str, Any] = {
        "project": project,
        "form": form,
        "reason": reason,
        "page": page,
        "is_retired": page is not None and page.item.state in stages.RETIRED_STATES,
        "limits": LIMITS,
        "long_texts": LONG_TEXTS,
        "scopes": SCOPES,
        "lines": LINES,
        "kinds": KINDS,
        "first_states": {word: stages.ITEM_STATES[word] for word in FIRST_STATES},
        "triggers": stages.TRIGGERS,
        "tokens": form.tokens,
        "most": PROPOSITION_TOKENS,
        "is_over": form.tokens > PROPOSITION_TOKENS,
    }
    older = next((one for one in page.revisions if one.number == base), None) if page else None
    if page is not None and base is not None and base != page.item.revision:
        context |= {
            "is_stale": True,
            "others": [one for one in page.revisions if one.number > base],
            "diff": compare(revision_text(older), revision_text(page.revision)) if older else (),
        }
    return render(request, "knowledge_form.html", context, status=status)
