"""Token ids -> text, one token at a time, such that the pieces add up to what decoding all ids at once gives."""

from __future__ import annotations

from collections.abc import Callable

#: What a decoder writes for bytes that are not (yet) a character.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

#: A cut UTF-8 character is at most three bytes, and a decoder writes at most one replacement for each of them.
_MAX_CUT = 3


class Detokenizer:
    """Decodes a sliding window: the tokens since the last boundary between characters, after those before it.

    The tokens before the boundary are context; decoders of the sentencepiece family drop the leading space of the
    first token they see. Trailing replacement characters are held back, since the next token may complete them, but
    never more than three: then the earlier ones are truly invalid bytes, which must not stall the stream.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._context = 0  # leading ids of the window whose text was given before
        self._given = 0  # leading characters of the window's text that were given

    def push(self, token_id: int) -> str:
        """The text that became certain with `token_id`; often empty."""
        self._window.append(token_id)
        text = self._decode(self._window)
        certain = len(text) - _cut_length(text)
        if certain <= self._given:
            return ""
        fresh, self._given = text[self._given : certain], certain
        if certain == len(text):
            self._window = self._window[self._context :]
            self._context = len(self._window)
            self._given = len(self._decode(self._window))
        return fresh

    def flush(self) -> str:
        """The rest, once no more tokens will come: a cut character becomes replacement characters."""
        text = self._decode(self._window)
        rest, self._given = text[self._given :], len(text)
        return rest


def _cut_length(text: str) -> int:
    """Trailing characters of `text` that a next token may still change."""
    return min(_MAX_CUT, len(text) - len(text.rstrip(REPLACEMENT)))
