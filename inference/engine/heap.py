"""What becomes of memory that was freed: handed back to the system once, after the start, and kept from then on.

Weights are read, converted and laid out anew; the C library keeps up to half of their size for later, and a worker
starts once and runs for days. Steps are another matter. A long prompt makes and frees the same large tensors in each
layer; what goes back to the system in between is mapped and zeroed page by page every time, which cost a fifth of the
reading of 1,900 tokens in float32 (256,000 page faults). glibc's manual: "Malloc Tunable Parameters".
"""

from __future__ import annotations

import ctypes

# Numbers of `mallopt` in glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3

#: No allocation of a step is larger.
_LARGEST = 2**30


def settle_heap() -> None:
    """To be called when a start is over. Takes some milliseconds; does nothing with a C library other than glibc.

    What the process holds afterwards is what its largest step needed, whether that runs or not.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim") and hasattr(library, "mallopt"):
        library.malloc_trim(0)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)
        library.mallopt(_TRIM_THRESHOLD, 2 * _LARGEST - 1)
