"""What is listed on request and never told live: people, tokens, keys, audit, links, weights, logs."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from aiohttp import web

from frontend.testing.answers import answer, page, refuse
from frontend.testing.fleet import GIB, iso

Row = dict[str, Any]


def person(name: str, **changes: object) -> Row:
    role = name if name in ("viewer", "operator") else "admin"
    return {"username": name, "kind": "user", "role": role, "grants": {}, "only": None, "local": True, **changes}


class Records:
    def __init__(self, empty: bool) -> None:
        self.keys = [] if empty else _keys()
        self.tokens = [] if empty else _tokens()
        self.users = [_user("admin"), _user("ada"), *([] if empty else _more_users())]
        self.lockouts = [] if empty else [{"subject": "name", "value": "root", "failures": 9, "until": iso(-840)}]
        self.join_tokens = [] if empty else [_join_token(1, "rack 3, second machine"), _join_token(2, "")]


def record_routes(records: Records) -> web.RouteTableDef:
    """Lists, their making, and their end; enough to click through."""
    table = web.RouteTableDef()
    for kind, rows in (("keys", records.keys), ("tokens", records.tokens)):
        _credential_routes(table, kind, rows)

    @table.get("/api/v1/users")
    async def users(request: web.Request) -> web.Response:
        return page(records.users)

    @table.post("/api/v1/users")
    async def add_user(request: web.Request) -> web.Response:
        body = await request.json()
        if len(body["password"]) < 12:
            return refuse(400, "weak_password", "A password has at least 12 characters.", "password")
        records.users.append(_user(body["username"], role=body["role"], grants=body["grants"]))
        return answer(records.users[-1], 201)

    @table.patch("/api/v1/users/{name}")
    async def change_user(request: web.Request) -> web.Response:
        row = next(one for one in records.users if one["username"] == request.match_info["name"])
        row.update(await request.json())
        return answer(row)

    @table.put("/api/v1/session/password")
    async def password(request: web.Request) -> web.Response:
        return refuse(403, "bad_credentials", "This is not your present password.", "current")

    @table.get("/api/v1/lockouts")
    async def lockouts(request: web.Request) -> web.Response:
        return page(records.lockouts)

    @table.post("/api/v1/lockouts/unlock")
    async def unlock(request: web.Request) -> web.Response:
        records.lockouts.clear()
        return answer({"failures": 9})

    @table.get("/api/v1/audit")
    async def audit(request: web.Request) -> web.Response:
        text = request.query.get("text", "").lower()
        return page([entry for entry in _audit() if text in str(entry).lower()])

    @table.get("/api/v1/join-tokens")
    async def join_tokens(request: web.Request) -> web.Response:
        return page(records.join_tokens)

    @table.post("/api/v1/join-tokens")
    async def join_token(request: web.Request) -> web.Response:
        token = secrets.token_urlsafe(24)
        records.join_tokens.insert(0, _join_token(len(records.join_tokens) + 3, (await request.json())["note"]))
        command = f"make join URL=http://10.0.0.4:8000 TOKEN={token}"
        return answer({"token": token, "expires_at": iso(-3600), "command": command}, 201)

    @table.delete("/api/v1/join-tokens/{id}")
    async def revoke_join_token(request: web.Request) -> web.Response:
        records.join_tokens[:] = [one for one in records.join_tokens if str(one["id"]) != request.match_info["id"]]
        return web.Response(status=204)

    @table.get("/api/v1/links")
    async def links(request: web.Request) -> web.Response:
        return page(_links())

    @table.get("/api/v1/models/{name}/weights")
    async def weights(request: web.Request) -> web.Response:
        return page(_weights(request.match_info["name"]))

    @table.get("/api/v1/models/{name}/fit")
    async def fit(request: web.Request) -> web.Response:
        return answer(_fit(request.match_info["name"], int(request.query["kv_tokens"])))

    @table.get("/api/v1/workers/{worker}/logs")
    async def log(request: web.Request) -> web.Response:
        if request.query["run"] == "previous":
            return refuse(409, "no_log", "There is no log of a run before this one.")
        lines = [f"2026-11-30 14:0{at // 10}:{at % 60:02} [info] answered tokens={at * 7}" for at in range(40)]
        return answer({"lines": lines})

    return table


def _credential_routes(table: web.RouteTableDef, kind: str, rows: list[Row]) -> None:
    name = kind.removesuffix("s")

    @table.get(f"/api/v1/{kind}")
    async def listed(request: web.Request) -> web.Response:
        return page(rows)

    @table.post(f"/api/v1/{kind}")
    async def create(request: web.Request) -> web.Response:
        body = await request.json()
        days = body.pop("expires_in_days", None)
        rows.insert(0, _credential(**body, expires_at=iso(-86400 * days) if days else None))
        return answer({**rows[0], name: rows[0]["prefix"] + secrets.token_urlsafe(32)}, 201)

    @table.post(f"/api/v1/{kind}/{{id}}/rotate")
    async def rotate(request: web.Request) -> web.Response:
        row = next(one for one in rows if one["id"] == request.match_info["id"])
        row["previous_until"] = iso(-(await request.json())["grace_s"])
        return answer({**row, name: row["prefix"] + secrets.token_urlsafe(32)})

    @table.patch(f"/api/v1/{kind}/{{id}}")
    async def change(request: web.Request) -> web.Response:
        row = next(one for one in rows if one["id"] == request.match_info["id"])
        row.update(await request.json())
        return answer(row)

    @table.delete(f"/api/v1/{kind}/{{id}}")
    async def revoke(request: web.Request) -> web.Response:
        for row in rows:
            if row["id"] == request.match_info["id"]:
                row["revoked_at"] = iso()
        return web.Response(status=204)


def _credential(name: str, **changes: object) -> Row:
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
        "requests_per_minute": None,
        "max_concurrent": None,
        "last_used_at": iso(130),
        "previous_until": None,
        **changes,
    }


def _keys() -> list[Row]:
    return [
        _credential("support-bot", models=["qwen3-8b"], requests_per_minute=120, max_concurrent=8),
        _credential("nightly-eval", expires_at=iso(-86400 * 3), last_used_at=iso(40000)),
        _credential("mobile-app", previous_until=iso(-7200), expires_at=None),
        _credential("old-demo", revoked_at=iso(86400), last_used_at=None),
    ]


def _tokens() -> list[Row]:
    return [
        _credential("nightly-scaler", prefix="tm-tandem-4fQz", only=["qwen3-8b"]),
        _credential("grafana", prefix="tm-tandem-9aLp", role="viewer", owner="admin", expires_at=None),
    ]


def _user(name: str, **changes: object) -> Row:
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


def _more_users() -> list[Row]:
    return [
        _user("grace", role="viewer", grants={"qwen3-8b": "operator"}, local=False, oidc=True),
        _user("linus", role="operator", active=False, last_login_at=None),
    ]


def _join_token(number: int, note: str) -> Row:
    return {"id": number, "note": note, "created_by": "ada", "created_at": iso(400), "expires_at": iso(-3200)}


def _audit() -> list[Row]:
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


def _links() -> list[Row]:
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


def _weights(model: str) -> list[Row]:
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


def _fit(model: str, kv_tokens: int) -> Row:
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
