"""The chain of a run: what is counted where, how it is drawn, and its page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from contract import stages
from debugger.queries import chain_rows
from debugger.queries.chain import COLUMNS, MOST_APART, Chain, Node, build_chain
from debugger.queries.chain_picture import MOST_NODES, REST, WIDTH, draw, keys_of
from ingest.models import Project
from knowledge.models import Activation, Candidate
from tests.factories import Recorder, make_person, make_project, send, typical_run
from tests.knowledge.spans import TRACE, agent_run
from tests.knowledge.streams import recorded_names, wire_of

COUNTS = Path(__file__).parent.parent / "query_counts.json"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def activation(name: str = "a1", **fields: Any) -> Activation:
    return Activation(
        **{"activation_id": name, "trigger": "tool.failed", "tool": "shell", "result": "success", **fields}
    )


def candidate(name: str = "k-1", **fields: Any) -> Candidate:
    return Candidate(**{"activation_id": "a1", "knowledge_id": name, **fields})


def one(*candidates: Candidate, **fields: Any) -> Chain:
    return build_chain([activation(**fields)], candidates, 0)


def way(*candidates: Candidate, **fields: Any) -> list[str]:
    """The labels that the only line of a run passes, from the third column on."""
    (line,) = one(*candidates, **fields).lines
    return [stop.label for stop in line.stops[2:]]


def node(chain: Chain, key: str) -> Node:
    return next(node for node in chain.nodes if node.stop.key == key)


@pytest.mark.parametrize("reason", stages.HOLD_REASONS)
def test_what_was_held_back_stops_with_its_reason(reason: str) -> None:
    """A candidate that was never offered ends among the hints, explained."""
    chain = one(candidate(hold_reason=reason))
    assert way(candidate(hold_reason=reason)) == ["found", f"held back: {reason.replace('_', ' ')}"]
    assert node(chain, f"held:{reason}").stop.meaning == stages.HOLD_REASONS[reason]


@pytest.mark.parametrize("reason", stages.DROP_REASONS)
def test_what_was_dropped_stops_with_its_reason(reason: str) -> None:
    """A dropped hint ends at its delivery, explained; one that had been selected says so."""
    dropped = {"offered_ns": 1, "dropped_ns": 3, "drop_reason": reason}
    word = reason.replace("_", " ")
    assert way(candidate(**dropped)) == ["found", "offered", f"dropped: {word}"]
    assert way(candidate(**dropped, selected_ns=2))[-1] == f"selected, then dropped: {word}"
    assert node(one(candidate(**dropped)), f"dropped:{reason}").stop.meaning == stages.DROP_REASONS[reason]


@pytest.mark.parametrize("reason", stages.SKIP_REASONS)
def test_what_was_not_searched_stops_with_its_reason(reason: str) -> None:
    """An activation without a search is a line of its own that ends before the candidates."""
    assert way(result="skipped", skip_reason=reason) == [f"no search: {reason.replace('_', ' ')}"]


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"offered_ns": 1}, ["offered", "not reported"]),
        ({"offered_ns": 1, "selected_ns": 2}, ["offered", "selected"]),
        ({"offered_ns": 1, "injected_ns": 3}, ["offered", "injected", "not known"]),
        ({"offered_ns": 1, "injected_ns": 3, "used_ns": 4}, ["offered", "injected", "used", "not known"]),
        ({"offered_ns": 1, "injected_ns": 3, "ignored_ns": 4}, ["offered", "injected", "not acted on", "not known"]),
        ({"injected_ns": 3, "used_ns": 4, "outcome": "helpful"}, ["offered", "injected", "used", "helpful"]),
        ({"injected_ns": 3, "outcome": "vendor"}, ["offered", "injected", "not known", "vendor"]),
        ({"dropped_ns": 3}, ["offered", "dropped: no reason"]),
        ({}, ["no more is known"]),
    ],
)
def test_every_way_of_a_candidate_has_its_stops(fields: dict[str, Any], labels: list[str]) -> None:
    """No stage is taken for another, none is left out, and each line stands in neighbouring columns."""
    (line,) = one(candidate(**fields)).lines
    assert [stop.label for stop in line.stops[3:]] == labels
    assert [stop.column for stop in line.stops] == list(range(len(line.stops)))


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"result": "empty"}, "nothing that fits"),
        ({"result": "timeout"}, "search: timeout"),
        ({"result": "error"}, "search: error"),
        ({"result": ""}, "not answered yet"),
        ({"result": "success"}, "none reported"),
    ],
)
def test_a_search_without_candidates_ends_by_its_result(fields: dict[str, Any], label: str) -> None:
    """It is one line, counted as an activation."""
    assert way(**fields) == [label]
    assert one(**fields).nodes[-1].counted == "1 activation"


def test_the_counts_of_a_run_add_up() -> None:
    """Each column has every line that came so far, and what goes into a box is what the box counts."""
    offered = [candidate(f"k-{n}", offered_ns=1, injected_ns=2 if n else None) for n in range(3)]
    others = [candidate("k-8", hold_reason="gate"), candidate("k-9", activation_id="a2", hold_reason="gate")]
    rows = [activation(n_retrieved=6), activation("a2"), activation("a3", result="skipped", skip_reason="run_cap")]
    chain = build_chain(rows, [*offered, *others], 0)
    assert chain.n_lines == 8
    assert [sum(node.n for node in chain.column(number)) for number in range(5)] == [8, 8, 8, 7, 3]
    assert node(chain, "unlisted").n == 2
    assert node(chain, "held:gate").counted == "2 candidates"
    assert node(chain, "held:gate").n_activations == 2
    assert node(chain, "injected").counted == "2 hints"
    for one_node in chain.nodes[1:]:
        into = sum(n for (_, other), n in chain.links.items() if other == one_node.stop.key)
        assert into == (one_node.n if one_node.stop.column else 0)
    assert len(chain.through(["held:gate"])) == 2


def test_what_is_guessed_is_marked_and_counted_apart() -> None:
    """An inferred trigger is no reported one: its own mark, the trigger stays unreported."""
    chain = one(candidate(), trigger="", inferred_trigger="tool.failed")
    assert node(chain, "trigger").stop.label == "not reported"
    assert node(chain, "activation:a1").stop.is_inferred
    assert "inferred, not reported: tool.failed" in node(chain, "activation:a1").stop.meaning


def test_a_report_that_names_no_activation_is_not_lost() -> None:
    """A candidate whose activation is not there is drawn from where nothing is known."""
    chain = build_chain([], [candidate(activation_id="", offered_ns=1, injected_ns=2)], 0)
    assert [stop.label for stop in chain.lines[0].stops[:2]] == ["not reported", "not known"]


def test_many_activations_are_put_together_by_how_they_ended() -> None:
    """Beyond a number the second column has results instead of activations, and says so."""
    rows = [activation(f"a{n}", result="empty" if n % 2 else "timeout") for n in range(MOST_APART + 2)]
    chain = build_chain(rows, [], 0)
    assert not chain.are_apart
    assert {node.stop.key: node.n_activations for node in chain.column(1)} == {"result:empty": 7, "result:timeout": 7}
    assert build_chain(rows[:MOST_APART], [], 0).are_apart


def test_a_column_without_room_says_what_it_put_together() -> None:
    """The smallest share a box that tells their number and leads to all of them; the nodes themselves stay."""
    rows = [activation(f"a{n}", trigger=f"vendor.t{n}", result="empty") for n in range(MOST_NODES + 5)]
    chain = build_chain(rows, [], 0)
    picture = draw(chain)
    triggers = [box for box in picture.boxes if box.x == 0]
    assert len(triggers) == MOST_NODES
    assert picture.merged == (("Trigger", 6),)
    assert (triggers[-1].label, triggers[-1].counted) == ("6 others", "6 activations")
    assert len(chain.through(keys_of(chain, f"{REST}0"))) == 6
    assert len(chain.column(0)) == MOST_NODES + 5
    assert keys_of(chain, "nothing") == ()


def test_what_belongs_together_stands_together() -> None:
    """Activations stand beside their trigger, and ends of one size as their activations do: few bands cross."""
    rows = [
        activation("a1", result="timeout"),
        activation("a2", trigger="mcp.first_call", result="empty"),
        activation("a3", skip_reason="run_cap"),
    ]
    chain = build_chain(rows, [], 0)
    assert [node.stop.key for node in chain.column(1)] == ["activation:a1", "activation:a3", "activation:a2"]
    assert [node.stop.key for node in chain.column(2)] == ["timeout", "skipped:run_cap", "empty"]


def test_boxes_do_not_overlap_and_stay_inside() -> None:
    """Whatever the counts are, even one that is absurd: each box and its text have room."""
    held = [candidate(f"k-{n}", hold_reason=reason) for n, reason in enumerate(stages.HOLD_REASONS)]
    for n_retrieved in (0, 10**12):
        chain = one(
            *held, candidate("k-x", offered_ns=1, injected_ns=2, used_ns=3, outcome="helpful"), n_retrieved=n_retrieved
        )
        picture = draw(chain)
        assert [name for name, _ in picture.heads] == list(COLUMNS)
        for number in range(len(COLUMNS)):
            column = sorted((box for box in picture.boxes if box.x == number * 178), key=lambda box: box.y)
            for above, below in zip(column, column[1:], strict=False):
                assert above.y + max(above.height, 30) <= below.y
        assert all(box.x < WIDTH and box.y + box.height <= picture.height < 2_000 for box in picture.boxes)
        assert len(picture.bands) == len({band.path for band in picture.bands})


# The page.


def member(project: Project) -> Client:
    client = Client()
    client.force_login(make_person("alice", project))
    return client


def text_of(client: Client, run_id: str = "r-42", query: str = "") -> str:
    """The page in plain words: no tags, white space as one blank."""
    response = client.get(reverse("run-chain", args=["alpha", run_id]) + query)
    assert response.status_code == 200
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


@pytest.mark.django_db
def test_only_members_see_a_chain() -> None:
    """The anonymous go to sign in, a stranger and an unknown run get the 404 of what is not there; nobody posts."""
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    client, stranger = member(project), Client()
    stranger.force_login(make_person("charlie", make_project("gamma")))
    address = reverse("run-chain", args=["alpha", "r-42"])
    assert Client().get(address).headers["Location"].startswith("/sign-in/")
    assert stranger.get(address).status_code == 404
    assert client.get(reverse("run-chain", args=["alpha", "r-0"])).status_code == 404
    assert client.post(address).status_code == 405
    assert f'href="{address}"' in client.get("/alpha/runs/r-42/").content.decode()


@pytest.mark.django_db
def test_the_page_has_the_picture_and_the_same_numbers() -> None:
    """Every box is a link with a name, and the table beside it counts the same."""
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    client = member(project)
    page = client.get(reverse("run-chain", args=["alpha", "r-42"])).content.decode()
    boxes = re.findall(r'<a href="([^"]+)" aria-label="([^"]+)"', page)
    assert '<title id="chain-title">' in page
    assert '<desc id="chain-desc">' in page
    assert any(told.startswith("Delivery: dropped: activation tokens, 1 hint.") for _, told in boxes)
    assert any(told.startswith("Hints: held back: gate, 1 candidate.") for _, told in boxes)
    table = page.partition('class="chain-table"')[2].partition("</table>")[0]
    for address, told in boxes:
        counted = told.partition(". ")[0].rpartition(", ")[2]
        assert f'href="{address}"' in table
        assert counted in table.partition(f'href="{address}"')[2].partition("</tr>")[0]


@pytest.mark.django_db
def test_a_box_leads_to_its_rows_and_a_dropped_hint_to_what_followed() -> None:
    """The list below has the lines of the box alone, with the numbers that decided and the way to the reason."""
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    client = member(project)
    assert "All lines" in text_of(client)
    text = text_of(client, query="?node=dropped%3Aactivation_tokens")
    assert "k-20" in text
    assert "k-31" not in text
    assert "needed 212 tokens, 188 left of 400" in text
    page = client.get(
        reverse("run-chain", args=["alpha", "r-42"]) + "?node=dropped%3Aactivation_tokens"
    ).content.decode()
    assert f"{reverse('why', args=['alpha', 'r-42', 'r-42:a1'])}#would-help" in page
    assert "Not in this chain" in text_of(client, query="?node=%3Cscript%3E")


@pytest.mark.django_db
def test_a_run_without_a_search_says_why() -> None:
    """Nothing failed, switched off, or not derived yet: each in its words, never an empty picture."""
    project = make_project("alpha")
    quiet, off, raw = (Recorder(name) for name in ("quiet", "off", "raw"))
    quiet.add("run.started", {"task": "x"})
    off.add("run.started", {"task": "x", "switches": {"activation": False}})
    raw.add("run.started", {"task": "x"})
    send(project, quiet.events)
    send(project, off.events)
    send(project, raw.events, fold=False)
    client = member(project)
    assert "No search was made in this run. No tool failed" in text_of(client, "quiet")
    assert "Searching was switched off for this run" in text_of(client, "off")
    text = text_of(client, "raw")
    assert "Nothing has been derived from its events yet" in text
    assert "1 event of this run is not in the chain yet" in text


@pytest.mark.django_db
def test_the_search_of_a_foreign_application_is_told_as_its_own() -> None:
    """Documents it found are no hints, and what set the search off is inferred and marked."""
    project = make_project("alpha")
    send(project, agent_run())
    text = text_of(member(project), TRACE)
    assert "found by the application" in text
    assert "inferred: tool.failed" in text
    assert "dropped: reranked out" in text
    assert "tool.failed 1 activation" not in text


@pytest.mark.django_db
def test_every_recorded_run_has_a_chain() -> None:
    """Runs as the kernel sent them: each has a page whose first column counts every line."""
    project = make_project("alpha")
    client = member(project)
    for name in recorded_names():
        events = wire_of(name)
        send(project, events)
        response = client.get(reverse("run-chain", args=["alpha", events[0]["run_id"]]))
        chain = response.context["chain"]
        assert sum(node.n for node in chain.column(0)) == chain.n_lines > 0, name


@pytest.mark.django_db
def test_a_chain_in_progress_tells_that_it_went_on() -> None:
    """The page asks, is told nothing while nothing is new, then that there is more; an ended run asks nothing."""
    project = make_project("alpha")
    events = typical_run("r-42")
    send(project, events[:12])
    client, address = member(project), reverse("run-chain", args=["alpha", "r-42"])
    found = re.search(r'hx-get="([^"]+)"', client.get(address + "?node=offered").content.decode())
    assert found is not None
    asked = found[1].replace("&amp;", "&")
    assert client.get(asked, headers={"HX-Request": "true"}).status_code == 204
    send(project, events[12:])
    news = client.get(asked, headers={"HX-Request": "true"}).content.decode()
    assert "The run went on" in news
    assert f'href="{address}?node=offered"' in news
    assert "<body" not in news
    assert "hx-get" not in news
    assert 'id="chain-news"' not in client.get(address).content.decode()


@pytest.mark.django_db
def test_hostile_words_are_shown_and_never_run() -> None:
    """Ids, triggers, tools and texts of a sender stay text, in the picture, the table and the list."""
    project, to = make_project("alpha"), Recorder("bad")
    to.add("run.started", {"task": HOSTILE})
    asked = {"trigger": "tool.failed", "query": "q"}
    to.add("activation.requested", asked, activation_id=f"a{HOSTILE}", tool=HOSTILE)
    done = {"trigger": "tool.failed", "result": "empty"}
    to.add("activation.completed", done, activation_id=f"a{HOSTILE}", tool=HOSTILE)
    send(project, to.events)
    page = member(project).get(reverse("run-chain", args=["alpha", "bad"])).content.decode()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.django_db
def test_a_large_chain_is_cut_and_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not counted is said, and the list goes on page by page."""
    project, to = make_project("alpha"), Recorder("many")
    to.add("run.started", {"task": "x"})
    for number in range(60):
        skipped = {"trigger": "tool.failed", "skip_reason": "run_cap"}
        to.add("activation.skipped", skipped, activation_id=f"a{number:03}", tool="shell")
    send(project, to.events)
    client = member(project)
    text = text_of(client, "many")
    assert "These are 60 activations: they are put together by how they ended" in text
    assert "1–50 of 60 Later" in text
    assert "a059" in text_of(client, "many", "?from=50")
    assert "51–60 of 60" in text_of(client, "many", "?from=50")
    send(project, typical_run("r-42"))
    monkeypatch.setattr(chain_rows, "MOST_CANDIDATES", 2)
    assert "Only 2 candidates of this run are counted here" in text_of(client)
    monkeypatch.setattr(chain_rows, "MOST_ACTIVATIONS", 20)
    assert "Only the first 20 activations of this run are counted here" in text_of(client, "many")


@pytest.mark.django_db
def test_a_chain_reads_and_writes_nothing_more_than_it_should() -> None:
    """The committed number of queries whatever is there, all of them reads."""
    project = make_project("alpha")
    send(project, typical_run("r-42"))
    client, address = member(project), reverse("run-chain", args=["alpha", "r-42"])
    client.get(address)
    for number in range(2):
        send(project, typical_run(f"more-{number}"))
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    assert len(queries) == json.loads(COUNTS.read_text())["run-chain"]
    assert all(query["sql"].lstrip().upper().startswith("SELECT") for query in queries)
