"""The playground's chat in the OpenAPI description. It is no REST framework view, so it is described by hand."""

from __future__ import annotations

from typing import Any

CHAT_PATH = "/api/v1/playground/chat"

_ERROR = {
    "type": "object",
    "description": "An error as OpenAI's API words it.",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": ["string", "null"]},
                "param": {"type": ["string", "null"]},
            },
            "required": ["message", "type"],
        }
    },
    "required": ["error"],
}

_BODY = {
    "type": "object",
    "description": "The serving API's chat request; everything else that it knows may be given too.",
    "properties": {
        "model": {"type": "string", "description": "Name of a deployment."},
        "messages": {"type": "array", "items": {"type": "object"}},
        "stream": {"type": "boolean", "default": False},
        "max_tokens": {"type": "integer"},
        "temperature": {"type": "number"},
        "seed": {"type": "integer"},
    },
    "required": ["model", "messages"],
    "additionalProperties": True,
}

_REFUSALS = {
    "400": "Bad Request",
    "401": "Unauthorized",
    "403": "Forbidden",
    "413": "Request Entity Too Large",
    "415": "Unsupported Media Type",
    "502": "Bad Gateway",
    "default": "Refused by the serving API",
}

_OPERATION: dict[str, Any] = {
    "operationId": "chat_in_playground",
    "summary": "Chat in the playground",
    "description": (
        "Forwards the request to the serving API under the playground's own key and streams its answer through as it "
        "comes. A stream ends with an event `timings` (where the time of the request went) before `[DONE]`."
    ),
    "tags": ["playground"],
    "security": [{"cookieAuth": []}],
    "requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}},
    "responses": {
        "200": {
            "description": "OK",
            "content": {
                "text/event-stream": {"schema": {"type": "string"}},
                "application/json": {"schema": {"type": "object"}},
            },
        },
        **{
            status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
            for status, text in _REFUSALS.items()
        },
    },
}


def add_chat(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """drf-spectacular hook."""
    result["paths"][CHAT_PATH] = {"post": _OPERATION}
    return result
