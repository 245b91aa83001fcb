"""What the REST API reads and answers beyond the views of `inference.contracts`.

The control plane defines these beside its endpoints, where this program must not look; a test compares the two.
In bodies, UNSET is left out, and what is left out stays as it is.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from inference.contracts.specs import EngineSettings
from inference.contracts.states import UserRole
from inference.contracts.views.fleet import NodeView
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView, PoolView, RolloutView

T = TypeVar("T")


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all: unknown fields of a newer control plane are ignored."""


class Page(Struct, Generic[T], frozen=True, kw_only=True):
    items: tuple[T, ...]
    next: str | None


class Problem(Struct, frozen=True, kw_only=True):
    status: int
    code: str
    detail: str
    field: str | None = None
    current: dict[str, Any] | None = None


# -- answers


class SessionUser(Struct, frozen=True, kw_only=True):
    username: str
    kind: str
    role: UserRole
    grants: dict[str, UserRole]
    only: tuple[str, ...] | None
    local: bool


class SessionView(Struct, frozen=True, kw_only=True):
    user: SessionUser | None


class DeploymentAnswer(Struct, frozen=True, kw_only=True):
    deployment: DeploymentView
    operation: OperationView


class OperationAnswer(Struct, frozen=True, kw_only=True):
    operation: OperationView


class PoolAnswer(Struct, frozen=True, kw_only=True):
    pool: PoolView
    operation: OperationView | None


class NodeOperationAnswer(Struct, frozen=True, kw_only=True):
    node: NodeView
    operation: OperationView


class JoinTokenView(Struct, frozen=True, kw_only=True):
    token: str
    expires_at: str
    command: str


class KeyView(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    prefix: str
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    models: tuple[str, ...]
    requests_per_minute: int | None
    max_concurrent: int | None
    last_used_at: str | None
    previous_until: str | None


class IssuedKeyView(KeyView, frozen=True, kw_only=True):
    key: str


class TokenView(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    prefix: str
    owner: str | None
    role: UserRole
    only: tuple[str, ...] | None
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    previous_until: str | None


class IssuedTokenView(TokenView, frozen=True, kw_only=True):
    token: str


class UserView(Struct, frozen=True, kw_only=True):
    username: str
    role: UserRole
    grants: dict[str, UserRole]
    active: bool
    local: bool
    oidc: bool
    created_at: str
    last_login_at: str | None


class LockoutView(Struct, frozen=True, kw_only=True):
    subject: str
    value: str
    failures: int
    until: str


class UnlockedView(Struct, frozen=True, kw_only=True):
    failures: int


# -- bodies


class ReasonBody(Struct, frozen=True, kw_only=True):
    reason: str = ""


class RolloutPolicy(Struct, frozen=True, kw_only=True):
    step: float | None = None
    observe_s: float = 30.0
    max_error_rate: float = 0.05
    max_slo_miss_rate: float = 0.2
    min_requests: int = 20
    quiet_s: float = 300.0
    step_deadline_s: float = 3600.0


class RolloutAnswer(Struct, frozen=True, kw_only=True):
    policy: RolloutPolicy
    rollout: RolloutView | None


class DeploymentBody(Struct, frozen=True, kw_only=True):
    name: str
    model: str
    model_revision: str = ""
    prefill: int = 0
    decode: int = 0
    unified: int = 0
    local_prefill_tokens: int | None = None
    settings: EngineSettings = EngineSettings()
    tensor_parallel: int = 1
    strategy: str = "spread"
    labels: tuple[str, ...] = ()
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    reason: str = ""


class DeploymentChangeBody(Struct, frozen=True, kw_only=True):
    local_prefill_tokens: int | UnsetType = UNSET
    slo_ttft_s: float | UnsetType | None = UNSET
    slo_tpot_s: float | UnsetType | None = UNSET
    reason: str = ""


class PoolBody(Struct, frozen=True, kw_only=True):
    generation: int
    replicas: int | UnsetType = UNSET
    min_replicas: int | UnsetType = UNSET
    max_replicas: int | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET
    strategy: str | UnsetType = UNSET
    reason: str = ""


class RebalanceBody(Struct, frozen=True, kw_only=True):
    prefill: int
    decode: int
    prefill_generation: int
    decode_generation: int
    reason: str = ""


class RollOutBody(Struct, frozen=True, kw_only=True):
    model: str | UnsetType = UNSET
    model_revision: str | UnsetType = UNSET
    settings: EngineSettings | UnsetType = UNSET
    policy: RolloutPolicy | UnsetType = UNSET
    note: str = ""
    reason: str = ""


class RollBackBody(Struct, frozen=True, kw_only=True):
    to: int | UnsetType = UNSET
    reason: str = ""


class NodeBody(Struct, frozen=True, kw_only=True):
    labels: tuple[str, ...]


class DeviceBody(Struct, frozen=True, kw_only=True):
    labels: tuple[str, ...] | UnsetType = UNSET
    maintenance: bool | UnsetType = UNSET
    maintenance_note: str | UnsetType = UNSET
    reserved_for: str | UnsetType = UNSET


class MeasureBody(Struct, frozen=True, kw_only=True):
    nodes: tuple[str, ...]
    reason: str = ""


class JoinTokenBody(Struct, frozen=True, kw_only=True):
    note: str = ""
    ttl_s: int | UnsetType = UNSET


class KeyBody(Struct, frozen=True, kw_only=True):
    name: str
    expires_in_days: int | None = None
    models: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    max_concurrent: int | None = None


class KeyChangeBody(Struct, frozen=True, kw_only=True):
    name: str | UnsetType = UNSET
    models: tuple[str, ...] | UnsetType = UNSET
    requests_per_minute: int | UnsetType | None = UNSET
    max_concurrent: int | UnsetType | None = UNSET


class RotateBody(Struct, frozen=True, kw_only=True):
    grace_s: float | UnsetType = UNSET


class TokenBody(Struct, frozen=True, kw_only=True):
    name: str
    role: UserRole
    only: tuple[str, ...] | UnsetType = UNSET
    expires_in_days: int | None = None


class UserBody(Struct, frozen=True, kw_only=True):
    username: str
    password: str
    role: UserRole = UserRole.VIEWER
    grants: dict[str, UserRole] = {}


class UserChangeBody(Struct, frozen=True, kw_only=True):
    role: UserRole | UnsetType = UNSET
    grants: dict[str, UserRole] | UnsetType = UNSET
    active: bool | UnsetType = UNSET


class NewPasswordBody(Struct, frozen=True, kw_only=True):
    password: str


class UnlockBody(Struct, frozen=True, kw_only=True):
    subject: str
    value: str


class ModelBody(Struct, frozen=True, kw_only=True):
    name: str
    path: str
    description: str = ""
    revision: str = ""
    licence: str = ""
    config: dict[str, Any] | UnsetType = UNSET


class ModelChangeBody(Struct, frozen=True, kw_only=True):
    path: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    revision: str | UnsetType = UNSET
    licence: str | UnsetType = UNSET
    config: dict[str, Any] | UnsetType = UNSET


class FetchBody(Struct, frozen=True, kw_only=True):
    nodes: tuple[str, ...]
    revision: str | UnsetType = UNSET
    reason: str = ""


class FetchAnswer(Struct, frozen=True, kw_only=True):
    operation: OperationView
