"""Reading JSON bodies. A module of its own: Django REST framework imports it while its views are being loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import msgspec
from rest_framework import exceptions
from rest_framework.parsers import BaseParser

from controlplane.core.rest.limits import max_body_bytes


class BodyTooLarge(exceptions.APIException):
    status_code = 413
    default_code = "body_too_large"

    def __init__(self) -> None:
        super().__init__(f"A body has at most {max_body_bytes()} bytes.")


class JSONParser(BaseParser):
    """Refuses in words what would otherwise fail later: bodies too large or nested too deeply, halves of characters."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """
        Raises:
            BodyTooLarge: longer than a body may be; the rest is not read.
            ParseError: this is no JSON that can be worked with.
        """
        content = stream.read(max_body_bytes() + 1)
        if len(content) > max_body_bytes():
            raise BodyTooLarge
        try:
            return msgspec.json.decode(content)
        except RecursionError as error:
            raise exceptions.ParseError("The body is nested too deeply.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise exceptions.ParseError(f"The body is no JSON: {error}.") from error
