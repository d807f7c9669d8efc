"""All settings, from the environment only. Every limit is a named setting with its unit."""

import os
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import plotly
from django.core.exceptions import ImproperlyConfigured

from debugger.embedded.var_dir import local_secret_key

BASE_DIR = Path(__file__).resolve().parent.parent


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, default)


def env_bool(name: str, default: bool) -> bool:
    raw = os.environ.get(name)
    if raw is None:
        return default
    if raw.lower() in ("1", "true", "yes", "on"):
        return True
    if raw.lower() in ("0", "false", "no", "off"):
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {raw!r}")


def env_int(name: str, default: int, minimum: int = 0) -> int:
    raw = os.environ.get(name)
    if raw is None:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {raw!r}") from None
    if value < minimum:
        raise ImproperlyConfigured(f"{name} must be at least {minimum}, not {value}")
    return value


def database_from_url(url: str) -> dict[str, object]:
    """Return Django's DATABASES entry for a `postgresql://user:password@host:port/name?host=/socket` address."""
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured("DATABASE_URL must start with postgresql://")
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "postgres",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", unquote(parts.hostname or "")),
        "PORT": str(parts.port or query.pop("port", "")),
        "OPTIONS": query,
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }


VAR_DIR = Path(env_str("VAR_DIR") or BASE_DIR / "var").resolve()
DEBUG = env_bool("DEBUG", False)
SECRET_KEY = env_str("SECRET_KEY", "")
if not SECRET_KEY:
    if env_str("TEMPORALITY_ENV", "local") != "local":
        raise ImproperlyConfigured("SECRET_KEY must be set when TEMPORALITY_ENV is not local")
    try:
        SECRET_KEY = local_secret_key(VAR_DIR)
    except OSError as error:
        raise ImproperlyConfigured(f"SECRET_KEY is not set and cannot be kept in VAR_DIR: {error}") from None
ALLOWED_HOSTS = env_str("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [origin for origin in env_str("CSRF_TRUSTED_ORIGINS").split(",") if origin]

# Unset, the addresses are those of the embedded services under VAR_DIR, so that commands find a running `up`.
_SOCKETS = quote(str(VAR_DIR / "run"), safe="/")
DATABASES = {
    "default": database_from_url(
        env_str("DATABASE_URL") or f"postgresql://postgres@/temporality?host={_SOCKETS}/postgres"
    )
}
DATABASE_CONNECT_SECONDS = env_int("DATABASE_CONNECT_SECONDS", 5, 2)  # seconds to wait for the database to answer
WEB_STATEMENT_SECONDS = env_int("WEB_STATEMENT_SECONDS", 30)  # longest statement of a web request; 0: no limit
WEB_LOCK_SECONDS = env_int("WEB_LOCK_SECONDS", 10)  # longest wait for a lock in a web request; 0: no limit
_CONNECTION = {  # what the address itself names wins; a peer that is gone is noticed within about a minute
    "connect_timeout": str(DATABASE_CONNECT_SECONDS),
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "50000",
}
_OPTIONS = DATABASES["default"]["OPTIONS"]
if isinstance(_OPTIONS, dict):
    _OPTIONS.update({name: value for name, value in _CONNECTION.items() if name not in _OPTIONS})
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CELERY_BROKER_URL = env_str("CELERY_BROKER_URL") or f"redis+socket://{_SOCKETS}/redis.sock"
TEMPORAL_ADDRESS = env_str("TEMPORAL_ADDRESS", "127.0.0.1:7233")
TEMPORAL_NAMESPACE = env_str("TEMPORAL_NAMESPACE", "default")
TEMPORAL_TASK_QUEUE = env_str("TEMPORAL_TASK_QUEUE", "temporality-kernel")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "ingest",
    "knowledge",
    "debugger.apps.DebuggerConfig",
]
MIDDLEWARE = [
    "debugger.requests_seen.RequestsSeen",
    "django.middleware.security.SecurityMiddleware",
    "debugger.csp.ContentSecurityPolicy",
    "ingest.path_ids.KeepQuotedSlashes",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "debugger.urls"
WSGI_APPLICATION = "debugger.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static", ("plotly", Path(plotly.__file__).parent / "package_data")]  # plotly.min.js
STATIC_ROOT = VAR_DIR / "static"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LOGIN_URL = "/sign-in/"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["ingest.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["ingest.authentication.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "ingest.error_answers.handle_api_error",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Temporality",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "TAGS": [
        {"name": "send", "description": "Telemetry in: a 2xx means committed."},
        {"name": "ask", "description": "What is known that fits what just happened."},
        {"name": "knowledge", "description": "Knowledge items: read, curated, imported and exported."},
        {"name": "read", "description": "Runs, their events and chains, in the words of the pages."},
        {"name": "deliveries", "description": "What became of what was sent."},
    ],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "ingest.openapi_shapes.add_components",
        "knowledge.openapi.add_components",
    ],
}

# Ingest limits.
INGEST_MAX_EVENTS = env_int("INGEST_MAX_EVENTS", 1_000, 1)  # events in one request
INGEST_MAX_SPANS = env_int("INGEST_MAX_SPANS", 10_000, 1)  # spans or log records in one OTLP request
INGEST_MAX_BODY_BYTES = env_int("INGEST_MAX_BODY_BYTES", 8 * 1024 * 1024, 1)  # bytes, after decompression
INGEST_BYTES_AT_ONCE = env_int("INGEST_BYTES_AT_ONCE", 8 * 1024 * 1024, 1)  # bytes of bodies one process reads at once
INGEST_MAX_EVENT_BYTES = env_int("INGEST_MAX_EVENT_BYTES", 256 * 1024, 1)  # bytes of one event; longer strings are cut
INGEST_BODY_SECONDS = env_int("INGEST_BODY_SECONDS", 30, 1)  # seconds a request's head may take, and its body
INGEST_SLOW_SENDERS = env_int("INGEST_SLOW_SENDERS", 4)  # those over 1 s late that a web process waits for
INGEST_MAX_NESTING = env_int("INGEST_MAX_NESTING", 64, 1)  # levels of one event
INGEST_MAX_KEY_BYTES = env_int("INGEST_MAX_KEY_BYTES", 512, 1)  # bytes of one key in data
INGEST_EVENTS_PER_MINUTE = env_int("INGEST_EVENTS_PER_MINUTE", 3_000_000)  # events of one key in a minute; 0: no quota
INGEST_REJECTS_PER_HOUR = env_int("INGEST_REJECTS_PER_HOUR", 5_000, 1)  # rejects listed of one key in an hour
EXPORT_ROWS = env_int("EXPORT_ROWS", 10_000, 1)  # rows of a table that one file has
READ_MAX_PAGE_BYTES = env_int("READ_MAX_PAGE_BYTES", 8 * 1024 * 1024, 1)  # bytes of event data in one answer
INGEST_FOLD_TASK = env_str("INGEST_FOLD_TASK", "knowledge.fold_runs")  # Celery task queued when runs got events
INGEST_TOTALS = env_str("INGEST_TOTALS", "knowledge.totals.add_to_totals")  # keeps the counts of runs that go
INGEST_UNCOUNT = env_str("INGEST_UNCOUNT", "knowledge.totals.take_away")  # uncounts runs that are deleted

# Knowledge items.
KNOWLEDGE_MAX_BODY_BYTES = env_int("KNOWLEDGE_MAX_BODY_BYTES", 1024 * 1024, 1)  # bytes of a request about one item
KNOWLEDGE_IMPORT_MAX_BYTES = env_int("KNOWLEDGE_IMPORT_MAX_BYTES", 8 * 1024 * 1024, 1)  # bytes of an import, as sent
KNOWLEDGE_IMPORT_MAX_UNPACKED_BYTES = env_int("KNOWLEDGE_IMPORT_MAX_UNPACKED_BYTES", 32 * 1024 * 1024, 1)  # bytes
KNOWLEDGE_IMPORT_MAX_ITEMS = env_int("KNOWLEDGE_IMPORT_MAX_ITEMS", 5_000, 1)  # items of one import over the API

# Observation limits.
HINTS_MAX_BODY_BYTES = env_int("HINTS_MAX_BODY_BYTES", 1024 * 1024, 1)  # bytes
HINTS_ALGORITHM = env_str("HINTS_ALGORITHM", "hybrid.v3")  # version of FindHints in use
HINTS_EMBEDDINGS = env_bool("HINTS_EMBEDDINGS", True)  # compare meaning as well: 160 MiB in each process that searches
EMBED_SWEEP_SECONDS = env_int("EMBED_SWEEP_SECONDS", 30, 1)  # seconds between looks for items left without a vector
FOLD_SWEEP_SECONDS = env_int("FOLD_SWEEP_SECONDS", 10, 1)  # seconds between looks for runs left unfolded
ROLLUP_SECONDS = env_int("ROLLUP_SECONDS", 3, 1)  # seconds between looks for runs whose counts are not in the sums
TIMELINE_STORED_FROM = env_int("TIMELINE_STORED_FROM", 500, 1)  # events from which on a run's timeline is stored
TIMELINE_SWEEP_SECONDS = env_int("TIMELINE_SWEEP_SECONDS", 30, 1)  # seconds between looks for timelines to store
RETENTION_SECONDS = env_int("RETENTION_SECONDS", 3_600, 1)  # seconds between looks for days that are over
DELETION_SECONDS = env_int("DELETION_SECONDS", 60, 1)  # seconds between looks for deletions to go on with

# Starting runs from a page.
_TOLD_DRIVERS = [one.partition("=")[0].strip() for one in env_str("KERNEL_DRIVERS").split(",")]
if env_str("OPENAI_BASE_URL") or env_str("OPENAI_API_KEY"):
    _TOLD_DRIVERS.insert(0, "openai_chat")
_NAMED_DRIVERS = env_str("RUN_DRIVERS").split(",") if "RUN_DRIVERS" in os.environ else _TOLD_DRIVERS
RUN_DRIVERS = [name.strip() for name in _NAMED_DRIVERS if name.strip()]  # of the kernel's worker, beside "scripted"
RUN_PROJECT = env_str("RUN_PROJECT")  # slug of the project whose key the kernel's worker has; empty: not known here

# Conformance.
CONFORMANCE_REPORT = Path(env_str("CONFORMANCE_REPORT") or VAR_DIR / "conformance.json").resolve()  # its page
EXPERIMENTS_DIR = Path(env_str("EXPERIMENTS_DIR") or VAR_DIR / "experiments").resolve()  # reports of the benchmark
BENCHMARK_SECONDS = env_int("BENCHMARK_SECONDS", 1_800, 60)  # a benchmark that a page started may last

# Operations.
METRICS_TOKEN = env_str("METRICS_TOKEN")  # bearer token of /metrics; without one it is for this machine only
READY_SECONDS = env_int("READY_SECONDS", 2, 1)  # seconds /readyz waits for each part
LOG_FORMAT = env_str("LOG_FORMAT", "line")  # "line" for people, "json": one object a line
if LOG_FORMAT not in ("line", "json"):
    raise ImproperlyConfigured(f"LOG_FORMAT must be line or json, not {LOG_FORMAT!r}")

DATA_UPLOAD_MAX_MEMORY_SIZE = INGEST_MAX_BODY_BYTES
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "debugger.logs.RedactingFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        },
        "json": {"()": "debugger.logs.JsonFormatter"},
    },
    "filters": {"not_twice": {"()": "debugger.logs.NotTwice"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "loggers": {"django.request": {"filters": ["not_twice"]}},
    "root": {"handlers": ["stderr"], "level": env_str("LOG_LEVEL", "INFO")},
}
