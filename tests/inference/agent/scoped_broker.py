"""A broker with a user for one node, as the control plane makes it: its own queue, and pushing to what is shared."""

from __future__ import annotations

import redis

from inference.contracts import names
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.node_under_test import NODE

PASSWORD = "of-this-node"
COMMANDS = (
    *("ping", "select", "client|setinfo", "client|setname", "brpop", "lpush", "llen"),
    *("sadd", "xadd", "expire", "multi", "exec"),
)


def make_user(broker: ValkeyServer, password: str = PASSWORD) -> str:
    """Make or change the node's user; the address with its credentials."""
    queue = names.node_queue(NODE)
    rules = (
        *("reset", "on", f">{password}", "resetchannels", "-@all"),
        *(f"~{queue}", f"~{queue}\x06\x16*", f"~_kombu.binding.{queue}", f"~_kombu.binding_permanent.{queue}"),
        *(f"%W~{names.CONTROL_QUEUE}", f"%W~{names.WINDOW_STREAM}", f"%W~{names.log_reply_key(f'{NODE}:*')}"),
        *(f"+{command}" for command in COMMANDS),
    )
    with redis.Redis.from_url(broker.url) as admin:
        admin.execute_command("ACL", "SETUSER", NODE, *rules)
    return broker.url.replace("redis://", f"redis://{NODE}:{password}@")


def drop_user(broker: ValkeyServer) -> None:
    with redis.Redis.from_url(broker.url) as admin:
        admin.execute_command("ACL", "DELUSER", NODE)


def refusals(broker: ValkeyServer) -> list[str]:
    """What the node's user tried and may not, but for wrong passwords."""
    with redis.Redis.from_url(broker.url, decode_responses=True) as admin:
        entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in admin.execute_command("ACL", "LOG")]
    return [f"{entry['reason']}: {entry['object']}" for entry in entries if entry["reason"] != "auth"]
