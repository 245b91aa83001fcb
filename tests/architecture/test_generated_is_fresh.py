"""What is generated from the contracts and committed must be what the contracts give today."""

from pathlib import Path

from inference.contracts import diagrams, typescript

ROOT = Path(__file__).parents[2]


def test_console_types_are_what_the_contracts_say() -> None:
    written = (ROOT / "frontend" / "src" / "generated" / "contracts.ts").read_text()
    assert written == typescript.render(), "frontend/src/generated/contracts.ts is stale: run `make generate`"


def test_the_page_of_states_is_what_the_enums_say() -> None:
    assert (ROOT / "docs" / "states.md").read_text() == diagrams.render(), (
        "docs/states.md is stale: run `make generate`"
    )


def test_every_state_with_a_diagram_is_on_the_page_with_what_its_names_mean() -> None:
    written = diagrams.render()

    for drawn in ("WorkerDesired", "WorkerPhase", "NodeDesired", "NodePhase", "OperationState", "StepState"):
        assert f"## {drawn}\n" in written
    assert "## Role\n" not in written
    assert "```text\nQUEUED ──> RUNNING ──> SUCCEEDED | FAILED | SUPERSEDED | CANCELLED\n" in written
    assert "- `READY`: weights are loaded and a token was generated (agent).\n" in written


def test_typescript_carries_states_tags_and_unknowns() -> None:
    written = typescript.render()

    assert '  READY: "ready",' in written
    assert '  readonly type: "telemetry.tick";' in written
    assert "  readonly next_start_s: number | null;" in written
    assert "  readonly event: ConsoleEvent;" in written
