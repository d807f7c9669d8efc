"""The Python client against the real application, and against servers that answer as no server should."""

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import socketserver
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.live_server_helper import LiveServer

from contract.hint_api import QUERY_LIMIT, TOOL_ARGUMENTS_LIMIT, TOOL_RESULT_LIMIT
from contract.hint_block import render_hint_block
from debugger.embedded.sockets import free_port
from ingest.authentication import create_key, revoke_key
from ingest.models import Batch, Event, Project
from kernel.messages import Hint as KernelHint
from knowledge.chains import refresh_run
from knowledge.client.answers import parse_hints
from knowledge.client.asking import ask_to_json, bounded
from knowledge.client.observation import (
    Ask,
    AsyncObservation,
    BadAnswer,
    Hint,
    Hints,
    Observation,
    ObservationError,
    ObservationRefused,
    ObservationTimeout,
    ObservationUnreachable,
)
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.models import Activation, Candidate, HintAnswer
from tests.kernel.http_server import Answer, Asked, local_server
from tests.source_rules import ROOT

KEY = "tk_0a1b2c3d_" + "Zz9-" * 8
ERROR = "fatal: not a git repository (or any of the parent directories): .git"
PATIENT = 30.0  # seconds, where the time allowed is not what is tested
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
HINT = Hint("r:a1:h1", "git-init", 1, "Run `git init`.", "confirmed", "r", "r:a1", ("entity",))
HINTS_READ = Hints("r:a1", "r", "tool.failed", "success", (HINT,), cause="a failed call").text()
served = pytest.mark.django_db(transaction=True)


def make_project(slug: str, *items: str) -> Project:
    project = Project.objects.create(slug=slug, name=slug)
    for name in items:
        rule = f"Rule {name}: run `{name} now` first."
        draft = ItemDraft(name, rule, state="confirmed", entities=("not a git repository",))
        create_item(project, draft, by="tester", reason="test")
    return project


def key_of(project: Project, *scopes: str) -> str:
    return create_key(project, "client", scopes or ("observe", "ingest"))[1]


def failed_call(run: str = "r-1", **fields: Any) -> Ask:
    return Ask(run, "tool.failed", tool="shell", tool_result=ERROR, error_class="exit_nonzero", **fields)


def rows(run: str) -> tuple[Activation, Candidate]:
    """Fold a run and return its one activation and its one candidate."""
    refresh_run(Project.objects.get(slug="alpha").pk, run)
    return Activation.objects.get(run_id=run), Candidate.objects.get(run_id=run)


# ---- against the real application -------------------------------------------------------------------------


@served
def test_found_used_and_helpful_stand_in_the_chain(live_server: LiveServer) -> None:
    """A search and three reports, each sent twice: the chain says injected, used and helpful, each counted once."""
    project = make_project("alpha", "git-init")
    with Observation(live_server.url, key_of(project), timeout=PATIENT, report_timeout=PATIENT, strict=True) as client:
        found = client.find(failed_call(query="Release the parser"))
        (hint,) = found
        assert (found.result, hint.knowledge_id, hint.run) == ("success", "git-init", "r-1")
        for _ in range(2):
            assert client.report_injected(hint).result == "stored"
            assert client.report_used(hint, evidence="ran git init").result == "stored"
            assert client.report_outcome(hint, "helpful", note="the commit worked").result == "stored"
    activation, candidate = rows("r-1")
    assert (activation.trigger, activation.result, activation.n_injected) == ("tool.failed", "success", 1)
    assert candidate.used_ns is not None and candidate.injected_ns is not None
    assert (candidate.outcome, candidate.outcome_source) == ("helpful", "reported")
    types = Event.objects.filter(run_id="r-1").values_list("type", flat=True)
    assert sorted(types) == ["hint.delivery", "hint.offered", "hint.outcome", "hint.query", "hint.used"]
    batches = Batch.objects.filter(source="events")
    assert sum(batch.n_duplicates for batch in batches) == 3
    assert sum(batch.n_conflicts for batch in batches) == 0


@served
def test_ignored_and_a_changed_mind(live_server: LiveServer) -> None:
    """What was not acted on is ignored; of two verdicts the later stands."""
    project = make_project("alpha", "git-init")
    with Observation(live_server.url, key_of(project), timeout=PATIENT, report_timeout=PATIENT, strict=True) as client:
        (hint,) = client.find(failed_call())
        client.report_ignored(hint)
        client.report_outcome(hint, "neutral")
        client.report_outcome(hint, "harmful", note="it made a second repository")
    _, candidate = rows("r-1")
    assert candidate.used_ns is None and candidate.ignored_ns is not None
    assert candidate.outcome == "harmful"


@served
async def test_the_async_twin_answers_a_batch_in_order(transactional_db: None, live_server: LiveServer) -> None:
    """Two activations of one moment: what the first is offered the second is not, and what fits nothing is empty."""
    key = await asyncio.to_thread(lambda: key_of(make_project("alpha", "git-init")))
    async with AsyncObservation(live_server.url, key, timeout=PATIENT, strict=True) as client:
        asks = [failed_call(), failed_call(), Ask("r-1", query="weather")]
        first, second, third = await client.find_hints_batch(asks)
        assert await client.find_hints_batch([]) == ()
    assert [hint.knowledge_id for hint in first] == ["git-init"]
    assert (second.result, second.held_back) == ("empty", (("git-init", "offered_in_batch"),))
    assert (third.result, third.text(), len(third)) == ("empty", "", 0)


@served
def test_nothing_that_fits_is_no_error(live_server: LiveServer) -> None:
    """An empty answer is a normal one, and what was issued is not given again."""
    project = make_project("alpha", "git-init")
    with Observation(live_server.url, key_of(project), timeout=PATIENT) as client:
        nothing = client.find_hints("r-1", query="quarterly weather")
        again = client.find(failed_call(issued=["git-init"]))
    assert (nothing.result, nothing.error) == ("empty", "")
    assert (again.result, again.held_back) == ("empty", (("git-init", "already_issued"),))


@served
def test_the_same_activation_is_one_search(live_server: LiveServer) -> None:
    """Asked again under its id, an activation gets the answer it got and leaves one search."""
    project = make_project("alpha", "git-init")
    with Observation(live_server.url, key_of(project), timeout=PATIENT) as client:
        answers = [client.find(failed_call(activation_id="r-1:a1")) for _ in range(2)]
    assert answers[0] == answers[1]
    assert [hint.hint_id for hint in answers[0]] == ["r-1:a1:h1"]
    assert HintAnswer.objects.count() == 1


@served
def test_refusals_are_results_and_typed_when_strict(live_server: LiveServer) -> None:
    """A revoked key, a missing scope, a wrong field: a reason without the key; strict gives status, code and field."""
    project = make_project("alpha", "git-init")
    dead, raw = create_key(project, "dead", ["observe"])
    revoke_key(dead)
    reader = key_of(project, "read")
    asking = key_of(project, "observe")
    with Observation(live_server.url, raw, timeout=PATIENT) as client:
        found = client.find(failed_call())
        assert found.result == "error" and found.error.startswith("401 ")
        assert raw not in repr((found, client, vars(client)))
        assert len(found) == 0
    for key, ask, status, code, field in [
        (reader, failed_call(), 403, "", ""),
        (asking, failed_call(limit=21), 422, "limit_exceeded", "limit"),
        (asking, failed_call(entities=["e"] * 1_001), 422, "limit_exceeded", "entities"),
        (asking, Ask("", query="x"), 400, "invalid_field", "run"),
        (asking, Ask("r", "No Trigger", query="x"), 400, "invalid_field", "trigger"),
    ]:
        with Observation(live_server.url, key, timeout=PATIENT, strict=True) as client:
            with pytest.raises(ObservationRefused) as caught:
                client.find(ask)
            assert (caught.value.status, caught.value.field) == (status, field)
            assert caught.value.code == code or not code
            assert caught.value.detail
    assert not HintAnswer.objects.exists() and not Event.objects.exists()


@served
def test_a_report_needs_its_scope(live_server: LiveServer) -> None:
    """A key that may only ask cannot report: the agent reads why, and nothing is stored."""
    project = make_project("alpha", "git-init")
    with Observation(live_server.url, key_of(project, "observe"), timeout=PATIENT) as client:
        (hint,) = client.find(failed_call())
        n_events = Event.objects.count()
        report = client.report_used(hint)
    assert report.result == "error" and report.error.startswith("403 ")
    assert Event.objects.count() == n_events


@served
def test_long_and_secret_texts_are_taken(live_server: LiveServer) -> None:
    """Texts of megabytes with secrets and odd characters are sent within the limits, and nothing is refused."""
    project = make_project("alpha", "git-init")
    output = f"token={SECRET}\n" + "compiling\0 \ud800 ✓\n" * 200_000 + ERROR
    with Observation(live_server.url, key_of(project), timeout=PATIENT, strict=True) as client:
        found = client.find_hints("r-1", trigger="tool.failed", query="ы" * 10_000, tool_result=output,
                                  tool_arguments=f"make\0 \ud800 {SECRET} " * 9_000)  # fmt: skip
        (hint,) = found
        report = client.report_used(hint, evidence=f"set {SECRET} \ud800\0" + "é" * 10_000)
    assert report.result == "stored"
    assert hint.knowledge_id == "git-init"  # the error stands at the end of the output
    kept = repr(list(Event.objects.values("data"))) + repr(list(HintAnswer.objects.values()))
    assert SECRET not in kept and "[REDACTED:" in kept


@served
def test_projects_see_their_own(live_server: LiveServer) -> None:
    """Two keys, one run id: each finds and reports in its own project."""
    alpha, beta = make_project("alpha", "git-init"), make_project("beta", "git-other")
    hints = []
    for project in (alpha, beta):
        with Observation(live_server.url, key_of(project), timeout=PATIENT, strict=True) as client:
            (hint,) = client.find(failed_call())
            client.report_used(hint)
            hints.append(hint.knowledge_id)
    assert hints == ["git-init", "git-other"]
    used = Event.objects.filter(type="hint.used").order_by("project__slug")
    assert list(used.values_list("project__slug", "knowledge_id")) == [
        ("alpha", "git-init"),
        ("beta", "git-other"),
    ]


@served
def test_many_threads_share_one_client(live_server: LiveServer) -> None:
    """Threads that start together get an answer each, through one loop."""
    project = make_project("alpha", "git-init")
    client = Observation(live_server.url, key_of(project), timeout=PATIENT)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(client.find(failed_call(f"r-{n}")).result)) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["success"] * 8
    client.close()
    assert client.find(failed_call("r-after")).result == "success"  # it starts again
    client.close()


# ---- against servers that do not keep the agreement -------------------------------------------------------


def asking(url: str, *, strict: bool = True, timeout: float = PATIENT, key: str = KEY) -> Observation:
    return Observation(url, key, timeout=timeout, report_timeout=PATIENT, strict=strict)


def good(asked: Asked, **fields: Any) -> dict[str, Any]:
    hint = {"hint_id": "h", "knowledge_id": "k", "revision": 1, "proposition": "p", "state": "confirmed", **fields}
    return {"activation_id": asked.body["activation_id"], "hints": [hint]}


NONSENSE: dict[str, Callable[[Asked], Any]] = {
    "no JSON": lambda _: b"<p>Welcome",
    "deep": lambda _: b"[" * 200_000,
    "a list": lambda _: [],
    "empty body": lambda _: b"",
    "another activation": lambda _: {"activation_id": "x", "hints": []},
    "no hints": lambda asked: {"activation_id": asked.body["activation_id"]},
    "hints no list": lambda asked: {**good(asked), "hints": "many"},
    "too many": lambda asked: {**good(asked), "hints": good(asked)["hints"] * 21},
    "a hint no object": lambda asked: {**good(asked), "hints": [7]},
    "no id": lambda asked: good(asked, hint_id=""),
    "an id of two lines": lambda asked: good(asked, knowledge_id="a\nb"),
    "revision true": lambda asked: good(asked, revision=True),
    "revision vast": lambda asked: good(asked, revision=2**40),
    "a long rule": lambda asked: good(asked, proposition="p" * 5_000),
    "reasons no texts": lambda asked: good(asked, matched_by=[1]),
    "a count of minus one": lambda asked: {**good(asked), "counts": {"retrieved": -1}},
    "too large": lambda asked: json.dumps(good(asked)).encode() + b" " * (1024 * 1024),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_an_error_without_hints(name: str) -> None:
    """An answer of the wrong shape gives no hint: a typed error when strict, else a result with the reason."""
    with local_server(lambda asked: Answer(body=NONSENSE[name](asked))) as server:
        with asking(server.url) as client, pytest.raises(BadAnswer) as caught:
            client.find_hints("r", query="q")
        with asking(server.url, strict=False) as client:
            found = client.find_hints("r", query="q")
    assert (found.result, found.hints, found.error) == ("error", (), str(caught.value))
    assert len(server.asked) == 2  # nonsense is not asked for again


def test_a_redirect_is_not_followed() -> None:
    """The key goes to the address it was given for, whatever that answers."""
    with local_server(lambda _: Answer(body={})) as elsewhere:
        for status in (301, 302, 307, 308):
            answer = Answer(status, headers={"Location": f"{elsewhere.url}/v1/observations/hints"})
            with local_server(lambda _, answer=answer: answer) as server, asking(server.url) as client:
                with pytest.raises(ObservationRefused, match="redirect"):
                    client.find_hints("r", query="q")
                with pytest.raises(ObservationRefused, match="redirect"):
                    client.report_used(HINT)
        assert elsewhere.asked == []


@pytest.mark.parametrize("key", [KEY, "correct-horse-battery"])
def test_the_key_is_shown_nowhere(caplog: pytest.LogCaptureFixture, key: str) -> None:
    """A server that says the key back, in each place it can, does not get it into a result, an error or the log."""
    caplog.set_level(logging.DEBUG)
    echo = {"code": key, "detail": f"no such key: {key}", "field": key}
    seen: list[str] = []
    with local_server(lambda _: Answer(401, echo)) as server:
        with asking(server.url, strict=False, key=key) as client:
            seen += [repr(client.find_hints("r", query="q")), repr(client.report_used(HINT)), repr(client)]
        with asking(server.url, key=key) as client:
            try:
                client.find_hints("r", query="q")
            except ObservationRefused as error:
                seen += [repr(vars(error)), str(error), "".join(traceback.format_exception(error))]
                assert error.__context__ is None
    assert server.asked[0].headers["authorization"] == f"Bearer {key}"
    with asking(f"http://127.0.0.1:{free_port()}", key=key) as client:
        try:
            client.find_hints("r", query="q")
        except ObservationUnreachable as error:
            seen += [repr(vars(error)), str(error)]
            assert error.__context__ is None
    assert len(seen) == 8
    assert key not in "".join(seen) + caplog.text


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("ftp://x", KEY), ("", KEY), ("http://", KEY), ("http://me:secret-word@x", KEY),
        ("http://x?key=secret-word", KEY),
        ("http://[x", KEY), ("http://x", ""), ("http://x", "secret-word\r\nHost: y"), ("http://x", "secret-wörd"),
    ],
)  # fmt: skip
def test_what_cannot_be_an_address_or_a_key_is_refused_at_once(url: str, key: str) -> None:
    """Refused where the program is written, without repeating what was given."""
    with pytest.raises(ValueError) as caught:
        Observation(url, key)
    assert "secret-w" not in str(caught.value)
    assert not isinstance(caught.value, ObservationError)


@contextmanager
def raw_server(speak: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Serve each connection by a function on its socket."""
    over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.request.recv(65_536)
                speak(self.request, over)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            over.set()
            server.shutdown()


def drip(start: bytes) -> Callable[[socket.socket, threading.Event], None]:
    """Say `start`, then a byte now and then until the test is over."""

    def speak(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        while not over.wait(0.05):
            connection.sendall(b"a")

    return speak


DRIPPING = {
    "nothing": b"",
    "headers": b"HTTP/1.1 200 OK\r\nX-Slow: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
}


@pytest.mark.parametrize("start", DRIPPING.values(), ids=list(DRIPPING))
def test_a_server_that_drips_is_left_in_time(start: bytes) -> None:
    """No byte now and then keeps a caller beyond its time, in the headers as little as in the body."""
    with raw_server(drip(start)) as url:
        with asking(url, timeout=0.3) as client, pytest.raises(ObservationTimeout):
            client.find_hints("r", query="q")
        with asking(url, timeout=0.3, strict=False) as client:
            found = client.find_hints("r", query="q")
    assert (found.result, found.error) == ("timeout", "no answer within 0.3 s")


def test_half_an_answer_is_asked_for_once_more() -> None:
    """A lost connection is tried again once, under the same activation id; twice lost is an error."""
    bodies: list[bytes] = []

    def speak(connection: socket.socket, _: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        bodies.append(b"")

    with raw_server(speak) as url, asking(url) as client, pytest.raises(ObservationUnreachable):
        client.find_hints("r", query="q")
    assert len(bodies) == 2


def test_a_search_is_asked_twice_at_most_and_under_one_id() -> None:
    """After a gateway's 502 the second answer counts; what says no is not asked again."""
    answers: list[Callable[[Asked], Answer]] = [lambda _: Answer(502), lambda asked: Answer(body=good(asked))]
    with local_server(lambda asked: answers[len(server.asked) - 1](asked)) as server, asking(server.url) as client:
        assert [hint.knowledge_id for hint in client.find_hints("r", query="q")] == ["k"]
    first, second = (asked.body for asked in server.asked)
    assert first == second and first["activation_id"].startswith("r:")
    for status, headers, n_asked in (
        (400, {}, 1),
        (401, {}, 1),
        (503, {}, 1),
        (503, {"Retry-After": "3600"}, 1),
        (504, {}, 2),
    ):
        with local_server(lambda _, s=status, h=headers: Answer(s, {}, h)) as server, asking(server.url) as client:
            with pytest.raises(ObservationRefused):
                client.find_hints("r", query="q")
            assert len(server.asked) == n_asked, status


def stored(asked: Asked) -> Answer:
    return Answer(body={"accepted": len(asked.body["events"]), "rejected": []})


def test_a_report_waits_as_it_is_told_and_stays_the_same() -> None:
    """429 and 503 with Retry-After are sent again, byte for byte; a wait beyond the time is given to the caller."""
    refusals = [Answer(429, {}, {"Retry-After": "0"}), Answer(503, {}, {"Retry-After": "0.1"})]

    def answer(asked: Asked) -> Answer:
        return refusals[len(server.asked) - 1] if len(server.asked) <= 2 else stored(asked)

    with local_server(answer) as server, asking(server.url) as client:
        assert client.report_outcome(HINT, "helpful").result == "stored"
        assert client.report_outcome(HINT, "helpful").result == "stored"
    bodies = [asked.body for asked in server.asked]
    assert len(bodies) == 4 and all(body == bodies[0] for body in bodies)
    late = Answer(429, {"code": "over_quota"}, {"Retry-After": "3600"})
    with local_server(lambda _: late) as server, asking(server.url, strict=False) as client:
        report = client.report_used(HINT)
    assert (report.result, report.error, report.retry_after) == ("error", "429 over_quota", 3600.0)
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", {"rejected": 5}])
def test_an_answer_that_does_not_say_stored_is_none(body: Any) -> None:
    """A report counts as stored only when the server says what became of it."""
    with local_server(lambda _: Answer(body=body)) as server, asking(server.url, strict=False) as client:
        assert client.report_used(HINT).result == "error"


def test_a_rejected_report_says_why() -> None:
    """A 207 with the event in its list of rejects is no success."""
    rejected = {"accepted": 0, "rejected": [{"index": 0, "code": "gone_run", "detail": "the run was deleted"}]}
    with local_server(lambda _: Answer(207, rejected)) as server, asking(server.url, strict=False) as client:
        report = client.report_used(HINT)
    assert (report.result, report.error) == ("error", "207 gone_run the run was deleted")


def test_a_server_that_is_down_costs_the_agent_nothing() -> None:
    """Neither twin raises: a search and a report are results with a reason."""
    url = f"http://127.0.0.1:{free_port()}"
    with asking(url, strict=False) as client:
        found, report = client.find_hints("r", query="q"), client.report_used(HINT)
        batch = client.find_hints_batch([Ask("r"), Ask("r")])
    assert found.result == report.result == "error"
    assert found.error and report.error and found.text() == ""
    assert [one.result for one in batch] == ["error", "error"]


@pytest.mark.parametrize("fields", [{"query": 5}, {"entities": [b"x"]}, {"limit": {1}}, {"tool_result": None}])
def test_a_field_of_another_type_is_an_error_and_not_sent(fields: dict[str, Any]) -> None:
    """What a program gives by mistake stops no agent either, and is not repeated."""
    with local_server(lambda _: Answer(body={})) as server, asking(server.url, strict=False) as client:
        found = client.find_hints("r", **fields)
        assert found.result == "error" and "type" in found.error.lower()
    assert server.asked == []


def test_a_verdict_that_is_none_is_the_programs_fault() -> None:
    """The words of a verdict are three, and a typing error is said at once."""
    with local_server(stored) as server, asking(server.url, strict=False) as client:
        refused = pytest.raises(ValueError, match="helpful, harmful, neutral")
        with refused:
            client.report_outcome(HINT, "great")
    assert server.asked == []


async def test_cancelling_a_search_ends_it() -> None:
    """A cancelled search raises the cancellation and nothing else, and the client goes on."""
    answers: list[Answer] = [Answer(silent=True)]
    with local_server(lambda asked: answers.pop() if answers else Answer(body=good(asked))) as server:
        async with AsyncObservation(server.url, KEY, timeout=PATIENT) as client:
            search = asyncio.create_task(client.find_hints("r", query="q"))
            await server.until_asked()
            search.cancel()
            with pytest.raises(asyncio.CancelledError):
                await search
            assert (await client.find_hints("r", query="q")).result == "success"


def test_a_forked_child_and_a_forgotten_client_hang_nobody() -> None:
    """A child starts connections of its own, and a client that nobody closed does not hold up the end of a program."""
    program = (
        "import os, sys\n"
        "from knowledge.client.observation import Observation\n"
        "client = Observation(sys.argv[1], sys.argv[2], timeout=30)\n"
        "print(client.find_hints('r', query='q').result, flush=True)\n"
        "if os.fork() == 0:\n"
        "    print(client.find_hints('r', query='q').result, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    with local_server(lambda asked: Answer(body=good(asked))) as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, server.url, KEY],
            cwd=ROOT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("success\nsuccess\n", "", 0)


def test_the_client_needs_no_django() -> None:
    """Neither the client nor the MCP server imports Django, whose place a poisoned module takes here."""
    program = (
        "import sys\n"
        "for name in ('django', 'rest_framework', 'celery', 'psycopg'):\n"
        "    sys.modules[name] = None\n"
        "import knowledge.client.observation\n"
        "import knowledge.client.mcp_server\n"
        "print(sorted(n for n in sys.modules if n.split('.')[0] in ('kernel', 'ingest', 'debugger')))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


# ---- texts ------------------------------------------------------------------------------------------------


def test_a_long_text_keeps_both_ends_and_no_half_of_a_secret() -> None:
    """What is left out is counted, the limit is kept exactly, and a secret at the cut is gone whole."""
    for n in (4_097, 50_000, 3_000_000):
        text = "start " + "x" * n + " end"
        cut = bounded(text, 4_096)
        assert 4_000 < len(cut) <= 4_096 and cut.startswith("start x") and cut.endswith("x end")
        left_out = int(re.findall(r"\[(\d+) characters", cut)[0])
        assert len(cut.replace(f" … [{left_out} characters left out] … ", "")) + left_out == len(text)
    for place in range(1_990, 2_060):
        around = "word " * 2_000  # the cut of the start falls among these places
        assert "a1B2c3" not in bounded(around[:place] + f" {SECRET} " + around, 4_096)
    assert bounded("short", 4_096) == "short"


def test_what_a_tool_was_called_with_is_sent_bounded_and_clean() -> None:
    """Without secrets, with both its ends, and not at all when there is nothing or it quotes hints."""
    sent = ask_to_json(Ask("r", tool_arguments=f"curl -H 'token: {SECRET}' " + "x" * 5_000 + " end"), "a")
    text = sent["tool_arguments"]
    assert text.startswith("curl -H") and text.endswith(" end") and len(text) <= TOOL_ARGUMENTS_LIMIT
    assert "a1B2c3" not in text and "[REDACTED:" in text
    for nothing in ("", HINTS_READ, f"echo '{HINTS_READ}'", "x" * 100 + HINTS_READ + "x" * 9_000):
        assert "tool_arguments" not in ask_to_json(Ask("r", tool_arguments=nothing), "a")
    assert ask_to_json(Ask("r", tool_arguments='{"command": "ls"}'), "a")["tool_arguments"] == '{"command": "ls"}'


@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 30_000))
def test_any_text_fits_the_api(query: str, result: str, times: int) -> None:
    """Whatever an agent has to say is storable and within the limits."""
    body = ask_to_json(Ask("r", query=query * times, tool_result=result * times, tool_arguments=query * times), "a")
    assert len(body["query"]) <= QUERY_LIMIT and len(body["tool_result"]) <= TOOL_RESULT_LIMIT
    assert len(body.get("tool_arguments", "")) <= TOOL_ARGUMENTS_LIMIT
    json.dumps(body).encode()
    assert "\0" not in body["query"]
    body["query"].encode()


SIGNS = st.sampled_from(list("<>/＜‹ temporality.memoryмеТ\n\t\"'`\u200b\u2028-[]") + ["</temporality.memory>"])
RULES = st.lists(SIGNS, min_size=1, max_size=40).map("".join) | st.text(min_size=1, max_size=40)


@given(RULES, RULES, RULES, RULES)
def test_the_block_is_the_kernels(rule: str, caution: str, name: str, cause: str) -> None:
    """The same hints read the same, character by character, whoever puts them into the context."""
    ours = Hint("h", name, 1, rule, "confirmed", "r", name, (name, cause), caution)
    theirs = KernelHint("h", name, 1, rule, "confirmed", (name, cause), caution)
    text = Hints(name, "r", "tool.failed", "success", (ours,), cause=cause).text()
    assert text == render_hint_block("tool.failed", cause, name, [theirs])
    assert Hints(name, "r", "tool.failed", "empty", cause=cause).text() == ""


def test_the_block_says_what_it_was_found_for() -> None:
    """The first line names the failed call, the server or the question, and each hint stands with its caution."""
    answer = {"activation_id": "a", "hints": [good_hint("Run `git init`.", "not yet confirmed")]}
    found: Hints = parse_hints(Ask("r", "tool.failed", tool="shell", error_class="exit_nonzero"), "a", answer)
    text = found.text()
    assert text.startswith('<temporality.memory activation="a" trigger="tool.failed">\n')
    assert "found for a failed call of shell (exit_nonzero)." in text
    assert "- Run `git init`.\n  [confirmed] k\n  caution: not yet confirmed\n</temporality.memory>\n" in text
    for ask, cause in [
        (Ask("r", "mcp.first_call", mcp_server="git"), "the first use of the MCP server git"),
        (Ask("r", "task.priming"), "the task"),
        (Ask("r"), "your question"),
    ]:
        assert f"found for {cause}." in parse_hints(ask, "a", answer).text()


def good_hint(rule: str, caution: str) -> dict[str, Any]:
    base = {"hint_id": "h", "knowledge_id": "k", "revision": 1, "state": "confirmed"}
    return {**base, "proposition": rule, "caution": caution}
