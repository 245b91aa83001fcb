"""Calls of tools in the text of an answer, told apart while the text comes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from inference.contracts.tools import LAYOUTS, ToolFormat
from inference.router.openai.tool_calls.call_object import CallObject

_WHITE = " \t\r\n"

#: No name of a tool is longer: what goes on without arguments is text.
_LONGEST_HEADER = 256


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of call `index` of an answer. call_id, name: in the first piece of a call."""

    index: int
    arguments: str
    call_id: str | None = None
    name: str | None = None


#: Text of the answer, or more of a call.
Piece = str | CallDelta


class CallReader:
    """Reads one answer. What only looks like a call is text after all, and nothing of it is lost.

    several: further calls are told, too, and not left out. new_id: of calls.
    """

    def __init__(self, format: ToolFormat, *, several: bool = True, new_id: Callable[[], str] | None = None) -> None:
        self._format = format
        self._layout = LAYOUTS[format]
        self._several = several
        self._new_id = new_id or (lambda: f"call_{uuid.uuid4().hex[:24]}")
        self._held = ""
        self._blank = ""
        self._in_text = False
        self._out: list[Piece] = []
        self._calls = 0
        self._told = False
        self._object: CallObject | None = None
        self._before = ""
        self._step = self._at_start if format is ToolFormat.LLAMA3_JSON else self._in_free_text

    @property
    def called(self) -> bool:
        """Whether there are calls, all of them whole."""
        return self._calls > 0 and self._object is None

    def feed(self, text: str) -> list[Piece]:
        """What is certain with `text`."""
        self._held += text
        while self._step():
            pass
        return self._take()

    def flush(self) -> list[Piece]:
        """What was held back, once nothing more will come. A call that is cut stays as far as it has come."""
        if self._object is not None and not self._told:
            self._tell(self._before + self._object.raw)
            self._object = None
        elif self._step == self._opened:
            self._tell(self._before)
        if self._step not in (self._closed, self._over):
            self._tell(self._held)
        self._held = ""
        if not self._calls:
            self._out += [self._blank] if self._blank else []
        return self._take()

    def _take(self) -> list[Piece]:
        out, self._out = self._out, []
        return out

    def _tell(self, text: str) -> None:
        """White space before and between calls is no text: it is held until it is known what follows."""
        self._blank += text
        if self._in_text or self._blank.strip(_WHITE):
            self._in_text = True
            if self._blank:
                self._out.append(self._blank)
            self._blank = ""

    # -- where the reader stands; each step says whether another one may follow at once ----------------------------

    def _in_free_text(self) -> bool:
        """Before a call, between calls, after them."""
        text, mark, rest = self._held.partition(self._layout.opens)
        if not mark:
            keep = _overlap(text, self._layout.opens)
            self._tell(text[: len(text) - keep])
            self._held = text[len(text) - keep :]
            return False
        self._tell(text)
        self._begin_calls(mark, rest)
        return True

    def _at_start(self) -> bool:
        """Of a format without marks, where the whole answer is calls or text."""
        opens, held = self._layout.opens, self._held.lstrip(_WHITE)
        if not held or (opens.startswith(held) and held != opens):
            return False
        if held.startswith(opens):
            self._begin_calls(opens, held.removeprefix(opens))
        elif held[0] == "{":
            self._begin_calls("", self._held)
        else:
            self._step = self._in_last_text
        return True

    def _in_last_text(self) -> bool:
        self._tell(self._held)
        self._held = ""
        return False

    def _begin_calls(self, mark: str, rest: str) -> None:
        self._before, self._held = mark, rest
        self._step = self._opened

    def _opened(self) -> bool:
        """After the mark of calls: a call, or a list of them, or else it was text."""
        held = self._held.lstrip(_WHITE)
        listed = held.removeprefix("[").lstrip(_WHITE)
        if not listed:
            return False
        if listed[0] == "{":
            self._begin_object(self._before + self._held[: len(self._held) - len(listed)], listed)
            return True
        if self._layout.opens == LAYOUTS[ToolFormat.MISTRAL].opens and listed == held:
            return self._header(held)
        return self._back_to_text()

    def _header(self, held: str) -> bool:
        """A name, and perhaps marks, before the arguments."""
        header, brace, rest = held.partition("{")
        name = header.partition("[")[0].strip(_WHITE)
        if brace and name:
            self._begin_object(self._before + header, brace + rest, name)
            return True
        return (brace != "" or len(held) > _LONGEST_HEADER or "\n" in name) and self._back_to_text()

    def _back_to_text(self) -> bool:
        self._tell(self._before)
        self._step = self._in_last_text if self._format is ToolFormat.LLAMA3_JSON else self._in_free_text
        return True

    def _begin_object(self, before: str, rest: str, name: str | None = None) -> None:
        self._object, self._told = CallObject(name), False
        self._before, self._held = before, rest
        self._step = self._in_object

    def _in_object(self) -> bool:
        call = self._object
        if call is None:
            raise RuntimeError("no call is being read")
        self._held = call.feed(self._held)
        if call.name is not None:
            self._tell_call(call)
        if not call.done:
            return False
        self._object = None
        if not self._told:
            self._before += call.raw
            return self._back_to_text()
        self._step = self._closed if self._several else self._over
        return True

    def _tell_call(self, call: CallObject) -> None:
        arguments = call.take_arguments()
        if not self._told:
            self._told, self._blank, self._in_text = True, "", False
            self._out.append(CallDelta(self._calls, arguments, self._new_id(), call.name))
            self._calls += 1
        elif arguments:
            self._out.append(CallDelta(self._calls - 1, arguments))

    def _closed(self) -> bool:
        """After a call: the next one of a list, its end, or text."""
        held, closes = self._held.lstrip(_WHITE + ",;]"), self._layout.closes
        if not held or (closes.startswith(held) and held != closes):
            return False
        if held[0] == "{":
            self._begin_object("", held)
        else:
            self._held = held.removeprefix(closes) if held.startswith(closes) else self._held
            self._step = self._in_free_text
        return True

    def _over(self) -> bool:
        """Nothing more is told."""
        self._held = ""
        return False


def _overlap(text: str, mark: str) -> int:
    """Length of the longest end of `text` with which `mark` begins."""
    return next((n for n in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-n:])), 0)
