"""Answers of the make-believe model, at a pace that one can read."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from frontend.testing.answers import answer
from frontend.testing.stage import Stage
from inference.contracts.states import Role

ANSWER = (
    "A tandem carries two riders on one bicycle. The one in front steers and sees the road first; the one behind "
    "keeps the rhythm.\n\nPrefill is the rider in front: it reads the whole prompt at once. Decode is the rider "
    "behind: it writes one token after another, at a steady pace."
)


def playground_routes(stage: Stage) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/v1/playground/info")
    async def info(request: web.Request) -> web.Response:
        return answer({"serving_url": "http://10.0.0.4:8100"})

    @table.post("/api/v1/playground/chat")
    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["max_tokens"] > 100_000:
            return answer(
                {
                    "error": {
                        "message": "max_tokens is 100001; this model can write 8192.",
                        "type": "invalid_request_error",
                        "param": "max_tokens",
                        "code": "context_length_exceeded",
                    }
                },
                400,
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(0.4)
        words = ANSWER.split(" ")
        for at, word in enumerate(words[: body["max_tokens"]]):
            last = at == len(words) - 1
            chunk = {
                "choices": [{"index": 0, "delta": {"content": word + ("" if last else " ")}, "finish_reason": None}]
            }
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
            await asyncio.sleep(0.03)
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        await response.write(f"data: {json.dumps(end)}\n\n".encode())
        await response.write(f"event: timings\ndata: {json.dumps(_timings(stage, body['model']))}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    return table


def _timings(stage: Stage, model: str) -> dict[str, object]:
    pools = next(one.pools for one in stage.deployments if one.name == model)
    first = {pool.role: pool.workers[0].id for pool in pools}
    segments = {"router": 0.0021, "reserve": 0.0034, "prefill_queue": 0.0412, "prefill": 0.1873, "network": 0.0038}
    return {
        "request_id": "req-1",
        "deployment": model,
        "path": "handoff",
        "prefill_worker": first[Role.PREFILL],
        "decode_worker": first[Role.DECODE],
        "prompt_tokens": 512,
        "cached_tokens": 0,
        "completion_tokens": 64,
        "finish_reason": "stop",
        "ttft_s": sum(segments.values()),
        "tpot_s": 0.0291,
        "e2e_s": 2.07,
        "segments": [{"name": name, "seconds": seconds} for name, seconds in segments.items()],
        "first_gap_s": 0.0442,
        "handoff_s": 0.0127,
        "handoff_bytes": 512 * 23040,
        "decode_wait_s": 0.0041,
        "retries": 0,
        "transfer_s": 0.0081,
    }
