"""How Tandem's processes prove to each other that they belong to one cluster.

The cluster secret itself is never sent on an internal hop: HTTP calls carry a token derived from it for one purpose,
and the KV transfer answers a random challenge (HMAC-SHA256, RFC 2104).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

PURPOSE_WORKER_HTTP = "worker-http"
PURPOSE_TRANSFER = "kv-transfer"
PURPOSE_METRICS = "metrics"
PURPOSE_NODE_HELLO = "node-hello"

#: Code of the refusal (401) of a hello by which an agent learns that its node was retired: it stops its workers.
CODE_NODE_RETIRED = "node_retired"

_NODE_SCHEME = "Node "


def derive_token(cluster_secret: str, purpose: str) -> str:
    """Bearer token for `purpose`, 64 hex characters. Knowing it does not reveal the secret or other tokens."""
    return hmac.new(cluster_secret.encode(), f"tandem:{purpose}".encode(), hashlib.sha256).hexdigest()


def bearer(cluster_secret: str, purpose: str) -> str:
    """Value of the Authorization header for `purpose`."""
    return f"Bearer {derive_token(cluster_secret, purpose)}"


def is_bearer(header: str | None, cluster_secret: str, purpose: str) -> bool:
    """Whether `header` is the Authorization value for `purpose`, compared in constant time."""
    return hmac.compare_digest(_bytes(header or ""), bearer(cluster_secret, purpose).encode())


def new_challenge() -> bytes:
    """32 random bytes for the peer to sign."""
    return secrets.token_bytes(32)


def sign_challenge(cluster_secret: str, side: str, challenge: bytes) -> bytes:
    """Answer to `challenge` by `side` ("sender" or "receiver": an answer can't be mirrored back)."""
    key = derive_token(cluster_secret, PURPOSE_TRANSFER).encode()
    return hmac.new(key, side.encode() + b":" + challenge, hashlib.sha256).digest()


def verify_challenge(cluster_secret: str, side: str, challenge: bytes, answer: bytes) -> bool:
    return hmac.compare_digest(sign_challenge(cluster_secret, side, challenge), answer)


def sign_message(node_key: str, purpose: str, message: str) -> str:
    """Authentication code (HMAC-SHA256, hex) of a message between one node and the control plane.

    purpose: the task it belongs to, so that a message can't be replayed as another kind. Order within a kind is kept by
    generations and sequence numbers inside the message itself.
    """
    return hmac.new(node_key.encode(), f"{purpose}:{message}".encode(), hashlib.sha256).hexdigest()


def verify_message(node_key: str, purpose: str, message: str, code: str) -> bool:
    """Whether `code` is that of `message`, compared in constant time."""
    return hmac.compare_digest(sign_message(node_key, purpose, message).encode(), _bytes(code))


def node_authorization(node_key: str, body: bytes) -> str:
    """Value of the Authorization header with which a node that has its key posts the hello `body`."""
    return _NODE_SCHEME + sign_message(node_key, PURPOSE_NODE_HELLO, body.decode())


def is_node_authorization(header: str | None, node_key: str, body: bytes) -> bool:
    """Whether `header` is the Authorization value of that node for exactly this body, compared in constant time."""
    try:
        expected = node_authorization(node_key, body)
    except UnicodeDecodeError:
        return False
    return hmac.compare_digest(_bytes(header or ""), expected.encode())


def new_serving_key() -> str:
    """A serving key as shown once to its owner: "sk-tandem-" and 43 characters from 32 random bytes."""
    return f"sk-tandem-{secrets.token_urlsafe(32)}"


def new_management_token() -> str:
    """A token for the management API as shown once to its owner: "tdm-" and 43 characters from 32 random bytes."""
    return f"tdm-{secrets.token_urlsafe(32)}"


def key_digest(key: str) -> str:
    """What is stored of a key: SHA-256 in hex."""
    return hashlib.sha256(_bytes(key)).hexdigest()


def _bytes(sent: str) -> bytes:
    """Whatever a caller sent: HTTP libraries put bytes of a header that are no UTF-8 into lone surrogates."""
    return sent.encode(errors="surrogateescape")
