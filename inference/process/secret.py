"""The cluster secret of a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def read_cluster_secret(env: Mapping[str, str]) -> str:
    """The content of the file that TANDEM_CLUSTER_SECRET_FILE names, else TANDEM_CLUSTER_SECRET.

    Raises:
        ValueError: neither is set, or the file is empty or no text.
        OSError: the file can't be read.
    """
    path = env.get("TANDEM_CLUSTER_SECRET_FILE")
    secret = Path(path).read_text() if path else env.get("TANDEM_CLUSTER_SECRET", "")
    if not secret.strip():
        raise ValueError("no cluster secret: set TANDEM_CLUSTER_SECRET_FILE or TANDEM_CLUSTER_SECRET")
    return secret.strip()
