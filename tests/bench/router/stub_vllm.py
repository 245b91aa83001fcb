"""vLLM servers as vllm-router's P/D mode calls them (vllm-router 0.1.17 with the NIXL connector, vLLM 0.32).

With its default policy it first has each of the two render the prompt, that is, lay it out and tokenise it. Then it
asks the prefill server for one token, not streamed, and passes the `kv_transfer_params` of that answer on to the decode
server, whose stream goes to the client.
"""

from __future__ import annotations

from typing import Any

from inference.contracts import codec
from tests.bench.router.answers import LAST_CHUNK, PACES, PROMPT_IDS, TEXTS, TOKENS, chunk, stream_head, whole
from tests.bench.router.stub_server import Connection

_ID = "chatcmpl-___prefill_addr_127.0.0.1:8100___decode_addr_127.0.0.1:8200_c5ca312fb7fe443c8c90eb8e6bdbae97"
_HEAD = stream_head(b"text/event-stream; charset=utf-8")


def _answer(kind: str, choice: dict[str, Any], **more: Any) -> bytes:
    return codec.encode(
        {
            "id": _ID,
            "object": kind,
            "created": 1_760_000_000,
            "model": "bench",
            "choices": [{"index": 0, **choice, "logprobs": None, "token_ids": None}],
            **more,
        }
    )


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"delta": delta, "finish_reason": finish}
    return b"data: " + _answer("chat.completion.chunk", choice) + b"\n\n"


def _prefilled() -> bytes:
    answer = _answer(
        "chat.completion",
        {"message": {"role": "assistant", "content": "x"}, "finish_reason": "length"},
        usage={"prompt_tokens": len(PROMPT_IDS), "total_tokens": len(PROMPT_IDS) + 1, "completion_tokens": 1},
        kv_transfer_params={
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [[1, 2, 3, 4, 5, 6, 7, 8]],
            "remote_engine_id": "6b7d4e1c-8f5c-4f7e-9a51-3c0d7a3b1f10",
            "remote_request_id": _ID,
            "remote_host": "127.0.0.1",
            "remote_port": 5600,
            "tp_size": 1,
        },
    )
    return whole(answer)


# The role's own event, then a token in each, the last one with why it ended.
_TEXTS = [_event({"content": text}, "length" if at == TOKENS - 1 else None) for at, text in enumerate(TEXTS)]
_STREAM = [
    chunk(_event({"role": "assistant", "content": ""})) + chunk(_TEXTS[0]),
    *map(chunk, _TEXTS[1:-1]),
    chunk(_TEXTS[-1]) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK,
]
_PREFILLED = _prefilled()
_RENDERED = whole(
    codec.encode(
        {"request_id": _ID, "token_ids": PROMPT_IDS, "sampling_params": {"max_tokens": TOKENS}, "stream": True}
    )
)
_NOTHING = whole(b"{}")


def answer(connection: Connection, method: bytes, path: bytes, body: bytes) -> None:
    if path.endswith(b"/render"):
        connection.send(_RENDERED)
    elif path != b"/v1/chat/completions":
        connection.send(_NOTHING)
    elif b'"stream":true' in body:
        model = next(name for name in PACES if b'"model":"%b"' % name.encode() in body)
        connection.stream(_HEAD, _STREAM, PACES[model].at_once)
    else:
        connection.send(_PREFILLED)
