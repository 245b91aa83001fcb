"""What is listed on request and never told live: people, tokens, keys, audit, links, weights, logs."""

from __future__ import annotations

import secrets

from aiohttp import web

from frontend.testing.answers import answer, page, refuse
from frontend.testing.scene import rows as made
from frontend.testing.scene.measures import iso
from frontend.testing.scene.rows import Row


def person(name: str, **changes: object) -> Row:
    role = name if name in ("viewer", "operator") else "admin"
    return {"username": name, "kind": "user", "role": role, "grants": {}, "only": None, "local": True, **changes}


class Records:
    def __init__(self, empty: bool) -> None:
        self.keys = [] if empty else made.keys()
        self.tokens = [] if empty else made.tokens()
        self.users = [made.user("admin"), made.user("ada"), *([] if empty else made.more_users())]
        self.lockouts = [] if empty else [{"subject": "name", "value": "root", "failures": 9, "until": iso(-840)}]
        self.join_tokens = [] if empty else [made.join_token(1, "rack 3, second machine"), made.join_token(2, "")]


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
        records.users.append(made.user(body["username"], role=body["role"], grants=body["grants"]))
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
        return page([entry for entry in made.audit() if text in str(entry).lower()])

    @table.get("/api/v1/join-tokens")
    async def join_tokens(request: web.Request) -> web.Response:
        return page(records.join_tokens)

    @table.post("/api/v1/join-tokens")
    async def join_token(request: web.Request) -> web.Response:
        token = secrets.token_urlsafe(24)
        records.join_tokens.insert(0, made.join_token(len(records.join_tokens) + 3, (await request.json())["note"]))
        command = f"make join URL=http://10.0.0.4:8000 TOKEN={token}"
        return answer({"token": token, "expires_at": iso(-3600), "command": command}, 201)

    @table.delete("/api/v1/join-tokens/{id}")
    async def revoke_join_token(request: web.Request) -> web.Response:
        records.join_tokens[:] = [one for one in records.join_tokens if str(one["id"]) != request.match_info["id"]]
        return web.Response(status=204)

    @table.get("/api/v1/links")
    async def links(request: web.Request) -> web.Response:
        return page(made.links())

    @table.get("/api/v1/models/{name}/weights")
    async def weights(request: web.Request) -> web.Response:
        return page(made.weights(request.match_info["name"]))

    @table.get("/api/v1/models/{name}/fit")
    async def fit(request: web.Request) -> web.Response:
        return answer(made.fit(request.match_info["name"], int(request.query["kv_tokens"])))

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
        rows.insert(0, made.credential(**body, expires_at=iso(-86400 * days) if days else None))
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
