"""What kind of place a model's path names, and how it is shown. Pure.

Node agents decide by the same rules; of a relative path only they know whether it is a directory.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from controlplane.core.errors import Invalid
from inference.contracts.states import ModelSource

_WEB = ("http", "https")


def source_of(path: str) -> ModelSource:
    """
    Raises:
        Invalid: no node could fetch from there.
    """
    scheme, separator, _ = path.partition("://")
    if not separator:
        return ModelSource.DIRECTORY if path.startswith(("/", ".", "~")) else ModelSource.HUB
    if scheme not in _WEB:
        raise Invalid(
            f"{scheme[:20]}:// can't be fetched by nodes; give the https address of the object store.", field="path"
        )
    try:
        address = urlsplit(path)
        named = bool(address.hostname)
    except ValueError:
        named = False
    if not named:
        raise Invalid("This address names no host.", field="path")
    if address.username or address.password:
        raise Invalid("An address can't hold a user or password; use one that is signed instead.", field="path")
    return ModelSource.WEB


def shown_path(path: str) -> str:
    """Without what follows the question mark of an address: signed ones hold credentials there."""
    address, question, _ = path.partition("?")
    return f"{address}?…" if question and "://" in address else path
