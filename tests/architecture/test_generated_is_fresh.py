"""What is generated from the contracts and committed must be what the contracts give today."""

from pathlib import Path

from inference.contracts.typescript import render

GENERATED = Path(__file__).parents[2] / "frontend" / "src" / "generated" / "contracts.ts"


def test_console_types_are_what_the_contracts_say() -> None:
    assert GENERATED.read_text() == render(), "frontend/src/generated/contracts.ts is stale: run `make generate`"


def test_typescript_carries_states_tags_and_unknowns() -> None:
    written = render()

    assert '  READY: "ready",' in written
    assert '  readonly type: "telemetry.tick";' in written
    assert "  readonly next_start_s: number | null;" in written
    assert "  readonly event: ConsoleEvent;" in written
