"""Why weights could not be fetched."""

from __future__ import annotations


class FetchFailed(Exception):
    """The text is one sentence for people: what was wrong, and where it helps, what to do."""
