"""What an operation would do, moment by moment."""

from __future__ import annotations

from collections.abc import Callable

from inference.cli.output import Column, Output
from inference.contracts.views.operations import OperationPreview, OperationView, PreviewMoment


def show_preview(out: Output, operation: OperationView | None) -> None:
    if operation is None:
        out.text("Nothing would be done: it is so already.")
        return
    change = f": {operation.before or '?'} -> {operation.after}" if operation.after else ""
    out.text(f"{operation.title}{change}")
    if operation.state == "queued":
        out.text(f"It would wait for {', '.join(operation.queued_behind) or 'another operation'}.")
    if operation.preview is not None:
        _show(out, operation.preview)


def _show(out: Output, preview: OperationPreview) -> None:
    if preview.moments:
        out.heading("Moments")
        out.table(list(enumerate(preview.moments)), _columns(preview.moments))
        out.text(f"At most {preview.devices_max} of {preview.budget} devices in use.")
    for title, lines in (
        ("Starts", preview.start),
        ("Stops", preview.stop),
        ("Flips", preview.flip),
        ("Warnings", preview.warnings),
        ("Can't be done now", preview.refusals),
    ):
        if lines:
            out.heading(title)
            for line in lines:
                out.text(f"  {line}")


def _columns(moments: tuple[PreviewMoment, ...]) -> list[Column]:
    """Without roles that never have a worker."""
    roles = [role for role in ("prefill", "decode", "unified") if any(getattr(each, role) for each in moments)]
    return [
        Column("", lambda each: each[0], right=True),
        Column("WHAT HAPPENS", lambda each: each[1].text),
        Column("DEVICES", lambda each: each[1].devices, right=True),
        *(Column(role.upper(), _working(role), right=True) for role in roles),
    ]


def _working(role: str) -> Callable[[tuple[int, PreviewMoment]], object]:
    return lambda each: getattr(each[1], role)
