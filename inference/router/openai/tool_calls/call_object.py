"""One call as the JSON object that a model writes, read while it comes."""

from __future__ import annotations

import msgspec

_WHITE = " \t\r\n"
_ARGUMENTS = ("arguments", "parameters")


class CallObject:
    """{"name": ..., "arguments": {...}} in any order, or with `name` given the arguments alone.

    Takes text from the opening brace on. `name` is known once it has come whole; `take_arguments` then gives the text
    of the arguments as the model writes it, piece by piece.
    """

    def __init__(self, name: str | None = None) -> None:
        self.raw = ""
        self.done = False
        self.name = name
        self._bare = name is not None
        self._members: dict[str, str] = {}
        self._depth = 0
        self._string_at: int | None = None
        self._escaped = False
        self._key: str | None = None
        self._value_at: int | None = None
        self._arguments_at: int | None = 0 if self._bare else None
        self._arguments_end: int | None = None
        self._taken = 0

    def feed(self, text: str) -> str:
        """Read on; what follows the object is given back."""
        for used, character in enumerate(text):
            self.raw += character
            if self._string_at is not None:
                self._in_string(character)
            else:
                self._outside(character)
            if self.done:
                return text[used + 1 :]
        return ""

    def take_arguments(self) -> str:
        """What has come of the arguments since the last call; nothing before the name is known."""
        if self.name is None:
            return ""
        if self._arguments_at is None:
            return self._late_arguments() if self.done else ""
        end = len(self.raw) if self._arguments_end is None else self._arguments_end
        piece = self.raw[self._arguments_at + self._taken : end]
        self._taken += len(piece)
        return piece

    def _in_string(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            begun, self._string_at = self._string_at, None
            if self._depth == 1 and self._value_at is None:
                self._key = _text(self.raw[begun:])

    def _outside(self, character: str) -> None:
        at = len(self.raw) - 1
        top = self._depth == 1
        if character in "}]":
            self._close(at)
        elif top and character == ",":
            self._end_value(at)
        elif top and character == ":" and self._value_at is None:
            self._value_at = len(self.raw)
        elif character == '"':
            self._string_at = at
        elif character in "{[":
            if top and character == "{" and self._streams():
                self._arguments_at = at
            self._depth += 1

    def _close(self, at: int) -> None:
        self._depth -= 1
        if self._depth == 1 and self._arguments_at is not None and self._arguments_end is None:
            self._arguments_end = None if self._bare else at + 1
        elif self._depth <= 0:
            self._end_value(at)
            self.done = True

    def _streams(self) -> bool:
        """Whether the object that begins now is the arguments of a call whose name is known."""
        return (
            not self._bare
            and self._arguments_at is None
            and self._key in _ARGUMENTS
            and self._value_at is not None
            and self.name is not None
        )

    def _end_value(self, at: int) -> None:
        if self._key is not None and self._value_at is not None:
            value = self._members[self._key] = self.raw[self._value_at : at].strip(_WHITE)
            if self._key == "name" and not self._bare:
                self.name = _text(value)
        self._key = self._value_at = None

    def _late_arguments(self) -> str:
        """Of an object that told its name last, that wrote its arguments as a text, or that has none."""
        self._arguments_at = self._arguments_end = len(self.raw)
        value = next((self._members[key] for key in _ARGUMENTS if key in self._members), "{}")
        inner = _text(value)
        return value if inner is None else inner


def _text(value: str) -> str | None:
    try:
        return msgspec.json.decode(value, type=str)
    except msgspec.MsgspecError:
        return None
