"""API keys: made, checked, revoked. Only the SHA-256 of a key is kept. (A key is shown once, when it is made.)"""

import hashlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from ingest.errors import IngestError
from ingest.models import ApiKey, Project

if TYPE_CHECKING:  # DRF loads this module while it defines its views
    from rest_framework.views import APIView

SCOPES = ("ingest", "observe", "read", "curate")
KEY_PREFIX_LENGTH = 12


def create_key(project: Project, name: str, scopes: Sequence[str]) -> tuple[ApiKey, str]:
    """Make a key of `project` and return it with its raw text, which is kept nowhere.

    Raises ValueError when `scopes` is empty or holds a word outside SCOPES.
    """
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise ValueError(f"scopes must be one or more of {', '.join(SCOPES)}")
    prefix = secrets.token_hex(KEY_PREFIX_LENGTH // 2)
    raw = f"tk_{prefix}_{secrets.token_urlsafe(32)}"
    key = ApiKey.objects.create(
        project=project, name=name, prefix=f"tk_{prefix}"[:16], digest=digest_of(raw), scopes=sorted(set(scopes))
    )
    return key, raw


def revoke_key(key: ApiKey) -> None:
    """End a key for good; revoking twice keeps the first time."""
    ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())


def set_events_per_minute(key: ApiKey, number: int | None) -> None:
    """Give a key a quota of its own: events in a minute, 0 for none; None gives it the setting's back."""
    ApiKey.objects.filter(pk=key.pk).update(events_per_minute=number)


def digest_of(raw: str) -> bytes:
    return hashlib.sha256(raw.encode()).digest()


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer tk_…`: sets `request.auth` to the ApiKey (with its project). One query."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, ApiKey]:
        scheme, _, raw = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not raw.strip():
            raise AuthenticationFailed("send an API key: Authorization: Bearer tk_…", code="key_missing")
        key = ApiKey.objects.select_related("project").filter(digest=digest_of(raw.strip())).first()
        if key is None:
            raise AuthenticationFailed("this API key is not known; make one on the project's keys page", "key_unknown")
        if key.revoked_at is not None:
            raise AuthenticationFailed(
                "this API key was revoked; make a new one on the project's keys page", "key_revoked"
            )
        return AnonymousUser(), key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class HasScope(BasePermission):
    """Lets a key through whose scopes hold the view's `required_scope`, or one of them when there are several.

    A view that reads and writes at one address has a `write_scope` for what is no GET.
    """

    def has_permission(self, request: Request, view: "APIView") -> bool:
        required: str | tuple[str, ...] = getattr(view, "required_scope", ())
        if request.method not in SAFE_METHODS:
            required = getattr(view, "write_scope", "") or required
        wanted = (required,) if isinstance(required, str) else required
        if not isinstance(request.auth, ApiKey) or not wanted:
            return False
        if not any(scope in request.auth.scopes for scope in wanted):
            held = ", ".join(request.auth.scopes)
            detail = f"this key has no scope {' or '.join(wanted)} (it has {held}); make a key with it"
            raise IngestError("scope_missing", 403, detail)
        return True
