"""Texts to tokens and back, in the shapes of vLLM's /tokenize and /detokenize."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from inference.contracts.generation import Tokenized
from inference.contracts.prompts import ChatPrompt, Prompt, TextPrompt
from inference.router.errors import bad_request
from inference.router.openai.body import decode_object, read_body
from inference.router.openai.messages import MessageBody, read_messages
from inference.router.openai.sampling import LARGEST
from inference.router.openai.tools import ToolBody, read_tools

_NOT_OFFERED: dict[str, tuple[object, ...]] = {
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "mm_processor_kwargs": ({},),
}


class TextBody(msgspec.Struct):
    model: str
    prompt: str
    add_special_tokens: bool = True
    return_token_strs: bool | None = None


class ChatTextBody(msgspec.Struct):
    model: str
    messages: list[MessageBody]
    add_generation_prompt: bool = True
    add_special_tokens: bool = False
    return_token_strs: bool | None = None
    tools: list[ToolBody] | None = None


class TokensBody(msgspec.Struct):
    model: str
    tokens: list[int]


class TokenList(msgspec.Struct, frozen=True):
    """max_model_len: tokens of prompt and answer together."""

    count: int
    max_model_len: int
    tokens: tuple[int, ...]
    token_strs: tuple[str, ...] | None


class TextOfTokens(msgspec.Struct, frozen=True):
    prompt: str


@dataclass(frozen=True, slots=True)
class TokenizeAsked:
    """pieces: the text of each token, too."""

    model: str
    prompt: Prompt
    pieces: bool


def read_tokenize(body: bytes) -> TokenizeAsked:
    """A body of POST /tokenize: a `prompt`, or `messages` and perhaps `tools`.

    Raises:
        ApiError: 400 with the field at fault.
    """
    if "messages" not in decode_object(body):
        text = read_body(body, TextBody, {})
        prompt = TextPrompt(text=text.prompt, special_tokens=text.add_special_tokens)
        return TokenizeAsked(text.model, prompt, bool(text.return_token_strs))
    chat = read_body(body, ChatTextBody, _NOT_OFFERED)
    tools = read_tools(chat.tools, None, None)
    laid_out = ChatPrompt(
        messages=read_messages(chat.messages),
        tools=tools.tools if tools is not None else (),
        generation_prompt=chat.add_generation_prompt,
        special_tokens=chat.add_special_tokens,
    )
    return TokenizeAsked(chat.model, laid_out, bool(chat.return_token_strs))


def read_detokenize(body: bytes) -> TokensBody:
    """A body of POST /detokenize.

    Raises:
        ApiError: 400 with the field at fault.
    """
    asked = read_body(body, TokensBody, {})
    if not all(0 <= token <= LARGEST for token in asked.tokens):
        raise bad_request(f"tokens must be token ids from 0 to {LARGEST}.", "tokens")
    return asked


def token_list(tokenized: Tokenized) -> TokenList:
    return TokenList(
        count=len(tokenized.token_ids),
        max_model_len=tokenized.context_length,
        tokens=tokenized.token_ids,
        token_strs=tokenized.pieces,
    )
