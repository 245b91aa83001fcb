"""Rows of lists that are asked for and never told live: people, keys, audit, links, weights, fit."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from frontend.testing.scene.measures import GIB, iso

Row = dict[str, Any]


def credential(name: str, **changes: object) -> Row:
    return {
        "id": str(uuid.uuid4()),
        "name": name,
        "prefix": "sk-tandem-" + secrets.token_urlsafe(3),
        "owner": "ada",
        "role": "operator",
        "only": None,
        "created_by": "ada",
        "created_at": iso(86400 * 9),
        "expires_at": iso(-86400 * 40),
        "revoked_at": None,
        "models": [],
        "priority_class": "standard",
        "requests_per_minute": None,
        "tokens_per_minute": None,
        "max_concurrent": None,
        "last_used_at": iso(130),
        "previous_until": None,
        **changes,
    }


def keys() -> list[Row]:
    return [
        credential(
            "support-bot",
            models=["qwen3-8b"],
            priority_class="high",
            requests_per_minute=120,
            tokens_per_minute=200_000,
            max_concurrent=8,
        ),
        credential("nightly-eval", priority_class="low", expires_at=iso(-86400 * 3), last_used_at=iso(40000)),
        credential("mobile-app", previous_until=iso(-7200), expires_at=None),
        credential("old-demo", revoked_at=iso(86400), last_used_at=None),
    ]


def tokens() -> list[Row]:
    return [
        credential("nightly-scaler", prefix="tm-tandem-4fQz", only=["qwen3-8b"]),
        credential("grafana", prefix="tm-tandem-9aLp", role="viewer", owner="admin", expires_at=None),
    ]


def user(name: str, **changes: object) -> Row:
    return {
        "username": name,
        "role": "admin",
        "grants": {},
        "active": True,
        "local": True,
        "oidc": False,
        "created_at": iso(86400 * 30),
        "last_login_at": iso(300),
        **changes,
    }


def more_users() -> list[Row]:
    return [
        user("grace", role="viewer", grants={"qwen3-8b": "operator"}, local=False, oidc=True),
        user("linus", role="operator", active=False, last_login_at=None),
    ]


def join_token(number: int, note: str) -> Row:
    return {"id": number, "note": note, "created_by": "ada", "created_at": iso(400), "expires_at": iso(-3200)}


def audit() -> list[Row]:
    told = (
        ("ada", "user", "deployment.rebalance", "qwen3-8b", {"prefill": 1, "decode": 4}, {"prefill": 3, "decode": 2}),
        ("nightly-scaler", "token", "pool.resize", "qwen3-8b/decode", {"replicas": 3}, {"replicas": 4}),
        ("ada", "user", "node.cordon", "rack-3-01", {"desired": "active"}, {"desired": "cordoned"}),
        ("admin", "user", "key.create", "support-bot", None, {"models": ["qwen3-8b"], "requests_per_minute": 120}),
        ("admin", "user", "user.change", "grace", {"grants": {}}, {"grants": {"qwen3-8b": "operator"}}),
        ("tandem", "system", "deployment.roll_back", "smollm2-135m", {"revision": 2}, {"revision": 1}),
    )
    return [
        {
            "id": 100 - at,
            "at": iso(400 * (at + 1)),
            "actor": actor,
            "actor_kind": kind,
            "address": "" if kind == "system" else "10.0.0.31",
            "request_id": secrets.token_hex(8),
            "action": action,
            "target_kind": action.split(".")[0],
            "target_id": str(uuid.uuid4()),
            "target_name": target,
            "before": before,
            "after": after,
            "reason": "Long prompts since the morning" if at == 0 else "",
        }
        for at, (actor, kind, action, target, before, after) in enumerate(told)
    ]


def links() -> list[Row]:
    rates = {"desk": 0.11, "rack-2-04": 11.2, "rack-3-01": 9.4}
    measured = [
        _link(source, target, min(rates[source], rates[target]) * GIB, 0.00031 if "desk" in (source, target) else 4e-5)
        for source in rates
        for target in rates
        if source != target
    ]
    return [*measured, _link("rack-2-04", "rack-2-05", None, None, "rack-2-05 did not answer within 10 s.")]


def _link(source: str, target: str, rate: float | None, latency: float | None, error: str = "") -> Row:
    return {
        "source": source,
        "target": target,
        "bytes_per_s": rate,
        "latency_s": latency,
        "measured_at": iso(700),
        "error": error,
    }


def weights(model: str) -> list[Row]:
    if model != "qwen3-8b-instruct":
        return []
    size = 16_381_470_720
    told = (
        ("desk", "failed", None, "The disk has 12.1 GiB free, and 15.3 GiB are needed."),
        ("rack-2-04", "present", size, ""),
        ("rack-3-01", "fetching", int(size * 0.62), ""),
    )
    return [
        {
            "node_id": node,
            "node_name": node,
            "model": model,
            "state": state,
            "size_bytes": size,
            "fetched_bytes": fetched,
            "reason": reason,
            "revision": "2026-11",
            "wanted": True,
        }
        for node, state, fetched, reason in told
    ]


def fit(model: str, kv_tokens: int) -> Row:
    known = {"qwen3-8b-instruct": (16_381_470_720, 147456), "smollm2-135m": (269_030_016, 23040)}
    weights, per_token = known.get(model, (None, None))
    kv = None if per_token is None else kv_tokens * per_token
    needed = None if weights is None or kv is None else weights + kv + GIB
    kinds = (("NVIDIA L4", "gpu", 24, 8), ("NVIDIA H100 1g.10gb", "gpu", 10, 3), ("AMD EPYC 7B13", "cpu", 6, 4))
    return {
        "model": model,
        "kv_tokens": kv_tokens,
        "tensor_parallel": 1,
        "dtype": "auto",
        "devices": [
            {
                "name": name,
                "kind": kind,
                "memory_total": gib * GIB,
                "count": count,
                "fits": None if needed is None else needed <= gib * GIB,
                "weights_bytes": weights,
                "kv_bytes": kv,
                "allowance_bytes": GIB,
                "needed_bytes": needed,
                "kv_tokens_max": None
                if weights is None or per_token is None
                else max(0, (gib * GIB - weights - GIB) // per_token),
            }
            for name, kind, gib, count in kinds
        ],
    }
