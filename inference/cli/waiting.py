"""Following an operation to its end, through control planes that restart meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from time import sleep as sleep_for

from inference.cli.client import Answer, Client
from inference.cli.errors import CliError, ExitCode, TimedOut
from inference.cli.live_line import LiveLine
from inference.contracts.states import OPERATION_OPEN
from inference.contracts.views.operations import OperationView

POLL_S = 1.0

#: How long one look may take: the next one is soon.
_LOOK_TIMEOUT_S = 10.0


def follow(
    client: Client,
    operation: OperationView,
    *,
    timeout_s: float,
    line: LiveLine,
    sleep: Callable[[float], None] | None = None,
    now: Callable[[], float] = monotonic,
) -> Answer[OperationView]:
    """`operation` as it ended.

    Raises:
        TimedOut: it had not within `timeout_s`; it goes on.
        Refused: it can't be looked at (any more).
    """
    pause = sleep or sleep_for
    impatient = replace(client, timeout_s=min(client.timeout_s, _LOOK_TIMEOUT_S), attempts=1)
    deadline = now() + timeout_s
    seen = operation
    try:
        with line.shown():
            while True:
                remark = ""
                try:
                    answer = impatient.get(f"/operations/{operation.id}", OperationView)
                except CliError as error:
                    if error.exit_code != ExitCode.UNREACHABLE:
                        raise
                    remark = str(error)
                else:
                    seen = answer.view
                line.show(seen, remark)
                if not remark and seen.state not in OPERATION_OPEN:
                    return answer
                if now() >= deadline:
                    raise TimedOut(
                        f"{seen.title} has not ended after {timeout_s:g} s; it goes on. "
                        f"Follow it: tandem operations watch {seen.id}"
                    )
                pause(min(POLL_S, max(0.0, deadline - now())))
    finally:
        impatient.close()
