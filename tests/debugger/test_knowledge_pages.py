"""The knowledge pages: list, item, forms, moves, tried queries; who may what, and what a refusal leaves unchanged."""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from contract import stages
from debugger.queries.knowledge_list import PAGE
from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.exchange.archive import read_archive
from knowledge.exchange.json_lines import read_lines
from knowledge.exchange.starter import starter_drafts
from knowledge.items import change_state, create_item, import_items, revise_item, suspend_item
from knowledge.models import HintAnswer, KnowledgeChange, KnowledgeItem, KnowledgeRevision
from tests.factories import make_person, make_project, send, typical_run

pytestmark = pytest.mark.django_db

COUNTS = Path(__file__).parent.parent / "query_counts.json"
HTMX = {"HX-Request": "true"}
ERROR = "fatal: not a git repository (or any of the parent directories): .git"
RULE = ItemDraft(
    "k-17",
    "Outside a repository git commands fail: run `git init` first.",
    state="confirmed",
    why="Git has no history to act on.",
    trigger="tool.failed",
    entities=("not a git repository",),
    topics=("git",),
    error_examples=(ERROR,),
)


@dataclass(frozen=True)
class World:
    """Alice acts in the project, Vera looks on, Charlie is no member; there is one item, and a run that met it."""

    project: Project
    alice: Client
    vera: Client
    charlie: Client

    def get(self, name: str, *args: str, **query: str) -> str:
        response = self.alice.get(reverse(name, args=["alpha", *args]), query)
        assert response.status_code == 200, response.content[:500]
        return response.content.decode()

    def change(self, move: str, knowledge_id: str = "k-17", client: Client | None = None, **fields: Any) -> Any:
        newest = KnowledgeChange.objects.filter(item__knowledge_id=knowledge_id).order_by("-pk").first()
        fields = {"move": move, "reason": "it was seen", "seen": newest.pk if newest else 0, **fields}
        return (client or self.alice).post(reverse("knowledge-change", args=["alpha", knowledge_id]), fields)


def state_of(knowledge_id: str = "k-17") -> tuple[str, int, bool, str | None]:
    item = KnowledgeItem.objects.get(knowledge_id=knowledge_id)
    return item.state, item.revision, item.suspended_dynamic, item.replaced_by


def kept() -> tuple[int, int, int]:
    return KnowledgeItem.objects.count(), KnowledgeRevision.objects.count(), KnowledgeChange.objects.count()


def written(queries: CaptureQueriesContext) -> list[str]:
    """The statements that do more than read."""
    reading = ("SELECT", "SAVEPOINT", "RELEASE", "DECLARE", "FETCH", "CLOSE", "SET LOCAL", "WITH")
    return [one["sql"] for one in queries if not one["sql"].lstrip().upper().startswith(reading)]


def sign_in(name: str, project: Project) -> Client:
    client = Client()
    client.force_login(make_person(name, project))
    return client


@pytest.fixture
def world() -> World:
    project = make_project("alpha")
    create_item(project, RULE, by="alice", reason="seen twice")
    send(project, typical_run("r-42"))
    viewer = make_person("vera", project)
    viewer.groups.add(Group.objects.create(name="alpha viewers"))
    vera = Client()
    vera.force_login(viewer)
    return World(project, sign_in("alice", project), vera, sign_in("charlie", make_project("gamma")))


PAGES = {
    "knowledge-list": ["alpha"],
    "knowledge-new": ["alpha"],
    "knowledge-try": ["alpha"],
    "knowledge-export": ["alpha"],
    "knowledge-item": ["alpha", "k-17"],
    "knowledge-revise": ["alpha", "k-17"],
}
WRITES = {
    "knowledge-new": ["alpha"],
    "knowledge-starter": ["alpha"],
    "knowledge-revise": ["alpha", "k-17"],
    "knowledge-change": ["alpha", "k-17"],
}
FORM = {"knowledge_id": "k-99", "proposition": "Run `it`.", "kind": "claim", "state": "proposed", "language": "en"}


@pytest.mark.parametrize("name", PAGES)
def test_works_for_a_member_and_writes_nothing(world: World, name: str) -> None:
    """A GET answers with the policy of all pages and only reads."""
    with CaptureQueriesContext(connection) as queries:
        response = world.alice.get(reverse(name, args=PAGES[name]))
        list(response)
    assert response.status_code == 200
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
    assert written(queries) == []


@pytest.mark.parametrize("name", PAGES)
def test_strangers_get_404_and_the_anonymous_sign_in(world: World, name: str) -> None:
    """What is not one's own looks like what is not there."""
    address = reverse(name, args=PAGES[name])
    assert world.charlie.get(address).status_code == 404
    assert Client().get(address).headers["Location"].startswith("/sign-in/")
    assert Client().get(address, headers=HTMX).headers["HX-Redirect"] == "/sign-in/"


def test_ids_of_another_project_are_404_and_unchanged(world: World) -> None:
    """An item of another project cannot be seen, revised or changed through one's own."""
    create_item(make_project("gamma"), ItemDraft("theirs", "Their `rule`."), by="c", reason="r")
    before = kept()
    for name in ("knowledge-item", "knowledge-revise"):
        assert world.alice.get(reverse(name, args=["alpha", "theirs"])).status_code == 404
    for name in ("knowledge-revise", "knowledge-change"):
        assert world.alice.post(reverse(name, args=["alpha", "theirs"]), FORM).status_code == 404
        assert world.charlie.post(reverse(name, args=["alpha", "k-17"]), FORM).status_code == 404
    refused = world.change("superseded", replaced_by="theirs")
    assert refused.status_code == 400
    assert b"Their" not in refused.content
    assert kept() == before and state_of("theirs")[0] == "proposed"


@pytest.mark.parametrize("bad", ["%00", "x" * 300, "a%0Ab", "new"])
def test_ids_that_name_nothing_are_404(world: World, bad: str) -> None:
    """Malformed and unknown ids are 404, never an error."""
    assert world.alice.get(f"/alpha/knowledge/items/{bad}/").status_code == 404


def test_odd_ids_have_pages(world: World) -> None:
    """Slashes, percent signs and the words of our own addresses may stand in an id."""
    for knowledge_id in ("a/b", "50%", "new", "try", "..", "ночь 1", "x/revise"):
        create_item(world.project, ItemDraft(knowledge_id, f"Rule {knowledge_id}."), by="a", reason="r")
        assert f"Rule {knowledge_id}." in world.get("knowledge-item", knowledge_id)
        assert world.change("confirmed", knowledge_id).status_code == 302
        assert state_of(knowledge_id)[0] == "confirmed"


@pytest.mark.parametrize("name", WRITES)
def test_who_looks_on_is_refused_and_offered_nothing(world: World, name: str) -> None:
    """A viewer's POST is 403 with the reason; nothing changes, and no page offers it."""
    before = kept(), state_of()
    response = world.vera.post(reverse(name, args=WRITES[name]), {**FORM, "move": "challenged", "reason": "r"})
    assert response.status_code == 403 and b"look on" in response.content
    assert (kept(), state_of()) == before
    pages = [world.vera.get(reverse(page, args=PAGES[page])) for page in ("knowledge-list", "knowledge-item")]
    html = "".join(page.content.decode() for page in pages)
    assert reverse("knowledge-new", args=["alpha"]) not in html
    assert reverse("knowledge-change", args=["alpha", "k-17"]) not in html
    assert "not change it" in html


@pytest.mark.parametrize("name", ["knowledge-list", "knowledge-item", "knowledge-try"])
def test_fragments_are_no_pages(world: World, name: str) -> None:
    """What goes into a page brings no page of its own."""
    response = world.alice.get(reverse(name, args=PAGES[name]), headers=HTMX)
    assert response.status_code == 200
    assert b"<html" not in response.content


@pytest.mark.parametrize("name", ["knowledge-list", "knowledge-item", "knowledge-try", "knowledge-new"])
def test_query_counts_are_as_committed(world: World, name: str) -> None:
    """A page makes the queries it is known to make, however many items, revisions, changes and runs there are."""
    for number in range(3):
        send(world.project, typical_run(f"more-{number}"))
        create_item(world.project, ItemDraft(f"more-{number}", f"Rule {number}."), by="a", reason="r")
        revise_item(world.project, ItemDraft("k-17", f"Rule {number}."), by="a", reason="r")
        suspend_item(world.project, "k-17", number % 2 == 0, by="a", reason="r")
    query = {"tool_result": ERROR, "trigger": "tool.failed"} if name == "knowledge-try" else {}
    address = reverse(name, args=PAGES[name])
    world.alice.get(address, query)
    with CaptureQueriesContext(connection) as queries:
        assert world.alice.get(address, query).status_code == 200
    assert len(queries) == json.loads(COUNTS.read_text())[name]


# The list


def test_an_empty_list_says_how_to_begin(world: World) -> None:
    """Members who act are told how to make, take and import items; those who look on are not offered it."""
    empty = make_project("empty")
    html = sign_in("dora", empty).get("/empty/knowledge/").content.decode()
    assert "No knowledge yet" in html and "import_knowledge items.jsonl --project empty" in html
    offered = [reverse(name, args=["empty"]) for name in ("knowledge-starter", "knowledge-new")]
    assert all(address in html for address in offered)
    viewer = make_person("vic", empty)
    viewer.groups.add(Group.objects.create(name="empty viewers"))
    vic = Client()
    vic.force_login(viewer)
    html = vic.get("/empty/knowledge/").content.decode()
    assert "No knowledge yet" in html and not any(address in html for address in offered)


def test_the_starter_set_is_imported_once(world: World) -> None:
    """One click makes its items in this project only; a second one changes nothing."""
    address = reverse("knowledge-starter", args=["alpha"])
    assert world.alice.post(address).headers["Location"] == "/alpha/knowledge/"
    assert KnowledgeItem.objects.filter(project=world.project).count() == len(starter_drafts()) + 1
    before = kept()
    world.alice.post(address)
    assert kept() == before
    assert KnowledgeChange.objects.filter(by="alice", reason="the starter set").count() == len(starter_drafts())


def test_the_list_counts_offers_and_shows_states(world: World) -> None:
    """The row of the item that a run was offered says so, with its state in words."""
    html = world.get("knowledge-list")
    assert "1 item" in html and "confirmed by evidence or a curator" in html
    row = html[html.index("<tbody>") : html.index("</tbody>")]
    assert 'class="r mono">1</td>' in row  # offered once
    assert "mid mono hint" in row  # and injected


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"q": "git INIT"}, ["k-17"]),
        ({"q": "two"}, ["two"]),
        ({"state": "proposed"}, ["two"]),
        ({"kind": "observation"}, ["two"]),
        ({"topic": "git"}, ["k-17"]),
        ({"tool": "psql"}, ["two"]),
        ({"mcp_server": "none"}, []),
        ({"trigger": "tool.failed"}, ["k-17"]),
        ({"suspended": "true"}, ["two"]),
        ({"suspended": "false"}, ["k-17"]),
        ({"fires": "never"}, ["old"]),
        ({"sort": "changed"}, ["two", "k-17"]),
        ({}, ["k-17", "two"]),
    ],
)
def test_filters_and_order(world: World, query: dict[str, str], shown: list[str]) -> None:
    """Each filter leaves what it says, and the order is the one asked for."""
    two = ItemDraft("two", "Second rule.", kind="observation", tool="psql", suspended_dynamic=True)
    create_item(world.project, two, by="a", reason="r")
    if "fires" in query:
        create_item(world.project, ItemDraft("old", "Old.", state="confirmed"), by="a", reason="r")
        long_ago = timezone.now() - timedelta(days=60)
        KnowledgeItem.objects.filter(knowledge_id__in=("old", "k-17")).update(created_at=long_ago)
    response = world.alice.get("/alpha/knowledge/", query)
    assert [line.knowledge_id for line in response.context["items"].lines] == shown
    assert response.context["items"].n_matching == len(shown)


@pytest.mark.parametrize(
    "query", [{"state": "odd"}, {"sort": "odd"}, {"q": "x" * 300}, {"q": "a\x00"}, {"cursor": "odd"}]
)
def test_a_filter_that_cannot_be_is_told(world: World, query: dict[str, str]) -> None:
    """A value that is none is a 400 that names it; the filters stay."""
    response = world.alice.get("/alpha/knowledge/", query)
    assert response.status_code == 400
    html = response.content.decode()
    assert "This filter cannot be used" in html and next(iter(query)) in html


@pytest.mark.parametrize("sort", ["id", "changed", "used", "harmful"])
def test_pages_of_the_list_hold_every_item_once(world: World, sort: str) -> None:
    """From page to page by cursor: no item is missing and none comes twice, whatever the order."""
    drafts = [ItemDraft(f"item-{number:03}", f"Rule {number}.") for number in range(2 * PAGE + 10)]
    import_items(world.project, drafts, by="a")
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = world.alice.get("/alpha/knowledge/", {"sort": sort, "cursor": cursor}).context["items"]
        seen += [line.knowledge_id for line in page.lines]
        cursor = page.next
    assert len(seen) == len(set(seen)) == 2 * PAGE + 11


def test_a_cursor_of_another_order_is_refused(world: World) -> None:
    """A cursor belongs to its order."""
    import_items(world.project, [ItemDraft(f"i-{number}", f"Rule {number}.") for number in range(PAGE + 1)], by="a")
    cursor = world.alice.get("/alpha/knowledge/").context["items"].next
    assert world.alice.get("/alpha/knowledge/", {"cursor": cursor}).status_code == 200
    assert world.alice.get("/alpha/knowledge/", {"cursor": cursor, "sort": "changed"}).status_code == 400


def test_json_lines_lead_back_to_the_same_items(world: World) -> None:
    """What is exported can be imported into another project."""
    response = world.alice.get(reverse("knowledge-export", args=["alpha"]), {"form": "jsonl"})
    assert "attachment" in response.headers["Content-Disposition"]
    (line,) = b"".join(response).decode().splitlines()
    assert json.loads(line)["proposition"] == RULE.proposition
    other = make_project("gamma")
    import_items(other, [placed.draft for placed in read_lines(line.encode(), "items")], by="c")
    again = world.charlie.get(reverse("knowledge-export", args=["gamma"]), {"form": "jsonl"})
    assert b"".join(again).decode() == f"{line}\n"
    assert world.alice.get(reverse("knowledge-export", args=["alpha"]), {"form": "odd"}).status_code == 404


def test_markdown_comes_as_a_zip_of_files(world: World) -> None:
    """One file an item, readable as it is, and read back as the same item."""
    response = world.alice.get(reverse("knowledge-export", args=["alpha"]), {"form": "markdown"})
    data = b"".join(response)
    assert 'filename="alpha-knowledge.zip"' in response.headers["Content-Disposition"]
    (placed,) = read_archive(data, most_files=10, most_bytes=100_000)
    assert placed.draft == RULE


# The item


def test_an_items_page_tells_all_of_it(world: World) -> None:
    """Text, scope, state with its meaning, history, where it was offered and what came of it, and how to find it."""
    html = world.get("knowledge-item", "k-17")
    for text in (
        "Outside a repository git commands fail: run <code>git init</code> first.",
        "Git has no history to act on.",
        "not a git repository (or any of the parent directories)",
        stages.ITEM_STATES["confirmed"],
        "It is offered wherever it matches.",
        "seen twice",
        reverse("why", args=["alpha", "r-42", "r-42:a1"]),
        "/alpha/runs/?knowledge_id=k-17",
        "/alpha/knowledge/try/?trigger=tool.failed",
    ):
        assert text in html, text


def test_texts_are_never_markup(world: World) -> None:
    """What stands in an item, its reasons and its ids is shown escaped on every page."""
    evil = "<script>alert(1)</script>"
    draft = ItemDraft(evil, f"Rule {evil}", why=evil, entities=(evil,), topics=(evil,), error_examples=(evil,))
    create_item(world.project, draft, by="a", reason=evil)
    pages = [
        world.get("knowledge-list"),
        world.get("knowledge-item", evil),
        world.get("knowledge-revise", evil),
        world.get("knowledge-try", tool_result=evil, knowledge_id=evil),
    ]
    for html in pages:
        assert "alert(1)" in html and "<script>alert" not in html


def test_a_revision_is_compared_with_the_one_before(world: World) -> None:
    """The page shows what the newest changed; each revision can be asked for, as a fragment too."""
    revise_item(world.project, ItemDraft("k-17", "Run `git init -b main` first."), by="bob", reason="branch name")
    html = world.get("knowledge-item", "k-17")
    assert "<ins>" in html and "<del>" in html and "branch name" in html
    first = world.alice.get("/alpha/knowledge/items/k-17/", {"revision": "1"}, headers=HTMX).content.decode()
    assert "nothing to compare" in first and "<ins>" not in first
    assert world.get("knowledge-item", "k-17", revision="77").count("<ins>") == html.count("<ins>")


def test_an_item_that_never_fires_says_what_to_do(world: World) -> None:
    """A confirmed item that no search has met for weeks says so, and leads to the query box."""
    create_item(world.project, ItemDraft("quiet", "Rule.", state="confirmed"), by="a", reason="r")
    assert "never fires" not in world.get("knowledge-item", "quiet")
    KnowledgeItem.objects.update(created_at=timezone.now() - timedelta(days=60))
    assert "never fires" in world.get("knowledge-item", "quiet")
    assert "never fires" not in world.get("knowledge-item", "k-17")


def test_candidates_of_a_run_lead_to_their_items(world: World) -> None:
    """On the why panel a knowledge id is a link to the item's page."""
    html = world.get("why", "r-42", "r-42:a1")
    assert f'href="{reverse("knowledge-item", args=["alpha", "k-17"])}"' in html


# Moves


@pytest.mark.parametrize(
    ("move", "fields", "after"),
    [
        ("challenged", {}, ("challenged", 1, False, None)),
        ("at_risk", {}, ("at_risk", 1, False, None)),
        ("invalidated", {}, ("invalidated", 1, False, None)),
        ("superseded", {"replaced_by": "other"}, ("superseded", 1, False, "other")),
        ("corrected", {"replaced_by": "other"}, ("corrected", 1, False, "other")),
        ("suspend", {}, ("confirmed", 1, True, None)),
        ("evidence", {"run_id": "r-42", "supports": "no"}, ("confirmed", 1, False, None)),
    ],
)
def test_a_move_is_carried_out_with_who_and_why(
    world: World, move: str, fields: dict[str, str], after: tuple[Any, ...]
) -> None:
    """The item moves, and its history says by whom and why."""
    create_item(world.project, ItemDraft("other", "Other rule."), by="a", reason="r")
    response = world.change(move, **fields)
    assert (response.status_code, response.headers["Location"]) == (302, "/alpha/knowledge/items/k-17/")
    assert state_of() == after
    html = world.get("knowledge-item", "k-17")
    newest = KnowledgeChange.objects.filter(item__knowledge_id="k-17").order_by("-pk")[0]
    assert newest.by == "alice" and newest.reason.endswith("it was seen")
    assert "it was seen" in html
    if "run_id" in fields:
        assert newest.evidence_run == "r-42" and newest.supports is False and "against it" in html


@pytest.mark.parametrize(
    ("move", "fields", "told"),
    [
        ("challenged", {"reason": "  "}, "Say why"),
        ("challenged", {"reason": "x" * 2_001}, "the limit is 2,000"),
        ("superseded", {}, "takes its place"),
        ("superseded", {"replaced_by": "nobody"}, "replaced_by"),
        ("superseded", {"replaced_by": "k-17"}, "replaced_by"),
        ("evidence", {}, "Name the run"),
        ("proposed", {}, "cannot be done"),
        ("resume", {}, "cannot be done"),
        ("odd", {}, "cannot be done"),
    ],
)
def test_a_move_that_is_not_in_order_changes_nothing(
    world: World, move: str, fields: dict[str, str], told: str
) -> None:
    """The page comes again with the reason, what was typed, and the form still open."""
    before = kept(), state_of()
    response = world.change(move, **{"reason": "because of r-42", **fields})
    assert response.status_code in (400, 409)
    html = response.content.decode()
    assert told in html and 'role="alert"' in html
    assert (kept(), state_of()) == before
    if "reason" not in fields and told != "cannot be done":
        assert "because of r-42</textarea>" in html and '<details class="move" open>' in html


def test_a_move_on_what_somebody_changed_meanwhile_is_refused(world: World) -> None:
    """The other's change is shown as new, what was typed stays, and a second try counts."""
    seen = KnowledgeChange.objects.latest("pk").pk
    change_state(world.project, "k-17", "challenged", by="bob", reason="failed twice")
    before = kept(), state_of()
    response = world.change("invalidated", seen=seen, reason="wrong anyway")
    html = response.content.decode()
    assert response.status_code == 409
    assert "Somebody changed this item" in html and "failed twice" in html and "new to you" in html
    assert "wrong anyway</textarea>" in html
    assert (kept(), state_of()) == before
    assert world.change("invalidated", reason="wrong anyway").status_code == 302
    assert state_of()[0] == "invalidated"


def test_a_retired_item_offers_no_move(world: World) -> None:
    """Its page says so; a move that was open before is refused."""
    change_state(world.project, "k-17", "invalidated", by="bob", reason="no longer")
    html = world.get("knowledge-item", "k-17")
    assert "A retired item is not changed any more" in html
    assert reverse("knowledge-change", args=["alpha", "k-17"]) not in html
    assert reverse("knowledge-revise", args=["alpha", "k-17"]) not in html
    assert world.change("confirmed").status_code == 409
    assert state_of()[0] == "invalidated"


def test_replacements_link_both_ways(world: World) -> None:
    """The old one names the new one and the new one the old."""
    create_item(world.project, ItemDraft("new-one", "New rule."), by="a", reason="r")
    world.change("superseded", replaced_by="new-one")
    assert reverse("knowledge-item", args=["alpha", "new-one"]) in world.get("knowledge-item", "k-17")
    assert "Replaces" in (html := world.get("knowledge-item", "new-one"))
    assert reverse("knowledge-item", args=["alpha", "k-17"]) in html


# Making and revising


def test_an_item_is_made_as_typed(world: World) -> None:
    """All fields arrive, one entry a line; the reason stands in its history."""
    fields = {**FORM, "entities": "one\r\ntwo words", "error_examples": ["first\r\nline", ""], "reason": "seen in r-42"}
    response = world.alice.post(reverse("knowledge-new", args=["alpha"]), fields)
    assert response.headers["Location"] == "/alpha/knowledge/items/k-99/"
    text = KnowledgeRevision.objects.get(item__knowledge_id="k-99")
    assert (text.entities, text.error_examples) == (["one", "two words"], ["first\nline"])
    assert (text.author, text.reason) == ("alice", "seen in r-42")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"proposition": "word " * 120}, "the limit is 120"),
        ({"knowledge_id": ""}, "Must not be empty"),
        ({"knowledge_id": "k-17"}, "k-17"),
        ({"reason": ""}, "Say why"),
        ({"trigger": "Bad"}, "Must be the name of a trigger"),
        ({"why": "password=hunter2hunter2"}, "looks like a secret"),
        ({"state": "superseded"}, "Must be one of: proposed, confirmed"),
        ({"kind": "odd"}, "Must be one of: claim, observation"),
        ({"topics": "\n".join(map(str, range(60)))}, "the limit is 50"),
    ],
)
def test_a_form_that_is_not_in_order_makes_nothing(world: World, fields: dict[str, str], told: str) -> None:
    """The form comes again with the error at its field and with everything that was typed."""
    before = kept()
    typed = {**FORM, "reason": "because", "verify": "look at it", **fields}
    response = world.alice.post(reverse("knowledge-new", args=["alpha"]), typed)
    html = response.content.decode()
    assert response.status_code in (400, 409)
    assert told in html and "look at it</textarea>" in html
    assert kept() == before


def test_a_revision_is_saved_and_an_edit_of_an_older_one_is_not(world: World) -> None:
    """The second writer is shown the first one's change and keeps what was written; saved again it counts."""
    address = reverse("knowledge-revise", args=["alpha", "k-17"])
    assert RULE.proposition in world.alice.get(address).content.decode()
    typed = {**FORM, "proposition": "My own `rule`.", "reason": "better", "revision": "1"}
    revise_item(world.project, ItemDraft("k-17", "The rule of bob."), by="bob", reason="bob was first")
    before = kept(), state_of()
    response = world.alice.post(address, typed)
    html = response.content.decode()
    assert response.status_code == 409
    assert "Somebody revised this item" in html and "bob was first" in html and "<ins>" in html
    assert "My own `rule`.</textarea>" in html and 'name="revision" value="2"' in html
    assert (kept(), state_of()) == before
    assert world.alice.post(address, {**typed, "revision": "2"}).status_code == 302
    assert state_of() == ("confirmed", 3, False, None)
    assert KnowledgeItem.objects.count() == 1


def test_a_retired_item_is_not_revised(world: World) -> None:
    """A form that was open before the item was retired changes nothing."""
    change_state(world.project, "k-17", "invalidated", by="bob", reason="no longer")
    before = kept()
    address = reverse("knowledge-revise", args=["alpha", "k-17"])
    assert world.alice.post(address, {**FORM, "reason": "r", "revision": "1"}).status_code == 409
    assert kept() == before


def test_tokens_are_counted_while_a_rule_is_written(world: World) -> None:
    """The count is the store's own; a rule over the limit is told so before it is sent."""
    address = reverse("knowledge-tokens", args=["alpha"])
    assert "about 3 of 120 tokens" in world.alice.post(address, {"proposition": "x" * 12}).content.decode()
    assert "shorten it" in world.alice.post(address, {"proposition": "x" * 481}).content.decode()
    assert world.charlie.post(address, {"proposition": "x"}).status_code == 404
    assert world.alice.get(address).status_code == 405


# Trying a query


def test_a_tried_query_explains_what_is_offered_and_writes_nothing(world: World) -> None:
    """The item that fits is found with what matched and its numbers; no telemetry and no kept answer remains."""
    with CaptureQueriesContext(connection) as queries:
        html = world.get("knowledge-try", tool_result=ERROR, tool="shell")
    assert "1 hint would be offered" in html and reverse("knowledge-item", args=["alpha", "k-17"]) in html
    assert "not a git repository" in html and "<svg" in html
    assert written(queries) == []
    assert HintAnswer.objects.count() == 0


def test_saying_nothing_is_an_answer(world: World) -> None:
    """A query that nothing fits says so, and offers to write down what helps."""
    html = world.get("knowledge-try", tool_result="zebra quartz vortex")
    assert "Nothing is offered, and that is an answer" in html
    assert "/alpha/knowledge/new/?trigger=tool.failed" in html


def test_an_item_held_back_says_what_decided(world: World) -> None:
    """Of another tool, retired or suspended: the reason in words with what it rests on."""
    draft = ItemDraft("for-psql", "Run `it`.", tool="psql", entities=("not a git repository",), state="confirmed")
    create_item(world.project, draft, by="a", reason="r")
    html = world.get("knowledge-try", tool_result=ERROR, tool="shell")
    assert stages.HOLD_REASONS["scope_mismatch"] in html
    assert "it is for the tool psql, here it is shell" in html


def test_why_not_this_one(world: World) -> None:
    """A named item is told of in one sentence: offered, held back, no candidate, unknown."""
    create_item(world.project, ItemDraft("far-off", "Feed the zebra."), by="a", reason="r")
    assert "It is offered, at rank 1" in world.get("knowledge-try", tool_result=ERROR, knowledge_id="k-17")
    for knowledge_id in ("far-off", "no-such-item"):
        html = world.get("knowledge-try", tool_result=ERROR, knowledge_id=knowledge_id)
        said = html[html.index("absence") :].split("</p>")[0]
        assert knowledge_id in said and "offered, at rank" not in said


def test_a_replacement_is_offered_in_place_of_a_retired_item(world: World) -> None:
    """The one that matched is retired; its replacement is offered and says for which it stands in."""
    create_item(world.project, ItemDraft("new-one", "Make a repository: `git init`."), by="a", reason="r")
    change_state(world.project, "k-17", "superseded", by="a", reason="r", replaced_by="new-one")
    html = world.get("knowledge-try", tool_result=ERROR)
    assert "stands in for" in html and reverse("knowledge-item", args=["alpha", "new-one"]) in html


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tool_result": "x" * 8_193}, "the limit is 8,192"),
        ({"query": "x" * 4_097}, "the limit is 4,096"),
        ({"tool_result": "x", "limit": "0"}, "from 1 to 20"),
        ({"tool_result": "x", "limit": "many"}, "from 1 to 20"),
        ({"tool_result": "x", "trigger": "Bad"}, "must be the name of a trigger"),
        ({"tool_result": "x", "version": "odd"}, "one of:"),
        ({"tool_result": "x", "entities": "y" * 300}, "50 lines of at most 200"),
    ],
)
def test_a_query_over_a_limit_is_told_at_its_field(world: World, fields: dict[str, str], told: str) -> None:
    """The page is a 400 that keeps what was typed; the fragment tells the same."""
    page = world.alice.post(reverse("knowledge-try", args=["alpha"]), fields)
    assert page.status_code == 400 and told in page.content.decode()
    fragment = world.alice.post(reverse("knowledge-try", args=["alpha"]), fields, headers=HTMX)
    assert fragment.status_code == 200 and told in fragment.content.decode()


def test_a_short_query_can_be_shared_and_one_with_a_secret_cannot(world: World) -> None:
    """The address asks the same again; a secret and a long output never become part of one."""
    address = reverse("knowledge-try", args=["alpha"])
    short = world.alice.post(address, {"tool_result": ERROR, "gate": "on", "limit": "8"}, headers=HTMX)
    shared = short.headers["HX-Replace-Url"]
    assert shared.startswith(f"{address}?") and "tool_result=fatal" in shared and "limit" not in shared
    assert "1 hint would be offered" in world.alice.get(shared).content.decode()
    for text in (f"{ERROR} password=hunter2hunter2", ERROR + " x" * 3_000):
        response = world.alice.post(address, {"tool_result": text}, headers=HTMX)
        assert response.headers["HX-Replace-Url"] == address
        assert "hunter2" not in response.content.decode()
