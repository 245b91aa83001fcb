"""Text that can't steer a terminal."""

from __future__ import annotations


def plain(text: str) -> str:
    """Without control characters: a log line or a name must not move the cursor or write to the clipboard."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text)
