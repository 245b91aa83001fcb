"""Reading JSON bodies. A module of its own: Django REST framework imports it while its views are being loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import msgspec
from rest_framework import exceptions
from rest_framework.parsers import BaseParser

#: Far more than any request of this API needs.
MAX_BODY_BYTES = 1 << 20


class BodyTooLarge(exceptions.APIException):
    status_code = 413
    default_code = "body_too_large"
    default_detail = f"A body has at most {MAX_BODY_BYTES} bytes."


class JSONParser(BaseParser):
    """Refuses in words what would otherwise fail later: bodies too large or nested too deeply, halves of characters."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """
        Raises:
            BodyTooLarge: longer than MAX_BODY_BYTES; the rest is not read.
            ParseError: this is no JSON that can be worked with.
        """
        content = stream.read(MAX_BODY_BYTES + 1)
        if len(content) > MAX_BODY_BYTES:
            raise BodyTooLarge
        try:
            return msgspec.json.decode(content)
        except RecursionError as error:
            raise exceptions.ParseError("The body is nested too deeply.") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise exceptions.ParseError(f"The body is no JSON: {error}.") from error
