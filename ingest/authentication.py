from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission


class ApiKeyAuthentication(BaseAuthentication): ...


class HasScope(BasePermission): ...
