"""Answering a waiting run from its page: a real run on Temporal, two people at once, strangers, lookers-on, losses."""

import asyncio
import re
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.http import HttpResponse
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from temporalio.client import Client

from debugger.embedded.sockets import free_port
from debugger.kernel_client import (
    AT_ONCE,
    Answer,
    NoAnswer,
    NotDrivenHere,
    NotWaiting,
    RunAddress,
    answer,
    look,
    read_asks,
)
from debugger.launching import LaunchError, Runtime, start_run
from debugger.queries.waiting import read_written
from ingest.models import Project
from kernel.messages import Limits, Member, RunSpec, Switches
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.factories import Recorder, make_person, make_project, send, typical_run
from tests.kernel_worker import KernelWorker, kernel_worker

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
SPEC = RunSpec(run_id="drive", task="Release the parser package", switches=Switches(off=("task.priming",)))
DEPLOY = replace(SPEC, approval_tools=("deploy",))
ASKING = replace(SPEC, tools=("ask_human",))
FOR_EVER_SECONDS = 60  # far past every limit of ours: what takes so long hangs
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@dataclass(frozen=True)
class World:
    """Project alpha with alice and bob, vera who may only look, and charlie of project gamma."""

    project: Project
    people: dict[str, User]

    def client(self, person: str = "alice") -> Browser:
        client = Browser()
        if person != "anonymous":
            client.force_login(self.people[person])
        return client


@pytest.fixture
def world() -> World:
    alpha, gamma = make_project("alpha"), make_project("gamma")
    people = {name: make_person(name, alpha) for name in ("alice", "bob", "vera")}
    people["vera"].groups.add(Group.objects.create(name="alpha viewers"))
    people["charlie"] = make_person("charlie", gamma)
    return World(alpha, people)


@pytest.fixture
def kernel(temporal_address: str, settings: Any) -> Iterator[KernelWorker]:
    """A worker whose model first calls `deploy`; the pages know its Temporal."""
    model = ScriptedModel([call("deploy", target="prod")], "done")
    settings.TEMPORAL_ADDRESS = temporal_address
    with kernel_worker(temporal_address, MemoryEdges(model, {"deploy": lambda target: "deployed"})) as worker:
        yield worker


@dataclass(frozen=True)
class Waiting:
    """A run that waits for the approval of `deploy`, known to project alpha up to there."""

    world: World
    kernel: KernelWorker
    run_id: str
    key: str

    def get(self, person: str = "alice", **asked: Any) -> Any:
        headers = HTMX if asked.pop("htmx", True) else {}
        return self.world.client(person).get(self.address("run-waiting"), asked, headers=headers)

    def post(self, person: str = "alice", name: str = "run-answer", *, htmx: bool = True, **form: str) -> Any:
        whole = {"ask": self.key, "kind": "approval", "call_id": "c1", "decision": "approve", **form}
        return self.world.client(person).post(self.address(name), whole, headers=HTMX if htmx else {})

    def address(self, name: str) -> str:
        return reverse(name, args=["alpha", self.run_id])

    def is_waiting(self) -> bool:
        return [ask.key for ask in self.kernel.asks(self.run_id, "alpha")] == [self.key]

    @property
    def decided(self) -> list[dict[str, Any]]:
        return self.kernel.edges.data_of("approval.decided")


@pytest.fixture
def waiting(world: World, kernel: KernelWorker) -> Waiting:
    run_id = kernel.start(DEPLOY, "alpha")
    [ask] = kernel.await_asks(run_id, "alpha")
    kernel.report(world.project, run_id, "run.started")
    to = Recorder(run_id)
    to.foreign(f"{run_id}:asked", "approval.requested", {"question": "Run deploy?"}, call_id="c1", tool="deploy")
    send(world.project, to.events)
    return Waiting(world, kernel, run_id, ask.key)


def text(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def test_a_call_is_approved_from_the_page(waiting: Waiting) -> None:
    """The page names the call, its arguments and since when; Approve lets it run, and the timeline says who it was."""
    page = waiting.world.client().get(waiting.address("run-detail")).content.decode()
    assert f'hx-get="{waiting.address("run-waiting")}"' in page
    panel = waiting.get()
    assert panel.status_code == 200
    assert "Waiting for you" in text(panel)
    assert "deploy" in text(panel)
    assert "{&quot;target&quot;: &quot;prod&quot;}" in panel.content.decode()
    assert re.search(r"since <time datetime=", panel.content.decode())
    assert "?event=" in panel.content.decode()
    told = waiting.post(text="go on")
    assert told.status_code == 200
    assert "You approved it" in text(told)
    assert waiting.kernel.await_end(waiting.run_id) == "completed"
    assert waiting.kernel.edges.executed == [("deploy", {"target": "prod"})]
    assert waiting.decided == [{"approved": True, "by": "alice", "note": "go on"}]
    waiting.kernel.report(waiting.world.project, waiting.run_id, "run.completed")
    assert "approved by alice" in text(waiting.world.client().get(waiting.address("run-detail")))


def test_a_call_is_denied_from_the_page(waiting: Waiting) -> None:
    """Deny with a note: nothing is executed, and the note reaches the model."""
    assert "You denied it" in text(waiting.post(decision="deny", text="not on a Friday"))
    assert waiting.kernel.await_end(waiting.run_id) == "completed"
    assert waiting.kernel.edges.executed == []
    assert waiting.decided == [{"approved": False, "by": "alice", "note": "not on a Friday"}]
    assert "not on a Friday" in waiting.kernel.edges.model.requests[-1][-1].text


def test_a_question_is_answered_from_the_page(world: World, kernel: KernelWorker) -> None:
    """The question stands in the panel; the answer is what the model reads next."""
    kernel.replies([call("ask_human", question="Which branch?\nmain or next?")], "done")
    run_id = kernel.start(ASKING, "alpha")
    [ask] = kernel.await_asks(run_id, "alpha")
    kernel.report(world.project, run_id, "run.started")
    run = Waiting(world, kernel, run_id, ask.key)
    assert "Question" in text(run.get())
    assert "Which branch?\nmain or next?" in run.get().content.decode()
    form = {"kind": "question", "decision": "", "call_id": ask.call_id}
    assert "nothing is written yet" in text(run.post(text="  ", **form))
    assert "You answered" in text(run.post(text="next,\r\nplease", **form))
    assert kernel.await_end(run_id) == "completed"
    assert "Yours was not sent" in text(run.post("bob", text="main", **form))
    assert "next,\nplease" in kernel.edges.model.requests[-1][-1].text
    kernel.report(world.project, run_id, "run.completed")
    assert "next, please" in text(world.client().get(run.address("run-detail")))


def test_two_people_at_once_and_one_person_twice(waiting: Waiting) -> None:
    """The first answer counts: the second person is told who was faster, with their words. A double click is fine."""
    waiting.post(text="yes")
    waiting.kernel.await_end(waiting.run_id)
    again = waiting.post(text="yes")
    assert "You approved it" in text(again)
    late = waiting.post("bob", decision="deny", text="better not")
    assert "The run has ended. Yours was not sent." in text(late)
    assert "better not" in text(late)
    waiting.kernel.report(waiting.world.project, waiting.run_id, "run.completed")
    late = waiting.post("bob", htmx=False, decision="deny", text="better not")
    assert late.status_code == 409
    assert "Already answered by alice" in text(late)
    assert waiting.decided == [{"approved": True, "by": "alice", "note": "yes"}]


def test_what_was_not_seen_is_not_approved(world: World, kernel: KernelWorker) -> None:
    """A model may use a call id again: an answer to the first call is none to the second, whose arguments differ."""
    calls = [[call("deploy", "same", target=target)] for target in ("test", "prod")]
    kernel.replies(*calls, "done")
    run_id = kernel.start(DEPLOY, "alpha")
    [first] = kernel.await_asks(run_id, "alpha")
    kernel.report(world.project, run_id, "run.started")
    run = Waiting(world, kernel, run_id, first.key)
    run.post(call_id=first.call_id)
    [second] = kernel.await_asks(run_id, "alpha", besides=first)
    assert run.post("bob", htmx=False, call_id=first.call_id).status_code == 409
    assert kernel.asks(run_id, "alpha") == (second,)
    assert '"prod"' in second.text
    assert kernel.edges.executed == [("deploy", {"target": "test"})]


def test_secrets_do_not_reach_the_run(waiting: Waiting) -> None:
    """A person's text is cleaned before it is sent, since a run's history keeps all it got; the page says so."""
    told = waiting.post(text=f"use {SECRET} for it")
    assert "1 secret was removed from your text before it was sent" in text(told)
    waiting.kernel.await_end(waiting.run_id)
    [decided] = waiting.decided
    assert decided["note"].startswith("use [REDACTED:")
    assert SECRET not in asyncio.run(history(waiting))


async def history(waiting: Waiting) -> str:
    client = await Client.connect(waiting.kernel.runtime.address)
    return (await client.get_workflow_handle(waiting.run_id).fetch_history()).to_json()


def test_a_long_note_is_refused_and_kept(waiting: Waiting) -> None:
    """The error names the field, the limit and the fix; the form stays as it is, and nothing was sent."""
    told = waiting.post(text="n" * 1_001)
    assert "Note: it has 1,001 characters; at most 1,000 can be sent. Shorten it by 1." in text(told)
    assert told.headers["HX-Retarget"] == f"#said-{waiting.key}"
    assert told.headers["HX-Reswap"] == "innerHTML"
    page = waiting.post(htmx=False, text="n" * 1_001)
    assert page.status_code == 400
    assert "n" * 1_001 in page.content.decode()
    assert waiting.is_waiting()


@pytest.mark.parametrize(
    ("given", "sent", "error"),
    [
        ("a\r\nb\x00 ", "a\nb", ""),
        ("😀" * 10, "😀" * 10, ""),
        ("😀" * 11, "", "Answer: it has 11 characters; at most 10 can be sent. Shorten it by 1."),
        (" \n", "", "Answer: nothing is written yet. Write something."),
        (f"x {SECRET}", "", "Answer: it has 42 characters; at most 10 can be sent. Shorten it by 32."),
    ],
)
def test_what_is_written_is_measured_in_characters(given: str, sent: str, error: str) -> None:
    """A character is a code point, line ends are one, and an error sends nothing."""
    written = read_written(given, "Answer", 10, is_required=True)
    assert (written.text, written.error) == (sent, error)


def test_a_marker_that_is_longer_than_its_secret_counts() -> None:
    """What is sent keeps the limit as well: the kernel would cut it without a word."""
    written = read_written("password=hunter2hunter2", "Note", 24)
    assert written.n_removed == 1
    assert "without its secrets" in written.error
    assert written.text == ""


def test_the_run_is_cancelled_from_the_page(waiting: Waiting) -> None:
    """With a reason and by whom; asking twice changes nothing; afterwards there is nothing to follow."""
    assert "Cancel the run" in text(waiting.get())
    told = waiting.post(name="run-cancel", ask="cancel", text="wrong target")
    assert "You cancelled the run" in text(told)
    assert 'id="ask-cancel"' in told.content.decode()
    assert waiting.kernel.await_end(waiting.run_id) == "cancelled"
    assert "had ended already" in text(waiting.post(name="run-cancel", ask="cancel"))
    [ended] = waiting.kernel.edges.data_of("run.cancelled")
    assert ended["reason"] == "by alice: wrong target"
    assert waiting.kernel.edges.executed == []
    over = waiting.get(state="known", shown=waiting.key)
    assert over.status_code == 286
    assert "The run has ended" in text(over)
    waiting.kernel.report(waiting.world.project, waiting.run_id, "run.cancelled")
    assert 'id="waiting"' not in waiting.world.client().get(waiting.address("run-detail")).content.decode()


def test_a_page_that_is_true_is_left_alone(waiting: Waiting) -> None:
    """204 while what is shown waits; what is gone is replaced, what is new is added, what stays is not drawn again."""
    drawn = waiting.get().content.decode()
    state = re.search(r'\?state=([^"]*)"', drawn)
    assert state is not None
    assert state[1] == "known"
    assert waiting.get(state="known", shown=["", waiting.key]).status_code == 204
    gone = "0" * 24
    changed = waiting.get(state="known", shown=[waiting.key, gone]).content.decode()
    assert f'id="ask-{gone}" hx-swap-oob="true"' in changed
    assert f'id="ask-{waiting.key}"' not in changed
    added = waiting.get(state="known").content.decode()
    assert 'hx-swap-oob="beforeend:#asks"' in added
    assert f'id="ask-{waiting.key}"' in added
    back = waiting.get(state="away")
    assert back.headers["HX-Retarget"] == "#waiting"
    assert "Cancel the run" in text(back)
    assert "<html" not in drawn + changed + added


def test_a_looker_on_sees_and_does_not_act(waiting: Waiting) -> None:
    """A person of the project's viewers gets no form, and a POST is refused with its reason."""
    panel = waiting.get("vera")
    assert "deploy" in text(panel)
    assert "Waiting for a member who may answer" in text(panel) and "for you" not in text(panel)
    assert "<form" not in panel.content.decode()
    for name in ("run-answer", "run-cancel"):
        for htmx in (True, False):
            refused = waiting.post("vera", name, htmx=htmx)
            assert refused.status_code == 403
            assert "You may look at the runs of alpha, not answer for them or cancel them" in text(refused)
    assert waiting.is_waiting()


@pytest.mark.parametrize("name", ["run-waiting", "run-answer", "run-cancel"])
def test_others_do_not_get_there(waiting: Waiting, name: str) -> None:
    """Anonymous: to the sign-in page. A stranger, and an id of nothing: 404. The run waits on."""
    method = "get" if name == "run-waiting" else "post"
    address = waiting.address(name)
    unsigned = getattr(waiting.world.client("anonymous"), method)
    assert unsigned(address).headers["Location"].startswith("/sign-in/")
    assert unsigned(address, headers=HTMX).headers["HX-Redirect"] == "/sign-in/"
    assert getattr(waiting.world.client("charlie"), method)(address).status_code == 404
    for bad in ("r-0", "%00", "x" * 300):
        assert getattr(waiting.world.client(), method)(address.replace(waiting.run_id, bad)).status_code == 404
    wrong = "post" if method == "get" else "get"
    assert getattr(waiting.world.client(), wrong)(address).status_code == 405
    assert waiting.is_waiting()


def test_acting_takes_a_token(waiting: Waiting) -> None:
    """Another site cannot answer in a person's name."""
    client = Browser(enforce_csrf_checks=True)
    client.force_login(waiting.world.people["alice"])
    form = {"ask": waiting.key, "kind": "approval", "decision": "approve"}
    assert client.post(waiting.address("run-answer"), form).status_code == 403
    assert client.post(waiting.address("run-cancel")).status_code == 403
    assert waiting.is_waiting()


@pytest.mark.parametrize(
    "form", [{"decision": "maybe"}, {"kind": "wish"}, {"ask": "#x, body"}, {"kind": "question", "text": "hi"}]
)
def test_a_form_that_is_not_ours_does_nothing(waiting: Waiting, form: dict[str, str]) -> None:
    """An unknown decision, kind or key is refused; so is the answer to a question where an approval waits."""
    told = waiting.post(htmx=False, **form)
    assert told.status_code in (400, 409)
    assert "HX-Retarget" not in waiting.post(**form).headers
    assert waiting.is_waiting()


def test_looking_writes_nothing(waiting: Waiting) -> None:
    """A GET of the panel only reads, and few times."""
    client = waiting.world.client()
    with CaptureQueriesContext(connection) as queries:
        assert client.get(waiting.address("run-waiting"), headers=HTMX).status_code == 200
    assert [query["sql"] for query in queries if not query["sql"].startswith("SELECT")] == []
    assert len(queries) <= 7


def test_a_run_of_the_same_id_in_another_project_is_out_of_reach(waiting: Waiting) -> None:
    """Run ids are their senders' words: whoever sends telemetry under the id of somebody's run cannot answer it."""
    gamma = make_project("gamma")
    to = Recorder(waiting.run_id)
    to.add("run.started", {"task": "mine"})
    send(gamma, to.events)
    charlie = waiting.world.client("charlie")
    address = reverse("run-waiting", args=["gamma", waiting.run_id])
    assert charlie.get(address, headers=HTMX).status_code == 286
    assert charlie.get(address, headers=HTMX).content == b""
    assert b"deploy" not in charlie.get(address).content
    form = {"ask": waiting.key, "kind": "approval", "call_id": "c1", "decision": "approve"}
    assert charlie.post(reverse("run-answer", args=["gamma", waiting.run_id]), form).status_code == 404
    assert charlie.post(reverse("run-cancel", args=["gamma", waiting.run_id]), {}).status_code == 404
    assert waiting.is_waiting()
    with pytest.raises(LaunchError, match="is taken: give another one"):
        start_run(waiting.kernel.runtime, {"run_id": waiting.run_id}, "gamma")
    assert waiting.is_waiting()


def test_a_run_that_nobody_here_executes_has_no_panel(world: World, kernel: KernelWorker) -> None:
    """Telemetry from elsewhere: the page goes away quietly, and as a page of its own says why."""
    send(world.project, typical_run("elsewhere", ended=False))
    address = reverse("run-waiting", args=["alpha", "elsewhere"])
    empty = world.client().get(address, headers=HTMX)
    assert (empty.status_code, empty.content) == (286, b"")
    assert "No run of this project is executed under this id" in text(world.client().get(address))


def test_a_delegate_belongs_to_the_project_of_its_team(world: World, kernel: KernelWorker) -> None:
    """A child run was not started by us: it has the project of the run that delegated to it, and nobody else's."""
    kernel.replies([call("delegate", member="builder", task="Deploy it")], [call("deploy", target="prod")], "done")
    team = replace(DEPLOY, tools=("delegate",), members=(Member("builder"),))
    run_id = kernel.start(team, "alpha")
    [ask] = kernel.await_asks(f"{run_id}.1", "alpha")
    with pytest.raises(NotDrivenHere):
        kernel.asks(f"{run_id}.1", "gamma")
    kernel.report(world.project, f"{run_id}.1", "run.started")
    assert "You approved it" in text(Waiting(world, kernel, f"{run_id}.1", ask.key).post(call_id=ask.call_id))
    assert kernel.await_end(run_id) == "completed"
    assert kernel.edges.executed == [("deploy", {"target": "prod"})]


def test_a_continued_run_stays_in_its_project(world: World, kernel: KernelWorker) -> None:
    """After continue-as-new the run is answered as before."""
    kernel.replies([call("deploy", target="test")], [call("deploy", target="prod")], "done")
    run_id = kernel.start(replace(DEPLOY, limits=Limits(turns_per_workflow=1)), "alpha")
    ask = None
    for _ in range(2):
        [ask] = kernel.await_asks(run_id, "alpha", besides=ask)
        kernel.report(world.project, run_id, "run.started")
        assert "You approved it" in text(Waiting(world, kernel, run_id, ask.key).post(call_id=ask.call_id))
    assert kernel.await_end(run_id) == "completed"
    assert [arguments["target"] for _, arguments in kernel.edges.executed] == ["test", "prod"]
    assert kernel.edges.event_types().count("run.continued") == 2


def test_temporal_that_is_away_is_said(world: World, settings: Any) -> None:
    """The run page comes at once; the panel says what is wrong, goes on asking slowly and keeps what it shows."""
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"
    send(world.project, typical_run("r-1", ended=False))
    client = world.client()
    assert client.get(reverse("run-detail", args=["alpha", "r-1"])).status_code == 200
    address = reverse("run-waiting", args=["alpha", "r-1"])
    panel = client.get(address, headers=HTMX)
    assert panel.status_code == 200
    assert f"Temporal at {settings.TEMPORAL_ADDRESS} does not answer" in text(panel)
    assert 'hx-trigger="every 10s' in panel.content.decode()
    assert "Cancel the run" not in text(panel)
    key = "1" * 24
    update = client.get(address, {"state": "known", "shown": key}, headers=HTMX).content.decode()
    assert "does not answer" in update
    assert f"ask-{key}" not in update
    form = {"ask": key, "kind": "approval", "decision": "approve", "text": "my words"}
    told = client.post(reverse("run-answer", args=["alpha", "r-1"]), form)
    assert told.status_code == 503
    assert "sending it again does no harm" in text(told)
    assert "my words" in text(told)
    assert client.post(reverse("run-cancel", args=["alpha", "r-1"])).status_code == 503


def test_temporal_that_hangs_costs_two_seconds_and_few_threads() -> None:
    """A server that takes a connection and never speaks is given up on; only a few wait for it at once."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(50)
        runtime = Runtime(f"127.0.0.1:{deaf.getsockname()[1]}", "default", "queue")
        begun = time.monotonic()
        problems = asyncio.run(looks(runtime, AT_ONCE + 2))
        assert time.monotonic() - begun < FOR_EVER_SECONDS
    assert sum("does not answer" in problem for problem in problems) == AT_ONCE
    assert sum("Too many" in problem for problem in problems) == 2


async def looks(runtime: Runtime, n: int) -> list[str]:
    def one() -> str:
        try:
            return repr(look(runtime, RunAddress("alpha", "r-1")))
        except NoAnswer as error:
            return str(error)

    return await asyncio.gather(*(asyncio.to_thread(one) for _ in range(n)))


def test_a_worker_that_is_away_is_said(world: World, temporal_address: str, settings: Any) -> None:
    """Temporal knows the run and nobody executes it: the panel says so after two seconds; cancelling is still taken."""
    settings.TEMPORAL_ADDRESS = temporal_address
    runtime = Runtime(temporal_address, "default", f"queue-{uuid.uuid4().hex}")
    run_id = start_run(runtime, {"run_id": f"r-{uuid.uuid4().hex}", "task": "t"}, "alpha")
    to = Recorder(run_id)
    to.add("run.started", {"task": "t"})
    send(world.project, to.events)
    begun = time.monotonic()
    panel = world.client().get(reverse("run-waiting", args=["alpha", run_id]), headers=HTMX)
    assert time.monotonic() - begun < FOR_EVER_SECONDS
    assert "its worker may be down" in text(panel)
    assert "Cancel the run" in text(panel)
    told = world.client().post(reverse("run-cancel", args=["alpha", run_id]))
    assert told.status_code == 200
    assert "You cancelled the run" in text(told)


def test_ids_of_any_shape_are_driven(world: World, kernel: KernelWorker) -> None:
    """A slash, a percent sign, spaces and other scripts in a run id lead to that run."""
    for odd in ("a/b", "50%", "ночь 1"):
        kernel.replies([call("deploy", target="prod")], "done")
        run_id = kernel.start(replace(DEPLOY, run_id=odd), "alpha")
        [ask] = kernel.await_asks(run_id, "alpha")
        kernel.report(world.project, run_id, "run.started")
        assert "You approved it" in text(Waiting(world, kernel, run_id, ask.key).post(call_id=ask.call_id))
        assert kernel.await_end(run_id) == "completed"


def test_hostile_text_is_shown_and_never_run(world: World, kernel: KernelWorker) -> None:
    """Markup and characters that turn a line around come out as what they are."""
    hostile = "<script>alert(1)</script>\u202egnp.exe"
    kernel.replies([call("deploy", target=hostile)], "done")
    run_id = kernel.start(DEPLOY, "alpha")
    [ask] = kernel.await_asks(run_id, "alpha")
    kernel.report(world.project, run_id, "run.started")
    body = Waiting(world, kernel, run_id, ask.key).get().content.decode()
    assert "&lt;script&gt;alert(1)" in body
    assert "<script>alert" not in body
    assert "\u202e" not in body
    assert "\\u202egnp.exe" in body


def test_what_a_run_says_badly_is_left_out() -> None:
    """An answer to the query that is not of the known form shows what of it is."""
    asks = read_asks(
        {
            "turn": None,
            "pending_approvals": [{"call_id": "c1"}, "x", {"call_id": 7}, {"tool": "t"}],
            "pending_questions": [{"call_id": "c1", "question": "Which?", "timeout_ms": 5}],
        }
    )
    assert [(ask.kind, ask.call_id, ask.text, ask.timeout_ms) for ask in asks] == [
        ("approval", "c1", "", 0),
        ("question", "c1", "Which?", 5),
    ]
    assert len({ask.key for ask in asks}) == 2
    assert read_asks({"pending_approvals": None}) == ()


def test_answers_to_nothing_are_refused(waiting: Waiting) -> None:
    """A key of nothing, and a key with the wrong kind, answer nothing."""
    address = RunAddress("alpha", waiting.run_id)
    for key, kind in (("0" * 24, "approval"), (waiting.key, "question")):
        with pytest.raises(NotWaiting):
            answer(waiting.kernel.runtime, address, key, Answer(kind, "ada", "x", approved=True))
    assert waiting.is_waiting()
