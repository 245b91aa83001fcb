"""How the tokens of an answer are chosen, and what it must be."""

from __future__ import annotations

import msgspec

from inference.contracts.tools import ToolGrammar

#: Most alternatives that are told beside a token.
MAX_LOGPROBS = 20

#: What of `Sampling` and of prompts a worker knows. 1: the fields of release 0.1. 2: those of release 0.2. 3: tools,
#: special tokens and answers begun elsewhere too.
SAMPLING_VERSION = 3


class JsonGrammar(msgspec.Struct, frozen=True, kw_only=True, tag="json"):
    """The answer is one JSON value that conforms to `schema`, a JSON Schema as text."""

    schema: str


Grammar = JsonGrammar | ToolGrammar


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen.

    n: so many answers to the one prompt, each drawn for itself. max_tokens: of one answer; exactly so many unless it
    ends before. min_tokens: before so many, neither an end of sequence nor a stop string ends it.
    temperature 0 is greedy. Of the tokens, min_p keeps those at least so likely as `min_p` times the likeliest, then
    top_k the so many likeliest, then top_p the likeliest that hold such a share together; 0, 0 and 1 keep all.
    repetition_penalty divides (what is negative: multiplies) the logits of tokens in prompt and answer; 1 does nothing.
    frequency_penalty is taken off a logit once for each time that the token stands in the answer, presence_penalty
    once. logit_bias: token id -> what is added to its logit.
    seed: fixed by the router before dispatch, so that prefill and decode draw from one sequence.
    logprobs: tell the log-probability of every token and of so many of the likeliest beside it, by the model alone,
    before any of the above; None tells none.
    grammar: what the answer must be. special_tokens: they are part of the text, but for those that end the answer.
    answered: so many of the prompt's last tokens are the answer so far, written elsewhere. What follows, and its text,
    is what would have followed there; `max_tokens`, `min_tokens`, penalties and stop strings are of the whole answer.
    Only where n is 1.
    """

    max_tokens: int
    n: int = 1
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = {}
    seed: int = 0
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    grammar: Grammar | None = None
    special_tokens: bool = False
    answered: int = 0

    @property
    def version(self) -> int:
        """The version of this message that a worker must know to do what is asked: see `SAMPLING_VERSION`."""
        if self.answered or self.special_tokens or isinstance(self.grammar, ToolGrammar):
            return 3
        known = Sampling(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            seed=self.seed,
            stop=self.stop,
            ignore_eos=self.ignore_eos,
        )
        return 1 if self == known else 2
