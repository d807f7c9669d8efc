"""Makes projects, and decides what may be a slug: one segment of an address that is taken by nothing else."""

from typing import Final

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction

from ingest.models import RESERVED_SLUGS, Project

SLUG_LIMIT: Final = 60  # characters


class ProjectError(ValueError):
    """A project cannot be made; the text says why and what to do."""


def create_project(slug: str, name: str) -> Project:
    """Make a project. Raises ProjectError for a slug that is reserved, taken or not one."""
    check_slug(slug)
    try:
        with transaction.atomic():
            return Project.objects.create(slug=slug, name=name or slug)
    except IntegrityError:
        raise ProjectError(f"there is a project {slug!r} already, or one that is being deleted") from None


def check_slug(slug: str) -> None:
    """Raises ProjectError unless a project could be opened under this slug."""
    if slug.lower() in RESERVED_SLUGS:
        raise ProjectError(f"the slug {slug!r} is an address of this installation; choose another, such as my-{slug}")
    try:
        validate_slug(slug)
    except ValidationError:
        raise ProjectError("a slug holds letters, digits, hyphens and underscores, and nothing else") from None
    if len(slug) > SLUG_LIMIT:
        raise ProjectError(f"a slug has at most {SLUG_LIMIT} characters, this one has {len(slug)}")
