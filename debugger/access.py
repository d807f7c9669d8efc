"""Who may see what: one-time sign-in links, and the only way to a guarded object.

A page never looks an object up by itself: what a person is not a member of does not exist for them. (Seed 001 §14.)
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from typing import Concatenate, Final, ParamSpec

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.db.models import QuerySet, Subquery
from django.http import Http404, HttpResponse
from django.urls import resolve, reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control

from debugger.htmx import HtmxHttpRequest, go_to
from debugger.models import SignInLink
from ingest.forgetting import mark_of
from ingest.models import GoneRun, Project, Run
from knowledge.models import RunSummary

LINK_HOURS: Final = 24  # how long an unused link stays good
TOKEN_BYTES: Final = 32
VIEWERS: Final = "{slug} viewers"  # the group of those who may look at a project's pages and not act on them

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Gone:
    """When an earlier run of an id was taken away, and by what: "retention" or "deleted"."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class GuardedRun:
    """A run its person may see: what the journal knows, and what was derived from it, once anything was.

    `gone` is the mark of an earlier run of this id that was taken away: this one is what came after.
    """

    project: Project
    registry: Run
    summary: RunSummary | None
    gone: Gone | None = None


def make_sign_in_link(user: User) -> str:
    """Return the path of a new link that signs `user` in once, within LINK_HOURS. The token is kept nowhere."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    SignInLink.objects.create(user=user, digest=_digest(token))
    return reverse("sign-in-link", args=[token])


def is_link_used(path: str) -> bool:
    """Tell whether the link at `path` no longer signs anybody in: used, too old, or unknown."""
    token = str(resolve(path).kwargs["token"])
    return not _good_links().filter(digest=_digest(token)).exists()


def use_sign_in_link(token: str) -> User | None:
    """Use the link up and return its person, or None when it is used, too old or unknown. Two users: one wins."""
    digest = _digest(token)
    if _good_links().filter(digest=digest).update(used_at=timezone.now()) != 1:
        return None
    return SignInLink.objects.select_related("user").get(digest=digest).user


def _good_links() -> QuerySet[SignInLink]:
    oldest = timezone.now() - timedelta(hours=LINK_HOURS)
    return SignInLink.objects.filter(used_at=None, created_at__gt=oldest, user__is_active=True)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def person_only(view: Callable[Concatenate[HtmxHttpRequest, P], HttpResponse]) -> Callable[..., HttpResponse]:
    """Let signed-in people through to `view`; the others go to the sign-in page, from a fragment too.

    What they get is theirs alone: no cache on the way keeps it, and the browser asks again.
    """

    @wraps(view)
    def checked(request: HtmxHttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if request.user.is_authenticated:
            response = view(request, *args, **kwargs)
            if not response.has_header("Cache-Control"):
                patch_cache_control(response, private=True, no_cache=True)
            return response
        if request.htmx:
            return go_to(reverse("sign-in"))
        return redirect_to_login(request.get_full_path(), reverse("sign-in"))

    return checked


def projects_for(user: User | AnonymousUser) -> QuerySet[Project]:
    """Return the projects a person is a member of, by slug; one whose deletion has begun is gone."""
    if not user.is_authenticated:
        return Project.objects.none()
    return Project.objects.filter(memberships__user=user, deleted_at=None).order_by("slug")


def get_project_for(user: User | AnonymousUser, slug: str) -> Project:
    """Return the project. Raises Http404 when it is not there or the person is no member: both look the same."""
    project = projects_for(user).filter(slug=slug).first()
    if project is None:
        raise Http404("no such project")
    return project


def may_act(user: User | AnonymousUser, project: Project) -> bool:
    """Tell whether a member may act: those in the group of the project's viewers look on."""
    return not user.groups.filter(name=VIEWERS.format(slug=project.slug)).exists()


def get_run_for(user: User | AnonymousUser, slug: str, run_id: str) -> GuardedRun:
    """Return a run from its first event on. Raises Http404 as `get_project_for` does, and for an unknown run."""
    project = get_project_for(user, slug)
    marks = GoneRun.objects.filter(project_id=project.pk, digest=mark_of(run_id))
    registry = (
        Run.objects.filter(project_id=project.pk, run_id=run_id)
        .annotate(gone_at=Subquery(marks.values("gone_at")), gone_reason=Subquery(marks.values("reason")))
        .first()
    )
    if registry is None:
        raise Http404("no such run")
    summary = RunSummary.objects.filter(project_id=project.pk, run_id=run_id).first()
    gone = Gone(registry.gone_at, registry.gone_reason) if registry.gone_at else None
    return GuardedRun(project, registry, summary, gone)


def gone_run_for(user: User | AnonymousUser, slug: str, run_id: str) -> Gone | None:
    """Return when a run of the project was taken away, None when no mark says so. Raises as `get_project_for` does."""
    project = get_project_for(user, slug)
    mark = GoneRun.objects.filter(project_id=project.pk, digest=mark_of(run_id)).first()
    return Gone(mark.gone_at, mark.reason) if mark else None
