"""Observation as an MCP server: real processes, the official client, the real application behind them."""

import asyncio
import os
import signal
import subprocess
from typing import Any

import httpx
import jsonschema
import pytest
from pytest_django.live_server_helper import LiveServer

from debugger.embedded.sockets import free_port
from ingest.authentication import create_key
from ingest.models import Event, Project
from knowledge.chains import refresh_run
from knowledge.client.mcp_http import Unsafe, is_loopback, parse_place, security_of
from knowledge.client.mcp_server import main
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.models import Activation, Candidate, HintAnswer, RunSummary
from tests.kernel.http_server import Answer, local_server
from tests.knowledge.mcp_run import (
    COMMAND,
    SECONDS,
    environment,
    find,
    found,
    over_http,
    over_stdio,
    refused,
    report,
    serving,
    settled,
    text_of,
)
from tests.source_rules import ROOT

KEY = "tk_0a1b2c3d_" + "Zz9-" * 8
ERROR = "fatal: not a git repository (or any of the parent directories): .git"
FAILED = {
    "tool": "shell",
    "tool_arguments": "git status",
    "tool_result": ERROR,
    "trigger": "tool.failed",
    "error_class": "exit_nonzero",
}
MODES = ["auto", "legacy"]  # the newest protocol, and the one with a handshake and sessions
NOWHERE = "http://127.0.0.1:9"
served = pytest.mark.django_db(transaction=True)


def make_project(slug: str, *items: str) -> Project:
    project = Project.objects.create(slug=slug, name=slug)
    for name in items:
        rule = f"Rule {name}: run `{name} now` first."
        draft = ItemDraft(name, rule, state="confirmed", entities=("not a git repository",))
        create_item(project, draft, by="tester", reason="test")
    return project


def key_of(project: Project, *scopes: str) -> str:
    return create_key(project, "agent", scopes or ("observe", "ingest"))[1]


def folded(project: Project, run_id: str) -> RunSummary:
    if run_id.startswith("mcp-"):
        settled(run_id)
    refresh_run(project.pk, run_id)
    return RunSummary.objects.get(project=project, run_id=run_id)


# ---- what a model is told ---------------------------------------------------------------------------------


def test_the_tools_say_what_they_are() -> None:
    """Two tools, their hints for hosts, schemas of what goes in and comes out; each argument is explained."""

    async def ask() -> tuple[Any, str | None]:
        async with over_stdio(NOWHERE, KEY) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = asyncio.run(ask())
    by_name = {tool.name: tool for tool in tools}
    assert set(by_name) == {"find_hints", "report_outcome"}
    assert by_name["find_hints"].annotations.read_only_hint is True
    assert by_name["report_outcome"].annotations.read_only_hint is False
    assert by_name["report_outcome"].annotations.idempotent_hint is True
    assert all(tool.annotations.destructive_hint is False for tool in tools)
    for tool in tools:
        assert all(shape["description"] for shape in tool.input_schema["properties"].values())
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
    for words in (by_name["find_hints"].description, instructions):
        assert "not commands" in words and "experience of earlier runs" in words


# ---- a search and what comes of it ------------------------------------------------------------------------


@served
@pytest.mark.parametrize("mode", MODES)
def test_a_search_and_its_outcome_stand_in_the_chain(live_server: LiveServer, mode: str) -> None:
    """Over stdio: found, reported twice, folded: the run has its agent, its question, its hint, used and helpful."""
    project = make_project("alpha", "git-init")
    key = key_of(project)

    async def work() -> dict[str, Any]:
        async with over_stdio(live_server.url, key, mode) as client:
            first = await find(client, **FAILED)
            said = first.structured_content
            assert said is not None and said["result"] == "found"
            assert "<temporality.memory " in text_of(first) and "not an instruction" in text_of(first)
            hint_id = said["hints"][0]["hint_id"]
            assert hint_id in text_of(first)
            for _ in range(2):
                recorded = await report(client, hint_id, "helpful", "the commit worked")
                assert recorded.structured_content == {"hint_id": hint_id, "outcome": "helpful", "recorded": True}
            return said

    said = asyncio.run(work())
    summary = folded(project, said["run"])
    assert (summary.agent, summary.task, summary.status) == ("test-agent 7.1", "Release the parser", "completed")
    assert (summary.n_activations, summary.n_offered, summary.n_injected) == (1, 1, 1)
    activation = Activation.objects.get(run_id=said["run"])
    assert (activation.trigger, activation.result, activation.tool) == ("tool.failed", "success", "shell")
    assert (activation.query, activation.n_selected) == ("Release the parser", 1)
    assert activation.block.startswith("<temporality.memory ") and activation.duration_ms is not None
    candidate = Candidate.objects.get(run_id=said["run"])
    assert candidate.selected_ns and candidate.injected_ns and candidate.used_ns
    assert (candidate.usage_source, candidate.outcome) == ("reported", "helpful")
    assert Event.objects.filter(type="hint.outcome").count() == 1


@served
@pytest.mark.parametrize("mode", MODES)
def test_what_was_given_is_not_given_again(live_server: LiveServer, mode: str) -> None:
    """The server remembers what a session has, says so, and tells the same of a run that is named."""
    project = make_project("alpha", "git-init", "git-other")
    key = key_of(project)

    async def work() -> list[Any]:
        async with over_stdio(live_server.url, key, mode) as client:
            first = await found(client, **FAILED, limit=1)
            second = await found(client, **FAILED)
            third = await find(client, **FAILED, run=first["run"])
            other = await found(client, **FAILED, run="r-of-the-agent")
            return [first, second, third, other]

    first, second, third, other = asyncio.run(work())
    settled(first["run"])
    given = [[hint["knowledge_id"] for hint in answer["hints"]] for answer in (first, second)]
    assert sorted(given[0] + given[1]) == ["git-init", "git-other"] and len(given[0]) == 1
    assert second["already_given"] == given[0]
    assert second["run"] == first["run"]
    said = third.structured_content
    assert (said["result"], sorted(said["already_given"])) == ("nothing_known", ["git-init", "git-other"])
    assert "Nothing new is known that fits" in text_of(third)
    assert (len(other["hints"]), other["run"]) == (2, "r-of-the-agent")
    # A run somebody else tells of is neither begun nor ended here.
    types = set(Event.objects.filter(run_id="r-of-the-agent").values_list("type", flat=True))
    assert "activation.requested" in types and not types & {"run.started", "run.completed"}


@served
def test_nothing_known_is_a_plain_answer(live_server: LiveServer) -> None:
    """No hint is no error, in words a model understands, and the run shows an empty search."""
    project = make_project("alpha", "git-init")
    key = key_of(project)

    async def work() -> Any:
        async with over_stdio(live_server.url, key) as client:
            return await find(client, query="quarterly weather")

    result = asyncio.run(work())
    assert not result.is_error and result.structured_content["hints"] == []
    assert "Nothing known fits" in text_of(result) and "temporality.memory" not in text_of(result)
    run_id = result.structured_content["run"]
    folded(project, run_id)
    assert Activation.objects.get(run_id=run_id).result == "empty"


@served
def test_decided_against_is_told(live_server: LiveServer) -> None:
    """not_used says ignored and gives no verdict."""
    project = make_project("alpha", "git-init")
    key = key_of(project)

    async def work() -> dict[str, Any]:
        async with over_stdio(live_server.url, key) as client:
            said = await found(client, **FAILED)
            await report(client, said["hints"][0]["hint_id"], "not_used", "wrong folder")
            return said

    run_id = asyncio.run(work())["run"]
    folded(project, run_id)
    candidate = Candidate.objects.get(run_id=run_id)
    assert candidate.ignored_ns and not candidate.used_ns and candidate.outcome == ""
    assert candidate.usage_source == "reported"


@served
def test_long_secret_and_strange_texts_are_taken(live_server: LiveServer) -> None:
    """Megabytes, secrets and every alphabet: the search goes well, and no secret is kept."""
    project = make_project("alpha", "git-init")
    key = key_of(project)
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"

    async def work() -> dict[str, Any]:
        async with over_stdio(live_server.url, key) as client:
            output = f"token={secret}\n" + "сборка \0 ✓ 漢字 😀\n" * 60_000 + ERROR
            said = await found(
                client,
                query=f"Собери 漢字 😀 with {secret}",
                tool="sh" * 500,
                tool_result=output,
                tool_arguments=f"curl -u ada:{secret} " * 99,
            )
            await report(client, said["hints"][0]["hint_id"], "neutral", f"{secret} é" * 1_000)
            return said

    said = asyncio.run(work())
    settled(said["run"])
    kept = repr(list(Event.objects.values())) + repr(list(HintAnswer.objects.values()))
    assert secret not in kept and "[REDACTED:" in kept and "Собери 漢字 😀" in kept
    assert said["hints"][0]["knowledge_id"] == "git-init"


# ---- what goes wrong --------------------------------------------------------------------------------------


@served
def test_wrong_arguments_and_keys_are_errors_of_the_tool(live_server: LiveServer) -> None:
    """Each says what to do, none ends the session, and none leaves anything behind."""
    project = make_project("alpha", "git-init")
    key = key_of(project)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"limit": 21}, "less than or equal to 20"),
        ({"trigger": "No Trigger"}, "trigger must be"),
        ({"run": "r" * 201}, "at most 200"),
        ({"run": "a\nb"}, "run must be"),
        ({"query": 5}, "valid string"),
    ]

    async def work() -> None:
        async with over_stdio(live_server.url, key) as client:
            for arguments, words in wrong:
                result = await find(client, **arguments)
                assert result.is_error and words in text_of(result), arguments
            unknown = await report(client, "mcp-0:s1:h1", "helpful")
            assert unknown.is_error and "copy it from an answer" in text_of(unknown)
            assert (await report(client, "x", "great")).is_error
        async with over_stdio(live_server.url, KEY) as client:
            result = await find(client, **FAILED)
            assert result.is_error and "refuses the key (401 " in text_of(result)
            assert KEY not in text_of(result)

    asyncio.run(work())
    assert not Event.objects.exists() and not HintAnswer.objects.exists()


@served
def test_a_key_that_may_only_ask_finds_and_is_told_so(live_server: LiveServer) -> None:
    """Telemetry that is refused withholds no hint; a report says that it was not recorded."""
    project = make_project("alpha", "git-init")
    key = key_of(project, "observe")

    async def work() -> Any:
        async with over_stdio(live_server.url, key) as client:
            hint_id = (await found(client, **FAILED))["hints"][0]["hint_id"]
            return await report(client, hint_id, "helpful")

    result = asyncio.run(work())
    assert result.is_error and "not recorded (403 " in text_of(result)
    assert set(Event.objects.values_list("type", flat=True)) == {"hint.query", "hint.offered"}


def test_a_server_that_is_down_costs_a_sentence() -> None:
    """The tool says to go on without hints; the session stays."""

    async def work() -> list[Any]:
        async with over_stdio(f"http://127.0.0.1:{free_port()}", KEY) as client:
            return [await find(client), await find(client)]

    for result in asyncio.run(work()):
        assert result.is_error and "go on without hints" in text_of(result)


def test_a_cancelled_search_leaves_the_session_whole() -> None:
    """A client that gives up on a search can ask again at once."""
    hint = {"hint_id": "h", "knowledge_id": "k", "revision": 1, "proposition": "p", "state": "confirmed"}
    slow = [Answer(silent=True)]

    def answer(asked: Any) -> Answer:
        if "hints" not in asked.path:
            return Answer(body={"rejected": []})
        return slow.pop() if slow else Answer(body={"activation_id": asked.body["activation_id"], "hints": [hint]})

    async def work() -> dict[str, Any]:
        with local_server(answer) as server:
            async with over_stdio(server.url, KEY) as client:
                search = asyncio.create_task(find(client))
                await server.until_asked()
                search.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await search
                return await found(client)

    assert asyncio.run(work())["hints"][0]["knowledge_id"] == "k"


# ---- over HTTP --------------------------------------------------------------------------------------------


@served
@pytest.mark.parametrize("mode", MODES)
def test_callers_over_http_act_in_their_own_projects(live_server: LiveServer, mode: str) -> None:
    """Two keys at one server, even under one run id: each finds, is remembered and reports in his own project."""
    alpha, beta = make_project("alpha", "git-init"), make_project("beta", "git-other")
    keys = [key_of(alpha), key_of(beta)]

    async def work(address: str) -> list[Any]:
        async with over_http(address, keys[0], mode) as one, over_http(address, keys[1], mode) as two:
            first, second = await asyncio.gather(found(one, **FAILED, run="r"), found(two, **FAILED, run="r"))
            hint_id = first["hints"][0]["hint_id"]
            stranger = await report(two, hint_id, "harmful")
            assert stranger.is_error and "no hint of that hint_id" in text_of(stranger)
            assert not (await report(one, hint_id, "helpful")).is_error
            return [first, second, await found(one, **FAILED, run="r")]

    with serving(live_server.url) as server:
        first, second, again = asyncio.run(work(server.address))
        said = server.end()
    assert [one["hints"][0]["knowledge_id"] for one in (first, second)] == ["git-init", "git-other"]
    assert (again["hints"], again["already_given"]) == ([], ["git-init"])
    assert all(key not in said for key in keys)
    outcomes = Event.objects.filter(type="hint.outcome").values_list("project__slug", "knowledge_id")
    assert list(outcomes) == [("alpha", "git-init")]
    assert folded(beta, "r").n_injected == 0


@served
@pytest.mark.parametrize("mode", MODES)
def test_a_run_over_http_begins_goes_on_and_ends(live_server: LiveServer, mode: str) -> None:
    """The run of the first answer, given back, goes on; told to end, the server ends its runs and leaves no process."""
    project = make_project("alpha", "git-init")
    key = key_of(project)

    async def work(address: str) -> list[dict[str, Any]]:
        async with over_http(address, key, mode) as client:
            first = await found(client, **FAILED)
            second = await found(client, **FAILED, run=first["run"])
            return [first, second, await found(client, **FAILED)]

    with serving(live_server.url) as server:
        first, second, unnamed = asyncio.run(work(server.address))
        server.end()
        assert server.process.returncode in (0, -signal.SIGTERM)
    assert second["already_given"] == ["git-init"] and second["run"] == first["run"]
    settled(unnamed["run"])
    # The protocol with sessions tells which run it is; the newest has none, and a search that names no run begins one.
    assert (unnamed["run"] == first["run"]) == (mode == "legacy")
    summary = folded(project, first["run"])
    assert (summary.agent, summary.status) == ("test-agent 7.1", "completed")
    assert summary.n_activations == (3 if mode == "legacy" else 2)


@served
def test_the_servers_own_key_serves_callers_without_one(live_server: LiveServer) -> None:
    """On this machine a caller needs no key; one that brings his own acts under that, and a wrong one under none."""
    alpha, beta = make_project("alpha", "git-init"), make_project("beta", "git-other")
    alphas, betas = key_of(alpha), key_of(beta)

    async def work(address: str) -> list[Any]:
        answers = []
        for key in ("", betas, KEY):
            async with over_http(address, key) as client:
                answers.append(await find(client, **FAILED))
        return answers

    with serving(live_server.url, alphas) as server:
        own, brought, wrong = asyncio.run(work(server.address))
        server.end()
    for answer in (own, brought):
        settled(answer.structured_content["run"])
    assert own.structured_content["hints"][0]["knowledge_id"] == "git-init"
    assert brought.structured_content["hints"][0]["knowledge_id"] == "git-other"
    assert wrong.is_error and "refuses the key" in text_of(wrong)


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
BEARER = {"Authorization": f"Bearer {KEY}"}


def test_who_is_not_let_in() -> None:
    """No key, a key of no form, another Host, another Origin, a body over the limit: each its status."""
    named = ("--allow-host", "hints.example:443")
    with serving(NOWHERE, "", *named) as server, httpx.Client(trust_env=False, timeout=SECONDS) as http:

        def status(headers: dict[str, str], **body: Any) -> int:
            accept = {"Accept": "application/json, text/event-stream"}
            return http.post(server.address, headers=accept | headers, **(body or {"json": LIST})).status_code

        assert status({}) == 401
        assert http.post(server.address, json=LIST).headers["www-authenticate"] == "Bearer"
        assert status({"Authorization": "Basic dXNlcjpwYXNz"}) == 401
        assert status({"Authorization": "Bearer a b"}) == 401
        assert status({**BEARER, "Host": "evil.example"}) == 421
        assert status({**BEARER, "Host": "hints.example:443", "Origin": "https://hints.example:443"}) not in (421, 403)
        assert status({**BEARER, "Origin": "https://evil.example"}) == 403
        assert status(BEARER, content=b'"' + b"a" * (2 * 1024 * 1024) + b'"') == 413
        assert server.process.poll() is None
        said = server.end()
    assert KEY not in said


def test_a_session_belongs_to_the_key_that_opened_it() -> None:
    """Another key with the session's id is told that there is no such session."""
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
    }  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream", **BEARER}
    with serving(NOWHERE) as server, httpx.Client(trust_env=False, timeout=SECONDS) as http:
        opened = http.post(server.address, json=hello, headers=headers)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        stranger = {**headers, **session, "Authorization": "Bearer tk_ffffffff_other"}
        assert http.post(server.address, json=LIST, headers=stranger).status_code == 404
        assert http.delete(server.address, headers={**headers, **session}).status_code == 200


@pytest.mark.parametrize(
    ("url", "key", "arguments", "words"),
    [
        (NOWHERE, KEY, ["--http", "0.0.0.0:0"], "unset it"),
        (NOWHERE, "", ["--http", "0.0.0.0:0"], "--allow-host"),
        (NOWHERE, "", ["--http", "8000"], "HOST:PORT"),
        ("", KEY, [], "TEMPORALITY_URL"),
        (NOWHERE, "", [], "TEMPORALITY_KEY"),
        ("http://me:hush-hush@x", KEY, [], "url must hold no user"),
        (NOWHERE, "hush hush", [], "key must be"),
    ],
)
def test_what_would_be_unsafe_does_not_start(
    capsys: pytest.CaptureFixture[str], url: str, key: str, arguments: list[str], words: str
) -> None:
    """A shared key beyond this machine, all interfaces without a name, no address, no key: the fix, and no secret."""
    assert main(arguments, {"TEMPORALITY_URL": url, "TEMPORALITY_KEY": key}) == 2
    said = capsys.readouterr()
    assert words in said.err and "hush" not in said.err and said.out == ""


def test_a_refused_start_is_an_exit_code() -> None:
    """What starts the process sees 2 and one line."""
    assert refused("", KEY).count("\n") == 1


def test_hosts_and_origins_that_are_let_in() -> None:
    """Of this machine its names, of another address its own and those that were named."""
    assert [parse_place(text) for text in ("127.0.0.1:1", "[::1]:80")] == [("127.0.0.1", 1), ("::1", 80)]
    assert [is_loopback(host) for host in ("127.0.0.9", "::1", "localhost", "10.0.0.1", "example")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    outside = security_of("10.0.0.1", 8765, ["hints.example:443"])
    assert outside.allowed_hosts == ["10.0.0.1:8765", "hints.example:443"]
    assert "https://hints.example:443" in outside.allowed_origins and outside.enable_dns_rebinding_protection
    with pytest.raises(Unsafe):
        security_of("::", 8765, [])


# ---- processes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["stdin", "sigterm"])
def test_a_server_over_stdio_ends_with_its_client(way: str) -> None:
    """When its input ends, or when it is told to, the process is gone."""
    process = subprocess.Popen(
        COMMAND, env=environment(NOWHERE, KEY), cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert process.stdout.readline()
    if way == "sigterm":
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    process.communicate(timeout=SECONDS)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
