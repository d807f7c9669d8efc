"""One request, one answer: bounded in time and bytes, to one address, with a key that is shown nowhere.

A redirect is not followed, so the key goes to the address it was given for and to no other.
"""

import json
import math
import re
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx

from contract.hint_api import ANSWER_BYTES
from contract.redaction import MARKER, redact
from contract.text import clip
from knowledge.client.failures import (
    BadAnswer,
    ObservationError,
    ObservationRefused,
    ObservationTimeout,
    ObservationUnreachable,
)

KEY_FORM: Final = re.compile(r"[A-Za-z0-9._~+/-]{8,512}=*")  # RFC 6750, section 2.1
ERROR_LIMIT: Final = 300  # code points
CODE_LIMIT: Final = 64  # code points
LONGEST_WAIT: Final = 86_400.0  # seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body, and the seconds the server asks to wait."""

    status: int
    content: bytes
    retry_after: float | None


def checked_url(url: str) -> str:
    """Return the address without a slash at its end. Raises ValueError, which does not repeat it."""
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise ValueError("url must be the address of Observation, such as https://temporality.example")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("url must hold no user, password, query or fragment; the key has its own argument")
    return url.rstrip("/")


def checked_key(key: str) -> str:
    """Return the key. Raises ValueError, which does not repeat it."""
    if not KEY_FORM.fullmatch(key):
        raise ValueError("key must be an API key of the project (tk_…), without spaces or line ends")
    return key


def open_connections() -> httpx.AsyncClient:
    """Return connections that know no key: each request brings its own, and no cookie goes from one to the next."""
    # Uncompressed: what is counted is what comes, and no few bytes unfold into many.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx.AsyncClient(headers=headers, cookies=no_cookies, follow_redirects=False, timeout=None)


class Exchange:
    """What one key says to one Observation. Its repr names the address only.

    `connections` may be shared between keys; whoever opened them closes them.
    """

    def __init__(self, url: str, key: str, connections: httpx.AsyncClient | None = None) -> None:
        self.url = checked_url(url)
        self._key = checked_key(key)
        self._owns = connections is None
        self._http = connections or open_connections()

    def __repr__(self) -> str:
        return f"Exchange({self.url!r})"

    async def close(self) -> None:
        if self._owns:
            await self._http.aclose()

    async def post(self, path: str, content: bytes, seconds: float) -> Answer:
        """Return the answer within `seconds`. Raises ObservationTimeout, ObservationUnreachable, BadAnswer."""
        failure: ObservationError | None = None
        try:
            with anyio.fail_after(max(0.0, seconds)):
                return await self._post(path, content)
        except (TimeoutError, httpx.TimeoutException):
            failure = ObservationTimeout(f"no answer within {seconds:.1f} s")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, RuntimeError, UnicodeError) as error:
            failure = ObservationUnreachable(self.safe(str(error) or type(error).__name__))
        # Raised out here, so that it carries no context: that holds the request, and the request holds the key.
        raise failure

    async def _post(self, path: str, content: bytes) -> Answer:
        body = bytearray()
        headers = {"Authorization": f"Bearer {self._key}"}
        async with self._http.stream("POST", self.url + path, content=content, headers=headers) as response:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > ANSWER_BYTES:
                    raise BadAnswer(f"the answer is over {ANSWER_BYTES} bytes")
        return Answer(response.status_code, bytes(body), _seconds(response.headers.get("Retry-After", "")))

    def refusal(self, answer: Answer) -> ObservationRefused:
        """Return what an answer of another status than wanted says."""
        if 300 <= answer.status < 400:
            told = "the address answers with a redirect, which is not followed; give the address it leads to"
            return ObservationRefused(answer.status, "redirected", "", told)
        try:
            said = json.loads(answer.content)
        except (ValueError, RecursionError):
            said = None
        said = said if isinstance(said, dict) else {}
        code, field, detail = (_word(said, name) for name in ("code", "field", "detail"))
        code, field = self.safe(code)[:CODE_LIMIT], self.safe(field)[:CODE_LIMIT]
        return ObservationRefused(answer.status, code, field, self.safe(detail), retry_after=answer.retry_after)

    def safe(self, text: str) -> str:
        """Return a text of somebody else's on one line, short, without the key and other secrets."""
        hidden = text[: 4 * ERROR_LIMIT + len(self._key)].replace(self._key, MARKER.format(kind="token"))
        printable = "".join(sign if sign.isprintable() else " " for sign in hidden)
        return clip(redact(" ".join(printable.split()))[0], ERROR_LIMIT)


def _word(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def _seconds(text: str) -> float | None:
    """Return the seconds of a Retry-After header; a date, and what is no number, say nothing."""
    try:
        seconds = float(text[:20])
    except ValueError:
        return None
    return min(seconds, LONGEST_WAIT) if math.isfinite(seconds) and seconds >= 0 else None
