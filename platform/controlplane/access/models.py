"""People, their rights, and the two kinds of secrets that programs carry. No secret itself is ever stored."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import User
from django.db import models

from inference.contracts.states import PriorityClass, UserRole

_ROLES = [(role, role) for role in UserRole]
_PRIORITY_CLASSES = [(each, each) for each in PriorityClass]

#: Longest name of a deployment in a grant or a scope.
DEPLOYMENT_NAME_LENGTH = 100


class Account(models.Model):
    """What one of Django's users may do, everywhere. One without a row is an admin if a superuser, else a viewer."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="account")
    role = models.CharField(max_length=16, choices=_ROLES, default=UserRole.VIEWER)


class Grant(models.Model):
    """A higher role for one deployment, by its name: the grant may come before the deployment, and outlives it."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="deployment_grants")
    deployment = models.CharField(max_length=DEPLOYMENT_NAME_LENGTH)
    role = models.CharField(max_length=16, choices=_ROLES)

    class Meta:
        ordering = ["deployment"]
        constraints = [models.UniqueConstraint(fields=["user", "deployment"], name="one_grant_per_user_and_deployment")]


class OidcIdentity(models.Model):
    """Whom the identity provider knows as `subject`. Names may be given to somebody else there; this never is."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="oidc_identity")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_user_per_oidc_subject")]


class LoginFailure(models.Model):
    """One refused password. name: as it was typed, whether or not there is such a user."""

    name = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["name", "at"]), models.Index(fields=["address", "at"])]


class Credential(models.Model):
    """A random secret of a program, kept as SHA-256 in hex: 256 random bits need neither salt nor a slow hash.

    prefix: the first characters, for recognising it. previous_digest: the secret before the last rotation, good until
    previous_until.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=20)
    digest = models.CharField(max_length=64, unique=True)
    previous_digest = models.CharField(max_length=64, unique=True, null=True)
    previous_until = models.DateTimeField(null=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
        ordering = ["-created_at"]


class ServingKey(Credential):
    """A key of the serving API. internal: the playground's own key, kept out of lists. scope: names of models it may
    call; empty means all. Limits hold per router; None is no limit."""

    internal = models.BooleanField(default=False)
    scope = models.JSONField(default=list)
    priority_class = models.CharField(max_length=16, choices=_PRIORITY_CLASSES, default=PriorityClass.STANDARD)
    requests_per_minute = models.PositiveIntegerField(null=True)
    tokens_per_minute = models.PositiveIntegerField(null=True)
    max_concurrent = models.PositiveIntegerField(null=True)


class ManagementToken(Credential):
    """A token of the management API.

    owner: the person it belongs to, whose rights it never exceeds and with whom it ends; None: of Tandem itself.
    role: at most this. only: the deployments it may see and change; None means all.
    """

    owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="management_tokens")
    role = models.CharField(max_length=16, choices=_ROLES)
    only = models.JSONField(null=True)

    class Meta(Credential.Meta):
        constraints = [
            # An actor is named in the audit by its token's name: two must never be confused.
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(revoked_at__isnull=True), name="one_live_token_per_name"
            )
        ]


class KeyTableVersion(models.Model):
    """One row: the version of the key table last built, so that it only grows."""

    version = models.PositiveBigIntegerField(default=0)
