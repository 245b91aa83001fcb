"""Settings of the control plane. Every value comes from the environment; see the table in the README."""

from __future__ import annotations

from pathlib import Path

from controlplane.config import env, logs
from controlplane.config.database import database_from_url

ROOT = Path(__file__).resolve().parents[3]
DATA_DIR = Path(env.text("TANDEM_DATA", str(ROOT / "data"))).resolve()

#: Lets commands that need no sessions run (generating code, collecting files); nothing serves with it (config.checks).
NO_SECRET_KEY = "not-set"  # noqa: S105
SECRET_KEY = env.secret("TANDEM_SECRET_KEY", DATA_DIR / "secrets" / "django") or NO_SECRET_KEY
CLUSTER_SECRET = env.secret("TANDEM_CLUSTER_SECRET", DATA_DIR / "secrets" / "cluster")
#: Every node's own key is derived from it; a changed one voids them all. Never leaves the control plane.
NODE_SECRET = env.secret("TANDEM_NODE_SECRET", DATA_DIR / "secrets" / "nodes") or SECRET_KEY
DEBUG = env.flag("TANDEM_DEBUG")
PUBLIC_URL = env.text("TANDEM_PUBLIC_URL", "http://127.0.0.1:8000").rstrip("/")
ALLOWED_HOSTS = env.listing("TANDEM_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]")
CSRF_TRUSTED_ORIGINS = env.listing("TANDEM_TRUSTED_ORIGINS", PUBLIC_URL)

REDIS_URL = env.text("REDIS_URL", "redis://127.0.0.1:6379/0")
#: What a joining node is told; differs from REDIS_URL where nodes reach Redis by another address.
NODE_REDIS_URL = env.text("TANDEM_NODE_REDIS_URL", REDIS_URL)
#: Whether a node must get Redis credentials that reach its own queue only, or may share ours where Redis has no ACL.
REQUIRE_SCOPED_NODES = env.flag("TANDEM_REQUIRE_SCOPED_NODES")
ROUTER_URL = env.text("TANDEM_ROUTER_URL", "http://127.0.0.1:8001").rstrip("/")
PUBLIC_ROUTER_URL = env.text("TANDEM_PUBLIC_ROUTER_URL", ROUTER_URL).rstrip("/")

# Timers, in seconds
NODE_REPORT_INTERVAL_S = env.number("TANDEM_REPORT_INTERVAL_S", 2.0)
NODE_LOST_AFTER_S = env.number("TANDEM_NODE_LOST_AFTER_S", 20.0)
#: What is measured of devices is written and shown this often at most; in large fleets less often.
MEASURES_INTERVAL_S = env.number("TANDEM_MEASURES_INTERVAL_S", 5.0)
#: Measurements of the network between nodes: how many at once, and how long one may take.
LINKS_AT_ONCE = env.whole("TANDEM_LINKS_AT_ONCE", 4)
LINK_DEADLINE_S = env.number("TANDEM_LINK_DEADLINE_S", 30.0)
SWEEP_INTERVAL_S = env.number("TANDEM_SWEEP_INTERVAL_S", 5.0)
# A sweep that was not begun in time is worth nothing: the next one looks at everything again.
SWEEP_VALID_S = 2 * SWEEP_INTERVAL_S
#: The control worker starts again when messages waited so long and it took none.
WATCHDOG_S = env.number("TANDEM_WATCHDOG_S", 60.0)
DRAIN_DEADLINE_S = env.number("TANDEM_DRAIN_DEADLINE_S", 300.0)
OPERATION_DEADLINE_S = env.number("TANDEM_OPERATION_DEADLINE_S", 1800.0)
# A roll-out that others wait for may take a day.
OPERATION_QUEUE_DEADLINE_S = env.number("TANDEM_OPERATION_QUEUE_DEADLINE_S", 86_400.0)
# Weights of the largest models take hours over a slow network.
FETCH_DEADLINE_S = env.number("TANDEM_FETCH_DEADLINE_S", 43_200.0)
#: How long the old secret of a key or token stays good after a rotation, unless it is said there.
ROTATION_GRACE_S = env.number("TANDEM_ROTATION_GRACE_S", 3600.0)

DATABASES = {"default": database_from_url(env.text("DATABASE_URL"), DATA_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django.contrib.staticfiles",
    "controlplane.core",
    "controlplane.audit",
    "controlplane.operations",
    "controlplane.access",
    "controlplane.catalog",
    "controlplane.fleet",
    "controlplane.telemetry",
    "controlplane.pools",
    "controlplane.console",
    "controlplane.backup",
    "controlplane.inspection",
    "controlplane.launch",
]

MIDDLEWARE = [
    "controlplane.core.request_id.request_ids",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "controlplane.config.urls"
ASGI_APPLICATION = "controlplane.config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

PASSWORD_MIN_LENGTH = env.whole("TANDEM_PASSWORD_MIN_LENGTH", 10)
PASSWORD_KINDS = env.whole("TANDEM_PASSWORD_KINDS", 1)
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": PASSWORD_MIN_LENGTH},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {
        "NAME": "controlplane.access.passwords.KindsValidator",
        "OPTIONS": {"kinds": PASSWORD_KINDS},
    },
]

# Failed logins, counted within a window; then none is looked at until fewer are in it.
LOGIN_WINDOW_S = env.number("TANDEM_LOGIN_WINDOW_S", 900.0)
LOGIN_FAILURES_PER_NAME = env.whole("TANDEM_LOGIN_FAILURES_PER_NAME", 10)
LOGIN_FAILURES_PER_ADDRESS = env.whole("TANDEM_LOGIN_FAILURES_PER_ADDRESS", 50)

# Login through an identity provider (OpenID Connect), beside local accounts; on where there is an issuer.
OIDC_ISSUER = env.text("TANDEM_OIDC_ISSUER")
OIDC_CLIENT_ID = env.text("TANDEM_OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = env.secret("TANDEM_OIDC_CLIENT_SECRET")
OIDC_SCOPES = env.text("TANDEM_OIDC_SCOPES", "openid profile email")
#: What its button is called.
OIDC_NAME = env.text("TANDEM_OIDC_NAME", "Single sign-on")
OIDC_NAME_CLAIM = env.text("TANDEM_OIDC_NAME_CLAIM", "preferred_username")
OIDC_GROUPS_CLAIM = env.text("TANDEM_OIDC_GROUPS_CLAIM", "groups")
#: "group=role,group=role": then the provider decides on roles at each login.
OIDC_ROLES = env.pairs("TANDEM_OIDC_ROLES")
#: Of those in none of these groups; "none" lets only those in.
OIDC_DEFAULT_ROLE = env.text("TANDEM_OIDC_DEFAULT_ROLE", "viewer")
OIDC_TIMEOUT_S = env.number("TANDEM_OIDC_TIMEOUT_S", 10.0)

# HTTPS is known from the public address; cookies follow it.
_HTTPS = PUBLIC_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
CSRF_FAILURE_VIEW = "controlplane.core.rest.pages.csrf_failure"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = env.whole("TANDEM_SESSION_AGE_S", 7 * 86_400)
SESSION_EXPIRE_AT_BROWSER_CLOSE = env.flag("TANDEM_SESSION_ENDS_WITH_BROWSER")
BEHIND_PROXY = env.flag("TANDEM_BEHIND_PROXY")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_PROXY else None
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
STATIC_URL = "static/"
FRONTEND_DIST = Path(env.text("TANDEM_FRONTEND_DIST", str(ROOT / "frontend" / "dist")))

# Requests of one user, token or (without a login) address in one minute; 0: no limit.
API_READS_PER_MINUTE = env.whole("TANDEM_API_READS_PER_MINUTE", 3000)
API_WRITES_PER_MINUTE = env.whole("TANDEM_API_WRITES_PER_MINUTE", 300)
#: Of any request: far more than one of the management API, or a chat in the playground, needs.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.access.authentication.TokenAuthentication",
        "controlplane.access.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["controlplane.core.rest.rendering.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.core.rest.parsing.JSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "controlplane.core.rest.rendering.OnlyJSON",
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_SCHEMA_CLASS": "controlplane.core.rest.schema.ControlSchema",
    "EXCEPTION_HANDLER": "controlplane.core.rest.api.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
API_DESCRIPTION = """Everything the console does, and everything that operators do.

People log in at `/api/v1/session` and send its `csrf` as `X-CSRFToken` with every change; programs send
`Authorization: Bearer <management token>`.

Lists come in pages: `{"items": [...], "next": cursor}`. What is refused is answered by a problem (RFC 9457) with a
stable `code`, one sentence in `detail` and, where it is one field, `field`. Parameters that an endpoint does not know
are refused.

Every change can be tried (`?dry_run=true`), named (`Idempotency-Key`) and tied to the version that was seen (`If-Match`
with the `ETag` of the same address): 412 then says that it changed meanwhile, and what it is now.
"""
SPECTACULAR_SETTINGS = {
    "TITLE": "Tandem management API",
    "DESCRIPTION": API_DESCRIPTION,
    "VERSION": "0.2.0",
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": [
        "controlplane.core.rest.schema.add_components",
        "controlplane.console.playground_schema.add_chat",
    ],
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

LOGGING = logs.logging_config(env.text("TANDEM_LOG_LEVEL", "INFO"), as_json=env.flag("TANDEM_LOG_JSON"))
