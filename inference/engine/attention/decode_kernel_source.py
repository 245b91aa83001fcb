"""The code of `decode_kernel`, compiled with numba. Importing it imports numba.

Sizes are constants of the compiled code, so its inner loops are straight runs of vector instructions. They are written
for that: several keys per pass over a query, several values per pass over an output, `exp2` as a polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

_f4, _i4, _i8, _u2, _u4 = np.float32, np.int32, np.int64, np.uint16, np.uint32

#: Sums may be taken in another order, as any matrix library does; NaN and infinity are kept.
_FAST = {"nsz", "arcp", "contract", "afn", "reassoc"}
_OPTIONS: dict[str, Any] = {"fastmath": _FAST, "boundscheck": False, "error_model": "numpy"}

#: 2 ** x for x in [-0.5, 0.5], relative error below 2e-7 (coefficients of the Taylor series in x ln 2, adjusted).
_EXP2 = (1.535336188e-4, 1.339887440e-3, 9.618437357e-3, 5.550332471e-2, 2.402264791e-1, 6.931472029e-1, 1.0)
_C6, _C5, _C4, _C3, _C2, _C1, _C0 = (_f4(c) for c in _EXP2)

#: Smaller powers of two are zero in float32, or nearly.
_LEAST_EXPONENT = _f4(-126.0)


#: Rows of keys or values that are asked for ahead of their use. The processor's own guess is late where a matrix is
#: left for the next after a few hundred rows.
_AHEAD = 32
_CACHE_LINE = 64

#: What the kernel is told: addresses of memory, and strides in elements. First what differs in each layer; the arrays
#: at the end are those of `Answers`.
JOB = np.dtype(
    [
        *((name, _i8) for name in ("query", "query_row", "query_head", "keys", "values", "output")),
        *((name, _i8) for name in ("kv_head", "kv_heads", "scratch", "scratch_tokens", "threads")),
        *((name, _i8) for name in ("answers", "rows", "run_ends", "run_firsts", "run_lengths")),
        ("scale", _f4),  # times log2(e)
    ],
    align=True,
)


def build(head_size: int, group: int, *, half: bool, thread_number: Callable[[], int] | None) -> Any:
    """A C function `void(void *job)`, see `JOB`. half: bfloat16 instead of float32. thread_number: says in compiled
    code which of its threads runs it; None where there is only one.

    Raises:
        RuntimeError: numba can't compile it.
    """
    try:
        return _build(head_size, group, half, thread_number)
    except NumbaError as error:
        raise RuntimeError(f"numba can't compile the kernel: {error}") from error


@intrinsic
def _pointer(_context: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@intrinsic
def _prefetch(_context: Any, address: Any) -> Any:
    """Ask for the cache line at `address`, which may lie outside of everything."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, moderate_locality, data = flag(0), flag(2), flag(1)
        pointer = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        builder.call(prefetch, [pointer, read, moderate_locality, data])
        return context.get_dummy_value()

    return types.void(address), generate


@njit(**_OPTIONS)
def _bfloat16(x: Any) -> Any:
    """The bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    if x != x:
        return _u2(0x7FC0)
    bits = _f4(x).view(_u4)
    return _u2((bits + _u4(0x7FFF) + ((bits >> _u4(16)) & _u4(1))) >> _u4(16))


@njit(fastmath=_FAST | {"nnan"}, boundscheck=False, error_model="numpy")
def _largest(scores: Any, count: int) -> Any:
    largest = scores[0]
    for t in range(count):
        largest = max(largest, scores[t])
    return largest


@njit(**_OPTIONS)
def _softmax(scores: Any, count: int) -> None:
    """Scores, to base 2, become weights of sum 1."""
    largest = _largest(scores, count)
    total = _f4(0)
    for t in range(count):
        power = scores[t] - largest
        power = _LEAST_EXPONENT if power < _LEAST_EXPONENT else power
        whole = np.floor(power + _f4(0.5))
        x = power - whole
        part = _C6
        part = part * x + _C5
        part = part * x + _C4
        part = part * x + _C3
        part = part * x + _C2
        part = part * x + _C1
        part = part * x + _C0
        weight = part * _i4((_i4(whole) + _i4(127)) << _i4(23)).view(_f4)
        scores[t] = weight
        total += weight
    share = _f4(1) / total
    for t in range(count):
        scores[t] *= share


def _build(size: int, group: int, half: bool, thread_number: Callable[[], int] | None) -> Any:
    stored, width = (_u2, 2) if half else (_f4, 4)
    number_of_thread: Any = thread_number or njit(lambda: 0)
    record = from_dtype(JOB)
    if half:

        @njit(inline="always")
        def number(x: Any) -> Any:
            return _u4(_u4(x) << _u4(16)).view(_f4)

        @njit(inline="always")
        def store(x: Any) -> Any:
            return _bfloat16(x)

    else:

        @njit(inline="always")
        def number(x: Any) -> Any:
            return x

        @njit(inline="always")
        def store(x: Any) -> Any:
            return x

    @njit(inline="always")
    def ask(matrix: Any, first: int, count: int) -> None:
        """Have `count` rows on their way before they are read; past the end of the matrix it does no harm."""
        begin = matrix.ctypes.data + first * size * width
        for line in range(0, count * size * width, _CACHE_LINE):
            _prefetch(begin + line)

    @njit(**_OPTIONS)
    def score(query: Any, keys: Any, count: int, scores: Any, begin: int) -> None:
        """scores[:, begin + t] = query . keys[t]"""
        fours = count & ~3
        for t in range(0, fours, 4):
            ask(keys, t + _AHEAD, 4)
            for g in range(group):
                a, b, c, e = _f4(0), _f4(0), _f4(0), _f4(0)
                for d in range(size):
                    x = query[g, d]
                    a += x * number(keys[t, d])
                    b += x * number(keys[t + 1, d])
                    c += x * number(keys[t + 2, d])
                    e += x * number(keys[t + 3, d])
                scores[g, begin + t] = a
                scores[g, begin + t + 1] = b
                scores[g, begin + t + 2] = c
                scores[g, begin + t + 3] = e
        for t in range(fours, count):
            for g in range(group):
                a = _f4(0)
                for d in range(size):
                    a += query[g, d] * number(keys[t, d])
                scores[g, begin + t] = a

    @njit(**_OPTIONS)
    def gather(weights: Any, values: Any, count: int, begin: int, output: Any) -> None:
        """output += weights[:, begin : begin + count] @ values"""
        eights = count & ~7
        for t in range(0, eights, 8):
            ask(values, t + _AHEAD, 8)
            for g in range(group):
                u = begin + t
                w0, w1, w2, w3 = weights[g, u], weights[g, u + 1], weights[g, u + 2], weights[g, u + 3]
                w4, w5, w6, w7 = weights[g, u + 4], weights[g, u + 5], weights[g, u + 6], weights[g, u + 7]
                for d in range(size):
                    output[g, d] += (
                        w0 * number(values[t, d])
                        + w1 * number(values[t + 1, d])
                        + w2 * number(values[t + 2, d])
                        + w3 * number(values[t + 3, d])
                        + w4 * number(values[t + 4, d])
                        + w5 * number(values[t + 5, d])
                        + w6 * number(values[t + 6, d])
                        + w7 * number(values[t + 7, d])
                    )
        for t in range(eights, count):
            for g in range(group):
                w0 = weights[g, begin + t]
                for d in range(size):
                    output[g, d] += w0 * number(values[t, d])

    @njit(inline="always")
    def rows(address: int, first: int, count: int) -> Any:
        """`count` rows of a matrix that begins at `address`, from element `first` on."""
        return carray(_pointer(address + first * width), (count, size), stored)

    @njit(inline="always")
    def integers(address: int, count: int) -> Any:
        return carray(_pointer(address), (count,), _i8)

    @cfunc(types.void(types.CPointer(record)), **_OPTIONS)
    def attend(jobs: Any) -> None:
        job = carray(jobs, (1,))[0]
        row, end = integers(job.rows, job.answers), integers(job.run_ends, job.answers)
        first, length = integers(job.run_firsts, end[job.answers - 1]), integers(job.run_lengths, end[job.answers - 1])
        thread = _i8(number_of_thread())
        room = job.scratch_tokens
        scores = carray(_pointer(job.scratch + thread * group * room * 4), (group, room), _f4)
        query, output = np.empty((group, size), _f4), np.empty((group, size), _f4)
        for item in range(thread, job.answers * job.kv_heads, job.threads):
            answer, head = item // job.kv_heads, item % job.kv_heads
            begin = _i8(0) if answer == 0 else end[answer - 1]
            for g in range(group):
                given = rows(job.query, row[answer] * job.query_row + (head * group + g) * job.query_head, 1)
                for d in range(size):
                    query[g, d] = number(given[0, d]) * job.scale
                    output[g, d] = _f4(0)
            seen = _i8(0)
            for run in range(begin, end[answer]):
                keys = rows(job.keys, head * job.kv_head + first[run] * size, length[run])
                score(query, keys, length[run], scores, seen)
                seen += length[run]
            for g in range(group):
                _softmax(scores[g], seen)
            seen = _i8(0)
            for run in range(begin, end[answer]):
                values = rows(job.values, head * job.kv_head + first[run] * size, length[run])
                gather(scores, values, length[run], seen, output)
                seen += length[run]
            taken = rows(job.output, (row[answer] * job.kv_heads + head) * group * size, group)
            for g in range(group):
                for d in range(size):
                    taken[g, d] = store(output[g, d])

    return attend
