"""What a local password must be, beside what Django's own validators ask; set by TANDEM_PASSWORD_*."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from controlplane.core.errors import Invalid

_KINDS: dict[str, Callable[[str], bool]] = {
    "small letters": str.islower,
    "capital letters": str.isupper,
    "digits": str.isdigit,
    "other characters": lambda character: not character.isalnum(),
}


class KindsValidator:
    """Asks for characters of several kinds. Length protects better; this is for those whose rules demand it."""

    def __init__(self, kinds: int) -> None:
        self.kinds = min(kinds, len(_KINDS))

    def validate(self, password: str, user: User | None = None) -> None:
        used = sum(any(is_one(character) for character in password) for is_one in _KINDS.values())
        if used < self.kinds:
            raise ValidationError(self.get_help_text(), code="password_too_uniform")

    def get_help_text(self) -> str:
        return f"A password has at least {self.kinds} of these: {', '.join(_KINDS)}."


def require_good_password(password: str, user: User, *, field: str = "password") -> None:
    """
    Raises:
        Invalid: with every rule that `password` breaks.
    """
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), code="weak_password", field=field) from error
