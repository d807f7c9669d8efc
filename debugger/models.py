"""One-time sign-in links: only the hash of a link's token is kept."""

from django.conf import settings
from django.db import models


class SignInLink(models.Model):
    """A link that signs `user` in once. Written only by `access.py`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the token")
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, blank=True)
