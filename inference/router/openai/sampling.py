"""The part of a request that says how tokens are chosen, checked and put into Tandem's words."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Any, Protocol

import msgspec

from inference.contracts.sampling import MAX_LOGPROBS, Grammar, JsonGrammar, Sampling
from inference.router.errors import bad_request
from inference.router.openai.tools import ToolUse

MAX_STOPS = 4
MAX_ANSWERS = 128
MAX_BIASES = 1024
SEED_BITS = 63

#: Counts and token ids that workers can read; no model comes near.
LARGEST = 2**31 - 1
Count = Annotated[int, msgspec.Meta(le=LARGEST)]
Integer = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]

#: Token id -> bias. What each bias is, is looked at with its token, so that a refusal names it.
Biases = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"additionalProperties": {"type": "number"}})]

_ANY_OBJECT = '{"type":"object"}'


class _Schema(msgspec.Struct):
    schema: dict[str, Any] | None = None


class ResponseFormat(msgspec.Struct):
    type: str
    json_schema: _Schema | None = None


class Fields(Protocol):
    """What a body says of sampling, as it came."""

    n: Count | None
    best_of: Count | None
    min_tokens: Count | None
    temperature: float | None
    top_p: float | None
    top_k: Count | None
    min_p: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Biases | None
    seed: int | None
    stop: str | list[str] | None
    ignore_eos: bool | None
    response_format: ResponseFormat | None
    skip_special_tokens: bool | None


def read_sampling(
    fields: Fields, max_tokens: int | None, logprobs: int | None, tools: ToolUse | None = None
) -> Sampling:
    """max_tokens: what the client named, 0 in the result where it named none. The seed is fixed here, so that every
    worker of the request draws from one sequence. Where tools may be called, special tokens are part of the text, since
    some models mark calls with them.

    Raises:
        ApiError: 400 with the field at fault.
    """
    sampling = Sampling(
        max_tokens=max_tokens or 0,
        n=_answers(fields),
        min_tokens=_min_tokens(fields.min_tokens, max_tokens),
        temperature=_within("temperature", fields.temperature, 1.0, 0.0, 2.0),
        top_p=_above_zero("top_p", fields.top_p, 1.0),
        top_k=_top_k(fields.top_k),
        min_p=_within("min_p", fields.min_p, 0.0, 0.0, 1.0),
        repetition_penalty=_above_zero("repetition_penalty", fields.repetition_penalty, 10.0),
        presence_penalty=_within("presence_penalty", fields.presence_penalty, 0.0, -2.0, 2.0),
        frequency_penalty=_within("frequency_penalty", fields.frequency_penalty, 0.0, -2.0, 2.0),
        logit_bias=_biases(fields.logit_bias),
        seed=secrets.randbits(SEED_BITS) if fields.seed is None else fields.seed & (2**SEED_BITS - 1),
        stop=_stops(fields.stop),
        ignore_eos=bool(fields.ignore_eos),
        logprobs=logprobs,
        grammar=_grammar(fields.response_format, tools),
        special_tokens=tools is not None or fields.skip_special_tokens is False,
    )
    decides = "response_format" if isinstance(sampling.grammar, JsonGrammar) else "tools"
    for name, conflicts in (("ignore_eos", sampling.ignore_eos), ("min_tokens", sampling.min_tokens > 0)):
        if sampling.grammar is not None and conflicts:
            raise bad_request(f"{name} can't be met together with {decides}, which decides the end.", name)
    return sampling


def alternatives(name: str, value: int) -> int:
    """How many tokens `name` asks to be told beside each one.

    Raises:
        ApiError: 400 when they are too many.
    """
    if not 0 <= value <= MAX_LOGPROBS:
        raise bad_request(f"{name} is {value}: it must be from 0 to {MAX_LOGPROBS}.", name)
    return value


def _answers(fields: Fields) -> int:
    n = 1 if fields.n is None else fields.n
    if not 1 <= n <= MAX_ANSWERS:
        raise bad_request(f"n is {n}: it must be from 1 to {MAX_ANSWERS}.", "n")
    if fields.best_of not in (None, n):
        raise bad_request(
            f"best_of is {fields.best_of}: only as many as n, which is {n}, are written here.",
            "best_of",
            "unsupported_parameter",
        )
    return n


def _min_tokens(value: int | None, max_tokens: int | None) -> int:
    least = value or 0
    if least < 0 or (max_tokens is not None and least > max_tokens):
        most = "" if max_tokens is None else f" and at most the limit of the answer, {max_tokens}"
        raise bad_request(f"min_tokens is {least}: it must be at least 0{most}.", "min_tokens")
    return least


def _top_k(value: int | None) -> int:
    top_k = value or 0
    if top_k < -1:
        raise bad_request(f"top_k is {top_k}: it must be at least 1, or 0 for no restriction.", "top_k")
    return max(0, top_k)


def _within(name: str, value: float | None, default: float, low: float, high: float) -> float:
    if value is None:
        return default
    if not low <= value <= high:
        raise bad_request(f"{name} is {value:g}: it must be from {low:g} to {high:g}.", name)
    return value


def _above_zero(name: str, value: float | None, high: float) -> float:
    if value == 0.0:
        raise bad_request(f"{name} is 0: it must be above 0.", name)
    return _within(name, value, 1.0, 0.0, high)


def _biases(given: Biases | None) -> dict[int, float]:
    biases = given or {}
    if len(biases) > MAX_BIASES:
        raise bad_request(f"logit_bias names {len(biases)} tokens: at most {MAX_BIASES} are allowed.", "logit_bias")
    for token, bias in biases.items():
        if not (token.isascii() and token.isdigit() and int(token[:11]) <= LARGEST):
            raise bad_request(f"logit_bias: {token[:20]!r} is no token id.", "logit_bias")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:
            place = f"logit_bias.{int(token[:11])}"
            raise bad_request(f"{place} is {json.dumps(bias)[:20]}: it must be a number from -100 to 100.", place)
    return {int(token): float(bias) for token, bias in biases.items()}


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > MAX_STOPS:
        raise bad_request(f"stop holds {len(stops)} texts: at most {MAX_STOPS} are allowed.", "stop")
    if "" in stops:
        raise bad_request("stop must not hold an empty text.", "stop")
    return stops


def _grammar(format: ResponseFormat | None, tools: ToolUse | None) -> Grammar | None:
    schema = _schema(format)
    if tools is not None:
        return tools.grammar(schema)
    return None if schema is None else JsonGrammar(schema=schema)


def _schema(asked: ResponseFormat | None) -> str | None:
    if asked is None or asked.type == "text":
        return None
    if asked.type == "json_object":
        return _ANY_OBJECT
    if asked.type != "json_schema":
        raise bad_request(
            f"response_format.type is {asked.type!r}: it must be text, json_object or json_schema.",
            "response_format.type",
        )
    if asked.json_schema is None or asked.json_schema.schema is None:
        raise bad_request("response_format.json_schema.schema is missing.", "response_format.json_schema.schema")
    return msgspec.json.encode(asked.json_schema.schema).decode()
