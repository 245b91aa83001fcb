"""Memory that other processes of this machine may map: a file without a name, which is gone with its last user."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import weakref

import psutil

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, which Python's mmap does not name yet


class SharedFile:
    """`size` zeroed bytes, all of them set aside at once: what fits now, fits later.

    The file can neither shrink nor grow, so that whoever has mapped it is safe from us. fd: stays open as long as this.

    Raises:
        MemoryError, OSError: there is not so much memory.
    """

    def __init__(self, size: int) -> None:
        available = psutil.virtual_memory().available
        if size > available:  # asking for it would have processes killed before we were refused
            raise MemoryError(f"{size} bytes are more than the {available} that this machine has to spare")
        self.fd = os.memfd_create("tandem-kv", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self.fd)  # the mapping lives on as long as it is used
        os.posix_fallocate(self.fd, 0, size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.bytes = mmap.mmap(self.fd, size)
        with contextlib.suppress(OSError):  # an older kernel; pages are then found one by one
            self.bytes.madvise(_POPULATE_WRITE)
