"""What stands for a model in a stub engine: a vocabulary, and answers drawn from the bytes in the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import ChatPrompt, Prompt, TextPrompt
from inference.contracts.sampling import Sampling
from inference.testing.stub_settings import StubSettings

EOS_ID = 256
_FIRST_WORD_ID = 257
_WORDS = tuple(
    b" " + word
    for word in (
        b"alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec "
        b"romeo sierra tango uniform victor whiskey xray yankee zulu".split()
        + "één naïve 한국 日本 🙂 👩\u200d🚀".encode().split()
    )
)
_ROLES = frozenset({"system", "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class StubModel:
    """Token ids below 256 are bytes; then end-of-sequence, the words, and the pieces of the settings."""

    settings: StubSettings

    @property
    def vocab_size(self) -> int:
        return _FIRST_WORD_ID + len(_WORDS) + len(self.settings.pieces or ())

    def tokenize(self, prompt: Prompt) -> list[int]:
        """One token per UTF-8 byte; chat as "<tool>" and "<role>content" lines and "<assistant>". See
        `Engine.tokenize`."""
        if isinstance(prompt, ChatPrompt):
            ids = _lay_out(prompt)
        elif isinstance(prompt, TextPrompt):
            ids = list(prompt.text.encode())
        else:
            ids = list(prompt.token_ids)
            if any(not 0 <= i < self.vocab_size for i in ids):
                raise TandemError(
                    ErrorCode.INVALID_REQUEST, f"token ids must lie in 0..{self.vocab_size - 1}", "prompt"
                )
        if not ids:
            raise TandemError(ErrorCode.INVALID_REQUEST, "the prompt is empty", "prompt")
        return ids

    def draw(self, kv: bytes, sampling: Sampling, index: int, answer: int = 0) -> int:
        """Token `index` of an answer to a prompt whose KV is `kv`."""
        pieces, answer_tokens = self.settings.pieces, self.settings.answer_tokens
        if pieces is not None:
            ends = index >= len(pieces)
            token_id = _FIRST_WORD_ID + len(_WORDS) + index % max(1, len(pieces))
        else:
            ends = answer_tokens is not None and index >= answer_tokens
            seed = sampling.seed + answer * 7919 if sampling.temperature > 0 else 0
            drawn = xxhash.xxh3_64_intdigest(kv, seed=(seed * 1_000_003 + index) % 2**64)
            token_id = _FIRST_WORD_ID + drawn % len(_WORDS)
        return EOS_ID if ends and not sampling.ignore_eos else token_id

    def piece(self, token_id: int) -> bytes:
        """The bytes of a token; none for end-of-sequence."""
        if token_id < EOS_ID:
            return bytes([token_id])
        if token_id == EOS_ID:
            return b""
        table = _WORDS + (self.settings.pieces or ())
        return table[token_id - _FIRST_WORD_ID]


def _lay_out(prompt: ChatPrompt) -> list[int]:
    for message in prompt.messages:
        if message.role not in _ROLES:
            raise TandemError(ErrorCode.INVALID_REQUEST, f"unknown role {message.role!r}", "messages")
    tools = [f"<tool>{tool.name}{tool.parameters}\n" for tool in prompt.tools]
    lines = [
        f"<{message.role}>{message.content}{''.join(call.name + call.arguments for call in message.tool_calls)}\n"
        for message in prompt.messages
    ]
    end = ["<assistant>"] if prompt.generation_prompt else []
    return list("".join([*tools, *lines, *end]).encode()) if lines else []
