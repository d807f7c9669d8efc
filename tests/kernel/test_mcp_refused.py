"""MCP servers that cannot be used: configured wrongly, out of reach, without trust or token; and where a token goes."""

import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from debugger.embedded.sockets import free_port
from kernel.edge.activities import Activities
from kernel.edge.observation_client import ObservationClient
from kernel.edge.telemetry_client import TelemetryClient
from kernel.edge.transcript import MemoryTranscript
from kernel.messages import McpServer, Message, PrepareRun, RunSpec, RunTool, ToolCall
from kernel.tools.mcp_config import server_problem
from kernel.tools.mcp_servers import McpSessions
from kernel.tools.registry import Toolbox
from tests.kernel.mcp_http_run import LIMITS, Server, call, outcome, prepare, running

TOKEN = "tk-3fA9.secret_Value~77/xy=="


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with nothing wrong, which no test kills."""
    with running(tmp_path_factory.mktemp("good")) as server:
        yield server


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    made = Toolbox(tmp_path / "work", sessions=McpSessions(LIMITS))
    yield made
    await made.close()


def write_certificate(folder: Path) -> None:
    """Write a certificate for 127.0.0.1 that nobody has a reason to trust, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    built = built.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    pem = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "certificate.pem").write_bytes(pem)
    plain = serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(text)


async def test_a_certificate_nobody_vouches_for_is_refused(
    tmp_path: Path, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS that cannot be verified ends the connection before a request, and so a token, is sent."""
    monkeypatch.setenv("ODD_TOKEN", TOKEN)
    (tmp_path / "server").mkdir()
    write_certificate(tmp_path / "server")
    with running(tmp_path / "server", "https") as server:
        url = f"https://127.0.0.1:{server.port}/mcp"
        prepared = await prepare(toolbox, McpServer("odd", url=url, token_env="ODD_TOKEN"))
        [(key, why)] = prepared.failed_servers
        assert key == "odd" and "certificate verify failed" in why.lower()
        assert server.noted("requests") == []


async def test_servers_that_do_not_start_cost_only_themselves(good: Server, toolbox: Toolbox) -> None:
    """Nobody listening, no TLS, no MCP at the path: each is reported under its key, and the rest is usable."""
    refused = McpServer("refused", url=f"http://127.0.0.1:{free_port()}/mcp")
    no_tls = McpServer("no_tls", url=f"https://127.0.0.1:{good.port}/mcp")
    no_mcp = McpServer("no_mcp", url=f"http://127.0.0.1:{good.port}/other")
    prepared = await prepare(toolbox, refused, no_tls, no_mcp, good.config)
    why = dict(prepared.failed_servers)
    assert list(why) == ["refused", "no_tls", "no_mcp"]
    assert "connect" in why["refused"].lower()
    assert "ssl" in why["no_tls"].lower()
    assert "HTTP 404" in why["no_mcp"]
    assert (await call(toolbox, prepared, "look")).status == "ok"


async def test_a_server_that_hangs_at_the_start_is_given_up(tmp_path: Path) -> None:
    """A listener that never answers costs the time to start, no more."""
    toolbox = Toolbox(tmp_path, sessions=McpSessions(replace(LIMITS, start_seconds=1)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        prepared = await prepare(toolbox, McpServer("mute", url=url))
    assert prepared.failed_servers == (("mute", "no answer to the first request in time"),)
    await toolbox.close()


@pytest.mark.parametrize(
    ("server", "field", "fix"),
    [
        (McpServer("a"), "neither `command` nor `url`", "give"),
        (McpServer("a", "run", url="http://h/mcp"), "both `command` and `url`", "keep"),
        (McpServer(" ", "run"), "`key`", "give"),
        (McpServer("a", url="ftp://h/mcp"), "`url`", "write http"),
        (McpServer("a", url="http://"), "`url`", "write http"),
        (McpServer("a", url="http://[h/mcp"), "`url`", "write http"),
        (McpServer("a", url="http://h:x/mcp"), "`url`", "write http"),
        (McpServer("a", url="http://h/m cp"), "`url`", "write http"),
        (McpServer("a", url="https://ada:s3cr3t-Pw@h/mcp"), "`url`", "`token_env`"),
        (McpServer("a", url="https://s3cr3t-Pw@h/mcp"), "`url`", "`token_env`"),
        (McpServer("a", url="https://h/mcp?api_key=s3cr3t-Pw8831kd"), "`url`", "`token_env`"),
        (McpServer("a", "run", token_env="ODD_TOKEN"), "`token_env`", "remove"),
        (McpServer("a", url="http://h/mcp", args=("x",)), "`args`", "remove"),
        (McpServer("a", url="http://h/mcp", token_env="s3cr3t-Pw"), "`token_env`", "put the name"),
        (McpServer("a", url="http://h/mcp", token_env="TEMPORALITY_API_KEY"), "`token_env`", "use another"),
    ],
)
def test_a_wrong_configuration_is_named(server: McpServer, field: str, fix: str) -> None:
    """The key, the field and the fix are named; what could be a secret is not repeated."""
    problem = server_problem(server)
    assert problem.startswith(f"MCP server {server.key!r}: ")
    assert field in problem and fix in problem
    assert "s3cr3t" not in problem


@pytest.mark.parametrize(
    "server",
    [
        McpServer("a", "run", ("--x",)),
        McpServer("a", url="http://127.0.0.1:8000/mcp"),
        McpServer("a", url="https://h.example/mcp?team=blue", token_env="ODD_TOKEN"),
    ],
)
def test_a_right_configuration_has_no_problem(server: McpServer) -> None:
    """A program with arguments, an address with a port, one with a harmless query and a token's name."""
    assert server_problem(server) == ""


async def test_a_run_goes_on_without_what_is_configured_wrong(
    good: Server, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparation reports wrong, tokenless and double servers by key, sends nothing for them and lists the good one."""
    monkeypatch.delenv("ODD_TOKEN", raising=False)
    monkeypatch.setenv("ODD_BAD_TOKEN", "not a token: s3cr3t\n")
    before = len(good.noted("requests"))
    neither = McpServer("neither")
    unset = McpServer("unset", url=good.config.url, token_env="ODD_TOKEN")
    bad = McpServer("bad", url=good.config.url, token_env="ODD_BAD_TOKEN")
    prepared = await prepare(toolbox, neither, unset, bad)
    assert len(good.noted("requests")) == before
    why = dict(prepared.failed_servers)
    assert "neither `command` nor `url`" in why["neither"]
    assert "ODD_TOKEN" in why["unset"] and "not set" in why["unset"]
    assert "ODD_BAD_TOKEN" in why["bad"] and "s3cr3t" not in why["bad"]

    double = replace(good.config, url=good.config.url + "?second=1")
    prepared = await prepare(toolbox, good.config, double)
    [(key, twice)] = prepared.failed_servers
    assert key == "odd" and "`key`" in twice
    assert (await call(toolbox, prepared, "look")).status == "ok"


async def test_the_token_is_sent_and_found_nowhere(
    tmp_path: Path, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server gets it; results, errors, the catalogue and the logs do not, though the server repeats it."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ODD_TOKEN", TOKEN)
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "token").write_text(TOKEN)
    with running(folder, "legacy") as server:
        config = replace(server.config, token_env="ODD_TOKEN")
        without = await prepare(toolbox, server.config, run_id="without")
        [(_, why)] = without.failed_servers
        assert "HTTP 401" in why

        prepared = await prepare(toolbox, config)
        assert prepared.failed_servers == ()
        echoed = await call(toolbox, prepared, "headers")
        assert echoed.status == "ok" and "Bearer [REDACTED:token]" in echoed.output
        failed = await call(toolbox, prepared, "fail")
        assert "no such thing as [REDACTED:token]" in failed.diagnostic
        for tool in ("garbage", "broken", "elsewhere"):
            assert (await call(toolbox, prepared, tool)).status == "failed"
        await toolbox.close()
        assert any(line.startswith("DELETE") for line in server.noted("requests"))
    assert caplog.records
    found = [record for record in caplog.records if TOKEN in caplog.handler.format(record)]
    assert found == []
    assert TOKEN not in repr((without, prepared, echoed, failed)) + json.dumps(prepared.catalogue.to_json())


async def test_no_activity_returns_or_keeps_the_token(
    tmp_path: Path, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a preparation and a call hand to Temporal and to the transcript holds the variable's name at most."""
    monkeypatch.setenv("ODD_TOKEN", TOKEN)
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "token").write_text(TOKEN)
    with running(folder) as server:
        store = MemoryTranscript()
        nobody = "http://127.0.0.1:9"
        observation, telemetry = ObservationClient(nobody, "tk_key"), TelemetryClient(nobody, "tk_key")
        activities = Activities(store, {}, toolbox, observation, telemetry)
        config = replace(server.config, token_env="ODD_TOKEN")
        prepared = await activities.prepare_run(PrepareRun(RunSpec("r", "t", mcp_servers=(config,))))
        names = ("headers", "fail", "elsewhere", "write")
        calls = tuple(ToolCall(name, f"odd__{name}", "{}") for name in names)
        await store.write("r", 2, Message("assistant", "", "model", calls=calls))
        finished = [await activities.run_tool(RunTool("r", name, 2, seq, 8_000)) for seq, name in enumerate(names, 3)]
        await observation.close()
        await telemetry.close()
    assert [one.status for one in finished] == ["ok", "failed", "failed", "ok"]
    kept = [await store.entry("r", seq) for seq in range(7)]
    assert "[REDACTED:token]" in repr(kept)
    everything = repr((prepared, finished, kept, await store.run_record("r")))
    assert "ODD_TOKEN" in everything
    assert TOKEN not in everything


async def test_a_token_that_changed_is_read_with_the_next_session(
    tmp_path: Path, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused token is an error that says so; after its change the next session uses the new one."""
    monkeypatch.setenv("ODD_TOKEN", "an-old-token")
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "token").write_text("an-old-token")
    with running(folder) as server:
        prepared = await prepare(toolbox, replace(server.config, token_env="ODD_TOKEN"))
        (folder / "token").write_text("a-new-token")
        refused = await call(toolbox, prepared, "write")
        assert outcome(refused) == ("failed", "none", "mcp_server_unavailable")
        assert "HTTP 401" in refused.diagnostic
        assert not re.search("an-old-token|a-new-token", refused.diagnostic)
        monkeypatch.setenv("ODD_TOKEN", "a-new-token")
        assert (await call(toolbox, prepared, "write")).status == "ok"
        assert server.calls("write") == 1
