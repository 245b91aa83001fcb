"""Which JSON Schemas can be followed. Neither a model nor a tokenizer is needed to say so."""

from __future__ import annotations

from collections.abc import Iterator

from llguidance import LLMatcher, LLParserLimits

from inference.contracts.sampling import Grammar
from inference.contracts.tools import ToolGrammar

#: A small model may write white space for ever where any amount is allowed.
WHITE_SPACE = r"[\x20\x0A\x0D\x09]{0,32}"

#: Bounds what a hostile schema may cost: it is refused, or its answer fails.
LIMITS = LLParserLimits(verbose_errors=False)


def rules(schema: str, *, strict: bool = True) -> str:
    """The grammar of a JSON value that conforms to `schema`. strict: what of it can't be followed is an error, else it
    is left out.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    return LLMatcher.grammar_from_json_schema(
        schema, overrides={"whitespace_pattern": WHITE_SPACE, "lenient": not strict}
    )


def fault(grammar: Grammar) -> str | None:
    """Why no answer can be held to `grammar`, for one of its schemas; None where each can be followed by itself. Takes
    a tenth of a millisecond, and up to half a second for the most complex schema that is not refused; other threads go
    on meanwhile."""
    for of_what, schema, strict in _schemas(grammar):
        try:
            reason = LLMatcher.validate_grammar(rules(schema, strict=strict), None, limits=LIMITS)
        except ValueError as error:
            return f"{of_what} can't be read: {error}"
        if reason:
            return f"{of_what} can't be followed: {reason}"
    return None


def field_of(grammar: Grammar) -> str:
    """Where clients name `grammar`."""
    return "tools" if isinstance(grammar, ToolGrammar) else "response_format"


def _schemas(grammar: Grammar) -> Iterator[tuple[str, str, bool]]:
    """What each is the schema of, itself, and whether all of it counts."""
    if not isinstance(grammar, ToolGrammar):
        yield "the schema", grammar.schema, True
        return
    for tool in grammar.tools:
        yield f"the schema of {tool.name}", tool.parameters, tool.strict
    if grammar.otherwise is not None:
        yield "the schema of the answer", grammar.otherwise, True
