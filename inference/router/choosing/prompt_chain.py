"""A prompt as a chain of hashes, one for each block of its bytes and all before it: equal beginnings of two prompts are
equal beginnings of their chains. No tokenizer is needed, so it is known before any worker is asked."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import msgspec
import xxhash

from inference.contracts import codec
from inference.contracts.prompts import ChatPrompt, Prompt, TextPrompt

BLOCK_BYTES = 256
#: Of longer prompts only the beginning is compared: 64 KiB of text are some 16,000 tokens.
MOST_BLOCKS = 256

#: A conversation is known by all up to its first question, a text by so many of its first bytes.
_SESSION_BYTES = 512


@dataclass(frozen=True, slots=True)
class PromptChain:
    """blocks: hashes of whole blocks, the first first. octets: length of the prompt in bytes as it is hashed. session:
    the same for all turns of a conversation. earlier_octets: so many of its bytes were the prompt of its last turn."""

    blocks: tuple[int, ...]
    octets: int
    session: int
    earlier_octets: int = 0


def chain_of(prompt: Prompt, salt: str = "") -> PromptChain:
    """salt: prompts of different salts share nothing."""
    seed = xxhash.xxh3_64_intdigest(salt.encode())
    earlier = 0
    if isinstance(prompt, ChatPrompt):
        # Whatever else a chat prompt holds is laid out before its messages.
        seed = xxhash.xxh3_64_intdigest(codec.encode(msgspec.structs.replace(prompt, messages=())), seed=seed)
        messages = [codec.encode(message) for message in prompt.messages]
        asked = next((at + 1 for at, message in enumerate(prompt.messages) if message.role == "user"), len(messages))
        octets, opening = b"".join(messages), b"".join(messages[:asked])
        answered = [at for at, message in enumerate(prompt.messages) if message.role == "assistant"]
        earlier = len(b"".join(messages[: answered[-1]])) if answered else 0
    elif isinstance(prompt, TextPrompt):
        octets = prompt.text.encode()
        opening = octets[:_SESSION_BYTES]
    else:
        octets = array("I", prompt.token_ids).tobytes()
        opening = octets[:_SESSION_BYTES]
    return PromptChain(_blocks(octets, seed), len(octets), xxhash.xxh3_64_intdigest(opening, seed=seed), earlier)


def octets_of(prompt: Prompt) -> int:
    """`PromptChain.octets` of it, without the chain."""
    if isinstance(prompt, ChatPrompt):
        return sum(len(codec.encode(message)) for message in prompt.messages)
    if isinstance(prompt, TextPrompt):
        return len(prompt.text.encode())
    return len(prompt.token_ids) * array("I").itemsize


def _blocks(octets: bytes, seed: int) -> tuple[int, ...]:
    hashes = []
    end = min(len(octets) - len(octets) % BLOCK_BYTES, MOST_BLOCKS * BLOCK_BYTES)
    for start in range(0, end, BLOCK_BYTES):
        seed = xxhash.xxh3_64_intdigest(octets[start : start + BLOCK_BYTES], seed=seed)
        hashes.append(seed)
    return tuple(hashes)
