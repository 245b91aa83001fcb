"""A child process that starts another and ignores what it is told."""

from __future__ import annotations

import signal
import subprocess
import time

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
