"""What a deployment can't do is refused before any worker is asked; what is not known is left to the worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inference.contracts.prompts import ChatPrompt, Prompt, TokenPrompt
from inference.contracts.routing import DeploymentRoute
from inference.router.errors import ApiError, bad_request
from inference.router.openai.request import Asked


def require_feasible(asked: Asked, deployment: DeploymentRoute) -> None:
    """All that can be told of an answer without its prompt's text as tokens, and but for schemas (`schemas.py`).

    Raises:
        ApiError: 400 with the field at fault.
    """
    most, n = deployment.abilities.max_answers, asked.sampling.n
    if most is not None and n > most:
        raise bad_request(f"n is {n}: {most} answers at a time are the most that this model writes.", "n")
    least, limit = asked.sampling.min_tokens, deployment.default_max_tokens
    if asked.max_tokens is None and least > limit:
        text = f"min_tokens is {least}: where no limit is named, answers have {limit} tokens at most."
        raise bad_request(text, "min_tokens")
    for prompt in asked.prompts:
        require_layout(prompt, deployment)
        _require_known(prompt, "prompt", deployment)
    require_tokens(asked.sampling.logit_bias, "logit_bias", deployment)
    _require_room(asked, deployment.context_length)


def require_layout(prompt: Prompt, deployment: DeploymentRoute) -> None:
    """Raises `ApiError`: 400, for a chat that its model has no template for."""
    if not isinstance(prompt, ChatPrompt):
        return
    if deployment.abilities.chat is False:
        text = "messages: this model has no chat template (it is a base model): use completions instead of chat."
        raise bad_request(text, "messages")
    if prompt.tools and deployment.abilities.tools is False:
        text = "tools: this model's chat template lays tools out in a format that can't be read here."
        raise bad_request(text, "tools")


def require_inputs(inputs: Sequence[Prompt], deployment: DeploymentRoute) -> None:
    """Raises `ApiError`: 400, for inputs of embeddings that its model can't read."""
    most = deployment.context_length
    for number, each in enumerate(inputs):
        _require_known(each, "input", deployment)
        if isinstance(each, TokenPrompt) and most is not None and len(each.token_ids) > most:
            text = f"input[{number}] has {len(each.token_ids)} tokens: this model reads {most} at most."
            raise _too_long(text, "input")


def require_tokens(token_ids: Iterable[int], field: str, deployment: DeploymentRoute) -> None:
    """Raises `ApiError`: 400, for tokens in `field` that its model does not have."""
    known = deployment.abilities.vocab_size
    if known is None:
        return
    strange = max(token_ids, default=0)
    if strange >= known:
        raise bad_request(f"{field} has the token id {strange}: this model knows those from 0 to {known - 1}.", field)


def _require_known(prompt: Prompt, field: str, deployment: DeploymentRoute) -> None:
    if isinstance(prompt, TokenPrompt):
        require_tokens(prompt.token_ids, field, deployment)


def _too_long(message: str, field: str) -> ApiError:
    return bad_request(message, field, "context_length_exceeded")


def _require_room(asked: Asked, context_length: int | None) -> None:
    """For prompts and answers, as far as their tokens are counted. A prompt has one token at least."""
    if context_length is None:
        return
    answer = asked.max_tokens
    if answer is not None and answer >= context_length:
        text = f"{asked.limit} is {answer}: this model reads and writes {context_length} tokens together at most."
        raise _too_long(text, asked.limit)
    for prompt in asked.prompts:
        read = len(prompt.token_ids) if isinstance(prompt, TokenPrompt) else 1
        wanted = read + (answer or 1)
        if wanted > context_length:
            raise _too_long(
                f"This model's maximum context length is {context_length} tokens, but {wanted} were requested "
                f"({read} in the prompt, {answer or 1} for the answer).",
                "prompt",
            )
