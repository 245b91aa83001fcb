"""The control plane's settings as the tests use them: secrets that are no secrets, and data nowhere near real data."""

from __future__ import annotations

import os
import tempfile

os.environ["TANDEM_DATA"] = tempfile.mkdtemp(prefix="tandem-tests-")
os.environ["TANDEM_SECRET_KEY"] = "tests"
os.environ["TANDEM_CLUSTER_SECRET"] = "tests-cluster-secret"
# Nothing listens on port 1: a test that needs Redis brings its own, any other must live without.
os.environ["REDIS_URL"] = "redis://127.0.0.1:1/0"

from controlplane.config.settings import *  # noqa: F403
from controlplane.config.settings import DATA_DIR, DATABASES

# Tests ask more often than people; those of the limits set their own.
API_READS_PER_MINUTE = API_WRITES_PER_MINUTE = 0

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, not memory: tests with threads need connections that see each other's commits.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
