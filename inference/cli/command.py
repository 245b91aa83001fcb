"""What every command shares: its output options, the options of writes, one client, and one way to fail.

@reads(app, "list")                    --json --quiet
@writes(app, "create")                 and --dry-run
@operates(app, "resize")               and --reason --queue --wait --timeout
def resize(cli: Cli, pool: ...): ...
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from inference.cli.client import Answer, Client
from inference.cli.durations import seconds
from inference.cli.errors import BadValue, CliError, ExitCode
from inference.cli.login import login_current
from inference.cli.output import Output, Style
from inference.cli.preview import show_preview
from inference.cli.waiting import follow
from inference.contracts.bodies.body import Body
from inference.contracts.states import OperationState
from inference.contracts.views.operations import OperationView

T = TypeVar("T")
Command = Callable[..., None]

Json = Annotated[bool, typer.Option("--json", help="The API's JSON, whole.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only names or ids, one a line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Reason = Annotated[str, typer.Option("--reason", help="For the record and the audit trail.", show_default=False)]
Queue = Annotated[bool, typer.Option("--queue", help="Wait for operations that stand against it; else it is refused.")]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Follow it to its end; exit 1 unless it succeeds.")]
Timeout = Annotated[
    float, typer.Option("--timeout", parser=seconds, metavar="TIME", help="Longest wait: 90, 90s, 30m, 2h.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: this can't be undone.")]

_OUTPUT = {"json": (Json, False), "quiet": (Quiet, False)}
_TRIAL = {"dry_run": (DryRun, False)}
_WAITING = {"wait": (Wait, False), "timeout": (Timeout, "30m")}


@dataclass(frozen=True, slots=True)
class Asked:
    """The shared options as they were given."""

    json: bool = False
    quiet: bool = False
    dry_run: bool = False
    reason: str = ""
    queue: bool = False
    wait: bool = False
    timeout: float = 1800.0
    yes: bool = False


@dataclass(slots=True)
class Cli:
    """One run of a command."""

    client: Client
    out: Output
    asked: Asked

    def confirm(self, question: str) -> None:
        """Ask whoever sits at a terminal before something final; scripts mean what they say.

        Raises:
            typer.Exit: they would rather not.
        """
        if self.asked.yes or self.asked.dry_run or not sys.stdin.isatty():
            return
        if not typer.confirm(question, err=True):
            raise typer.Exit(ExitCode.NOT_SUCCEEDED)

    def change(self, method: str, path: str, body: Body | None, kind: type[T], *, if_match: str = "") -> Answer[T]:
        """A write that is done when it is answered."""
        answer = self.client.write(method, path, body, kind, query=self._query(), if_match=if_match)
        if answer.tried:
            self.out.note("Dry run: nothing was done.")
        return answer

    def operate(
        self,
        method: str,
        path: str,
        body: Body | None,
        kind: type[T],
        operation_of: Callable[[T], OperationView | None],
    ) -> None:
        """A write that begins an operation: show what would happen, or follow it, or tell how to.

        Raises:
            typer.Exit: it was waited for and did not succeed.
        """
        answer = self.client.write(method, path, body, kind, query=self._query())
        operation = operation_of(answer.view)
        if answer.tried:
            self._show_trial(answer, operation)
        elif operation is None:
            self.out.done(answer.raw, "Nothing to do: it is so already.")
        elif self.asked.wait:
            self.follow(operation)
        else:
            hint = "" if operation.state not in _OPEN else f"\nFollow it: tandem operations watch {operation.id}"
            self.out.done(answer.raw, f"{operation.title}: {operation.state}.{hint}", operation.id)

    def follow(self, operation: OperationView) -> None:
        """To its end.

        Raises:
            typer.Exit: it did not succeed.
        """
        ended = follow(self.client, operation, timeout_s=self.asked.timeout, line=self.out.live_line())
        view = ended.view
        outcome = view.outcome or f"{view.title}: {view.state}."
        self.out.done(ended.raw, f"{view.state.capitalize()}: {outcome}", view.id)
        if view.state != OperationState.SUCCEEDED:
            raise typer.Exit(ExitCode.NOT_SUCCEEDED)

    def _query(self) -> dict[str, Any]:
        return {
            "dry_run": True if self.asked.dry_run else None,
            "on_conflict": "queue" if self.asked.queue else None,
        }

    def _show_trial(self, answer: Answer[Any], operation: OperationView | None) -> None:
        if self.out.style == Style.TABLE:
            show_preview(self.out, operation)
            self.out.note("Dry run: nothing was done.")
        else:
            self.out.done(answer.raw, "")


_OPEN = (OperationState.QUEUED, OperationState.RUNNING)


def reads(app: typer.Typer, name: str, *, examples: Sequence[str] = ()) -> Callable[[Command], Command]:
    return _command(app, name, _OUTPUT, examples)


def writes(
    app: typer.Typer, name: str, *, examples: Sequence[str] = (), reason: bool = False, final: bool = False
) -> Callable[[Command], Command]:
    """reason: the API keeps one. final: asks first, unless --yes."""
    return _command(app, name, _OUTPUT | _TRIAL | _reason(reason) | _yes(final), examples)


def operates(
    app: typer.Typer, name: str, *, examples: Sequence[str] = (), queue: bool = True, final: bool = False
) -> Callable[[Command], Command]:
    """queue: the API can have it wait its turn."""
    queueing = {"queue": (Queue, False)} if queue else {}
    return _command(app, name, _OUTPUT | _TRIAL | _reason(True) | queueing | _WAITING | _yes(final), examples)


def waits(app: typer.Typer, name: str, *, examples: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Looks on until something ended."""
    return _command(app, name, _OUTPUT | {"timeout": _WAITING["timeout"]}, examples)


def _reason(wanted: bool) -> dict[str, tuple[Any, Any]]:
    return {"reason": (Reason, "")} if wanted else {}


def _yes(wanted: bool) -> dict[str, tuple[Any, Any]]:
    return {"yes": (Yes, False)} if wanted else {}


def _command(
    app: typer.Typer, name: str, shared: dict[str, tuple[Any, Any]], examples: Sequence[str]
) -> Callable[[Command], Command]:
    """Register a function whose first parameter is a `Cli`, with the `shared` options (name -> type, default) added."""

    def register(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = list(inspect.signature(command).parameters.values())[1:]
        parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
        parameters += [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for each, (kind, default) in shared.items()
        ]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            asked = Asked(**{each: values.pop(each) for each in shared})
            with_cli(asked, lambda cli: command(cli, **values))

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__
        epilog = "\b\nExamples:\n" + "\n".join(f"  tandem {example}" for example in examples) if examples else None
        app.command(name, epilog=epilog)(run)
        return command

    return register


def with_cli(asked: Asked, run: Callable[[Cli], None]) -> None:
    """Run a command with its client; whatever it can't do is told in a sentence and an exit code.

    Raises:
        typer.Exit: it could not.
    """
    if asked.json and asked.quiet:
        fail(BadValue("Either --json or --quiet, not both."))
    out = Output(Style.JSON if asked.json else Style.QUIET if asked.quiet else Style.TABLE)
    try:
        client = Client(login_current())
        try:
            run(Cli(client, out, asked))
        finally:
            client.close()
    except CliError as error:
        fail(error)
    except KeyboardInterrupt:
        typer.echo("Interrupted; what was begun goes on.", err=True)
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def fail(error: CliError) -> None:
    """
    Raises:
        typer.Exit: always.
    """
    typer.echo(f"tandem: {error}", err=True)
    raise typer.Exit(error.exit_code) from None
