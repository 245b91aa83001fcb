"""The environment that every process of a one-machine Tandem shares.

Settings are read once, when Django starts. So `up` makes what is missing (secrets, addresses) and starts itself again
under the final environment; every process it launches then inherits the same one.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from controlplane.launch.layout import Layout
from controlplane.launch.secret_files import ensure_secret

PREPARED = "TANDEM_UP_PREPARED"


def start_again_prepared(layout: Layout) -> NoReturn:
    """Replace this process by the same command under the final environment."""
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **final_environment(layout)})  # noqa: S606


def final_environment(layout: Layout) -> dict[str, str]:
    """Makes secrets that do not exist yet; keeps whatever the operator has set."""
    layout.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ("django", "cluster", "nodes"):
        ensure_secret(layout.secrets / name)
    ensure_secret(layout.secrets / "admin-password", nbytes=12)
    defaults = {
        "TANDEM_SECRET_KEY_FILE": str(layout.secrets / "django"),
        "TANDEM_CLUSTER_SECRET_FILE": str(layout.secrets / "cluster"),
        "TANDEM_NODE_SECRET_FILE": str(layout.secrets / "nodes"),
        "TANDEM_PUBLIC_URL": layout.console_url,
        "TANDEM_ROUTER_URL": layout.router_url,
        "TANDEM_ALLOWED_HOSTS": f"{layout.host},127.0.0.1,localhost",
        "TANDEM_TRUSTED_ORIGINS": f"{layout.console_url},http://localhost:{layout.console_port}",
    }
    if layout.own_redis:
        password = ensure_secret(layout.secrets / "redis")
        defaults["REDIS_URL"] = f"redis://:{password}@{layout.host}:{layout.redis_port}/0"
    kept = {name: value for name, value in defaults.items() if not os.environ.get(name)}
    return {
        **kept,
        PREPARED: "1",
        "TANDEM_OWN_REDIS": "1" if layout.own_redis else "0",
        "TANDEM_DATA": str(layout.data),
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONPATH": os.pathsep.join([str(layout.root / "platform"), str(layout.root)]),
        "PYTHONUNBUFFERED": "1",
    }
