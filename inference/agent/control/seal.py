"""The message authentication between this node and its control plane."""

from __future__ import annotations

from inference.contracts.auth import sign_message, verify_message


class WrongCode(ValueError):
    """A message did not come from this node's control plane, or was changed on its way; the text says what is wrong."""


class Seal:
    """Signs what this node sends and checks what it is sent. May be used from any thread.

    key: see `NodeWelcome.node_key`; empty for a node that joined under an earlier release and was not given one yet.
    Such a node signs nothing and takes messages as they come; with the first key that ends for good. refused: messages
    without a right code so far.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self.refused = 0

    @property
    def has_key(self) -> bool:
        return bool(self._key)

    def use(self, key: str) -> None:
        """Take the key that the control plane gave; an empty one never replaces a key."""
        self._key = key or self._key

    def code(self, purpose: str, message: str) -> str:
        """The code that travels beside `message`; empty while there is no key. purpose: name of its task."""
        return sign_message(self._key, purpose, message) if self._key else ""

    def check(self, purpose: str, message: str, code: str) -> None:
        """Raises `WrongCode` when there is a key and `code` is not that of `message`."""
        if not self._key or verify_message(self._key, purpose, message, code):
            return
        self.refused += 1
        what = "carries a wrong authentication code" if code else "carries no authentication code"
        raise WrongCode(f"a message for {purpose} {what} ({self.refused} refused since the start)")
