"""An identity provider as the protocol describes it: OpenID Connect 1.0 with discovery, code flow, PKCE (RFC 7636).

It listens on a real port, signs real JWTs, hands each code out once and for one client, one redirect address and one
challenge. Faults are what a broken or hostile one would answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "tandem", "secret-of-the-client"


def signing_key(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig", "alg": "RS256"})


@dataclass
class Provider:
    """person: claims of whoever is logged in there. userinfo: what is told beside the ID token. changes: claims of the
    ID token that are wrong. signed_by: the key that is used, which is published unless `published` says otherwise."""

    url: str = ""
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "grace"})
    userinfo: dict[str, Any] | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    signed_by: RSAKey = field(default_factory=lambda: signing_key("one"))
    published: RSAKey | None = None
    algorithm: str = "RS256"
    denies: bool = False
    without_id_token: bool = False
    named: str | None = None
    down: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.named or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            **({"userinfo_endpoint": f"{self.url}/userinfo"} if self.userinfo is not None else {}),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "code_challenge_methods_supported": ["S256"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser is sent: as if somebody had logged in and agreed."""
        self.asked.append(query)
        if self.denies:
            answer = {"error": "access_denied", "error_description": "no", "state": query["state"]}
        else:
            code = secrets.token_urlsafe(16)
            self.codes[code] = query
            answer = {"code": code, "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def exchange(self, authorization: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        query = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            query is None
            or form.get("grant_type") != "authorization_code"
            or form.get("redirect_uri") != query["redirect_uri"]
            or query.get("code_challenge_method") != "S256"
            or challenge.decode().rstrip("=") != query.get("code_challenge")
        ):
            return 400, {"error": "invalid_grant"}
        answer = {"access_token": "access-of-grace", "token_type": "Bearer", "expires_in": 60}
        return 200, answer if self.without_id_token else {**answer, "id_token": self.id_token(query)}

    def id_token(self, query: dict[str, str]) -> str:
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": query["nonce"],
            **self.person,
            **self.changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.algorithm == "none":
            parts = ({"alg": "none"}, claims)
            return ".".join(
                [*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), ""]
            )
        return jwt.encode({"alg": self.algorithm, "kid": self.signed_by.kid}, claims, self.signed_by)

    def keys(self) -> dict[str, Any]:
        return {"keys": [(self.published or self.signed_by).as_dict(private=False)]}


class _Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        provider = self.provider
        if provider.down:
            self._answer(503, {})
        elif address.path == "/.well-known/openid-configuration":
            self._answer(200, provider.metadata())
        elif address.path == "/keys":
            self._answer(200, provider.keys())
        elif address.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", provider.authorize(query))
            self.end_headers()
        elif address.path == "/userinfo" and self.headers["Authorization"] == "Bearer access-of-grace":
            self._answer(200, provider.userinfo)
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if self.provider.down:
            self._answer(503, {})
        else:
            self._answer(*self.provider.exchange(self.headers.get("Authorization", ""), form))

    def _answer(self, status: int, body: Any) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider()
    handler = type("Handler", (_Handler,), {"provider": provider})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
