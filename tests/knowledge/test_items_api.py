"""Items over the machine API: curated by key, strict, idempotent, and of one project only."""

import io
import json
import zipfile
from typing import Any

import pytest
from django.test import Client

from ingest.authentication import create_key
from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.exchange.json_lines import write_line
from knowledge.exchange.markdown import write_markdown
from knowledge.items import create_item
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision, KnowledgeVersion
from tests.factories import make_project, send, typical_run

pytestmark = pytest.mark.django_db

RULE = "When the flux overheats run `cool`."
ITEMS = "/v1/knowledge/items"
IMPORT = "/v1/knowledge/import"
ITEM = {"knowledge_id": "k-1", "proposition": RULE, "topics": ["flux"], "tool": "shell"}


class Curator:
    """A program with a key of its own."""

    def __init__(self, project: Project, *scopes: str) -> None:
        self.project = project
        self.headers = {"Authorization": f"Bearer {create_key(project, 'curator', scopes or ('read', 'curate'))[1]}"}
        self.client = Client(raise_request_exception=False)

    def get(self, url: str, **query: Any) -> Any:
        return self.client.get(url, query, headers=self.headers)

    def post(self, url: str, body: Any) -> Any:
        return self.client.post(url, json.dumps(body), content_type="application/json", headers=self.headers)

    def send(self, data: bytes, content_type: str = "application/jsonl", query: str = "") -> Any:
        return self.client.post(IMPORT + query, data, content_type=content_type, headers=self.headers)

    def ids(self, **query: Any) -> list[str]:
        answer = self.get(ITEMS, **query)
        assert answer.status_code == 200, answer.content
        return [one["knowledge_id"] for one in answer.json()["results"]]


@pytest.fixture
def curator() -> Curator:
    return Curator(make_project("alpha"))


def snapshot() -> list[Any]:
    models = (KnowledgeItem, KnowledgeRevision, KnowledgeChange, KnowledgeVersion)
    return [list(model._default_manager.order_by("pk").values()) for model in models]


def made(curator: Curator, **fields: Any) -> dict[str, Any]:
    answer = curator.post(ITEMS, {"item": {**ITEM, **fields}, "reason": "seen twice"})
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_an_item_lives_its_life_over_the_api(curator: Curator) -> None:
    """Made, revised, confirmed, suspended, resumed, given evidence, replaced; each told in its history."""
    made(curator)
    made(curator, knowledge_id="k-2")
    at = f"{ITEMS}/k-1"
    steps: list[tuple[str, dict[str, Any]]] = [
        ("revisions", {"item": {"proposition": "Run `c`."}, "reason": "fast", "by": "ada", "expected_revision": 1}),
        ("state", {"state": "confirmed", "reason": "it holds", "run_id": "r-1"}),
        ("suspension", {"suspended": True, "reason": "noise"}),
        ("suspension", {"suspended": False, "reason": "quiet"}),
        ("evidence", {"run_id": "r-2", "supports": False, "note": "it did not help"}),
        ("state", {"state": "superseded", "reason": "newer", "replaced_by": "k-2"}),
    ]  # fmt: skip
    for place, body in steps:
        answer = curator.post(f"{at}/{place}", body)
        assert answer.status_code == 200, answer.content
    item = answer.json()
    assert item == curator.get(at).json()
    assert (item["state"], item["revision"], item["live_replacement"]) == ("superseded", 2, "k-2")
    assert [(one["number"], one["author"]) for one in item["revisions"]] == [(2, "ada"), (1, "key curator")]
    history = [
        (one["what"], one["from_state"], one["to_state"], one["run_id"], one["supports"]) for one in item["history"]
    ]
    assert history[::-1] == [
        ("created", None, "proposed", None, None),
        ("revised", "proposed", "proposed", None, None),
        ("state", "proposed", "confirmed", "r-1", None),
        ("suspended", "confirmed", "confirmed", None, None),
        ("resumed", "confirmed", "confirmed", None, None),
        ("evidence", "confirmed", "confirmed", "r-2", False),
        ("state", "confirmed", "superseded", None, None),
    ]
    assert curator.get(f"{ITEMS}/k-2").json()["replaces"] == ["k-1"]


def test_a_list_is_filtered_and_paged(curator: Curator) -> None:
    """Each filter alone and together; pages hold each item once."""
    for number in range(5):
        made(curator, knowledge_id=f"k-{number}", topics=["even"] if number % 2 == 0 else ["odd"], tool=f"t{number}")
    made(curator, knowledge_id="other", proposition="Почини `это`.", kind="observation", state="confirmed", topics=[],
         mcp_server="git", trigger="mcp.first_call", suspended_dynamic=True, tool="")  # fmt: skip
    assert curator.ids() == ["k-0", "k-1", "k-2", "k-3", "k-4", "other"]
    assert curator.ids(topic="even") == ["k-0", "k-2", "k-4"]
    assert curator.ids(topic="even", tool="t2") == ["k-2"]
    alone = {"state": "confirmed", "kind": "observation", "mcp_server": "git", "trigger": "mcp.first_call"}
    for name, word in (*alone.items(), ("suspended", "true"), ("q", "ПОЧИНИ"), ("q", "OTH")):
        assert curator.ids(**{name: word}) == ["other"], name
    assert curator.ids(q="100%_") == []
    assert "other" not in curator.ids(suspended="false")
    curator.post(f"{ITEMS}/k-2/revisions", {"item": {"proposition": RULE, "topics": ["odd"]}, "reason": "r"})
    assert curator.ids(topic="even") == ["k-0", "k-4"]
    pages, cursor = [], ""
    while cursor is not None:
        page = curator.get(ITEMS, limit=4, **({"cursor": cursor} if cursor else {})).json()
        pages.append([one["knowledge_id"] for one in page["results"]])
        cursor = page["next"]
    assert pages == [["k-0", "k-1", "k-2", "k-3"], ["k-4", "other"]]


def test_one_item_tells_its_use(curator: Curator) -> None:
    """How far it came, what was reported, and whether no search has ever met it."""
    made(curator, knowledge_id="k-17", state="confirmed")
    run = typical_run("r-1")
    about = {"run_id": "r-1", "occurred_at": "2026-11-30T04:00:00Z", "activation_id": "r-1:a1", "knowledge_id": "k-17"}
    send(curator.project, [*run, {**about, "event_id": "u", "type": "hint.used", "hint_id": "r-1:h1", "data": {}}])
    item = curator.get(f"{ITEMS}/k-17").json()
    assert item["counts"]["n_used"] == 1
    assert (item["reached"]["n_offered"], item["reached"]["n_injected"]) == (1, 1)
    assert [one["trigger"] for one in item["by_trigger"]] == ["tool.failed"]
    assert not item["never_fires"]
    assert curator.get(ITEMS).json()["results"][0]["counts"] == item["counts"]


NEW = {"item": ITEM, "reason": "r"}
WHY = {"reason": "r"}


@pytest.mark.parametrize(
    ("place", "body", "status", "code", "field"),
    [
        ("", [], 400, "bad_body", "body"),
        ("", {**NEW, "colour": 1}, 400, "unknown_field", "colour"),
        ("", {"item": ITEM}, 400, "missing_field", "reason"),
        ("", {**NEW, "reason": 3}, 400, "invalid_field", "reason"),
        ("", {**NEW, "reason": " "}, 400, "invalid_item", "reason"),
        ("", {**NEW, "reason": "x" * 2_001}, 422, "limit_exceeded", "reason"),
        ("", {**NEW, "by": "x" * 201}, 422, "limit_exceeded", "by"),
        ("", {**NEW, "item": {**ITEM, "colour": 1}}, 400, "invalid_item", "colour"),
        ("", {**NEW, "item": {**ITEM, "knowledge_id": "k-9", "topics": ["x"] * 51}}, 422, "limit_exceeded", "topics"),
        ("", NEW, 409, "item_conflict", "knowledge_id"),
        ("/k-1/revisions", {**WHY, "item": {**ITEM, "state": "at_risk"}}, 400, "unknown_field", "item.state"),
        ("/k-1/revisions", {**WHY, "item": {**ITEM, "knowledge_id": "k-2"}}, 400, "invalid_field", "item.knowledge_id"),
        ("/k-1/revisions", {**WHY, "item": ITEM, "expected_revision": 2}, 409, "item_conflict", "expected_revision"),
        ("/k-1/revisions", {**WHY, "item": ITEM, "expected_revision": True}, 400, "invalid_field", "expected_revision"),
        ("/gone/revisions", {**WHY, "item": {"proposition": RULE}}, 409, "item_conflict", ""),
        ("/none/revisions", {**WHY, "item": {"proposition": RULE}}, 404, "item_unknown", "knowledge_id"),
        ("/k-1/state", {**WHY, "state": "great"}, 400, "invalid_item", "state"),
        ("/k-1/state", {**WHY, "state": "at_risk"}, 409, "item_conflict", "state"),
        ("/k-1/state", {**WHY, "state": "superseded"}, 400, "invalid_item", "replaced_by"),
        ("/k-1/state", {**WHY, "state": "superseded", "replaced_by": "gone"}, 400, "invalid_item", "replaced_by"),
        ("/gone/state", {**WHY, "state": "confirmed"}, 409, "item_conflict", "state"),
        ("/none/state", {**WHY, "state": "confirmed"}, 404, "item_unknown", "knowledge_id"),
        ("/k-1/suspension", {**WHY, "suspended": "no"}, 400, "invalid_field", "suspended"),
        ("/k-1/evidence", {"run_id": "r", "supports": True}, 400, "missing_field", "note"),
        ("/k-1/evidence", {"run_id": " ", "supports": True, "note": "n"}, 400, "invalid_item", "run_id"),
        ("/k-1/evidence", {"run_id": "r", "supports": 1, "note": "n"}, 400, "invalid_field", "supports"),
        ("/k-1/evidence", {"run_id": "r", "supports": True, "note": "ghp_" + "a1B2" * 9}, 400, "invalid_item", "note"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_nothing_changes(
    curator: Curator, place: str, body: Any, status: int, code: str, field: str
) -> None:
    """By code, field and status; every row is as it was, and nothing that was sent is repeated."""
    made(curator)
    made(curator, knowledge_id="gone", state="invalidated")
    state = snapshot()
    answer = curator.post(ITEMS + place, body)
    told = answer.json()
    assert (answer.status_code, told["code"], told.get("field", "")) == (status, code, field), told
    assert "ghp_" not in told["detail"]
    assert snapshot() == state


def test_a_stale_edit_names_both_revisions(curator: Curator) -> None:
    """Whoever edits what was read before somebody else's edit is told so, and their text is not written."""
    made(curator)
    assert (
        curator.post(f"{ITEMS}/k-1/revisions", {"item": ITEM, "reason": "r", "expected_revision": 1}).status_code == 200
    )
    answer = curator.post(f"{ITEMS}/k-1/revisions", {"item": ITEM, "reason": "r", "expected_revision": 1})
    assert answer.status_code == 409
    assert "at revision 2" in answer.json()["detail"] and "from revision 1" in answer.json()["detail"]
    assert KnowledgeRevision.objects.count() == 2


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=great", "state"), ("kind=guess", "kind"), ("colour=red", "colour"), ("limit=0", "limit"),
     ("limit=201", "limit"),
     ("cursor=!", "cursor"), ("suspended=maybe", "suspended"), ("q=" + "x" * 201, "q"), ("topic=a%00", "topic")],
)  # fmt: skip
def test_a_wrong_filter_is_named(curator: Curator, query: str, field: str) -> None:
    """Unknown names, unknown words, numbers out of range, cursors that are none: 400 with the parameter."""
    answer = curator.client.get(f"{ITEMS}?{query}", headers=curator.headers)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_bodies_are_limited(curator: Curator, settings: Any) -> None:
    """Of a request about one item, and of an import: 413, and nothing is done."""
    settings.KNOWLEDGE_MAX_BODY_BYTES = settings.KNOWLEDGE_IMPORT_MAX_BYTES = 50
    assert curator.post(ITEMS, {"item": ITEM, "reason": "r"}).status_code == 413
    assert curator.send(write_line(ItemDraft("k", RULE)).encode()).status_code == 413
    assert not KnowledgeItem.objects.exists()


def test_scopes_say_who_may(curator: Curator) -> None:
    """Reading needs `read`, writing `curate`; one is not the other, and ingest is neither."""
    made(curator)
    state = snapshot()
    for scope, reads, writes in (("read", 200, 403), ("curate", 403, 201), ("ingest", 403, 403), ("observe", 403, 403)):
        key = Curator(curator.project, scope)
        for url in (ITEMS, f"{ITEMS}/k-1", "/v1/knowledge/export"):
            assert key.get(url).status_code == reads, (scope, url)
        if writes == 403:
            for place in ("", "/k-1/revisions", "/k-1/state", "/k-1/suspension", "/k-1/evidence"):
                assert key.post(ITEMS + place, {}).status_code == 403
            assert key.send(b"").status_code == 403
            assert snapshot() == state
        else:
            assert key.post(ITEMS, {"item": {**ITEM, "knowledge_id": "k-2"}, "reason": "r"}).status_code == 201
            state = snapshot()


def test_another_project_has_no_such_item(curator: Curator) -> None:
    """Every address answers 404 for an item of another project, whose rows stay; our lists hold none of it."""
    other = make_project("beta")
    create_item(other, ItemDraft("theirs", RULE), by="b", reason="r")
    state = snapshot()
    at = f"{ITEMS}/theirs"
    answers = [
        curator.get(at),
        curator.post(f"{at}/revisions", {"item": {"proposition": RULE}, "reason": "r"}),
        curator.post(f"{at}/state", {"state": "confirmed", "reason": "r"}),
        curator.post(f"{at}/suspension", {"suspended": True, "reason": "r"}),
        curator.post(f"{at}/evidence", {"run_id": "r", "supports": True, "note": "n"}),
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert curator.ids() == [] and curator.get("/v1/knowledge/export").getvalue() == b""
    made_of_ours = curator.send(write_line(ItemDraft("theirs", "Run `ours`.")).encode())
    assert made_of_ours.json()["created"] == 1
    assert KnowledgeRevision.objects.get(item__project=other).proposition == RULE
    assert snapshot()[0][0] == state[0][0]


def packed(*drafts: ItemDraft) -> bytes:
    made_zip = io.BytesIO()
    with zipfile.ZipFile(made_zip, "w") as archive:
        for number, draft in enumerate(drafts):
            archive.writestr(f"{number}.md", write_markdown(draft))
    return made_zip.getvalue()


TWO = (ItemDraft("a", RULE, state="confirmed"), ItemDraft("b", "Run `b`."))
LINES = "\n".join(map(write_line, TWO)).encode()
EMPTY = b'\n{"knowledge_id": "c", "proposition": ""}'
LED_NOWHERE = write_line(ItemDraft("c", RULE, state="superseded", replaced_by="no")).encode()


@pytest.mark.parametrize(
    ("data", "content_type", "number"),
    [
        (LINES, "application/jsonl", 2),
        (LINES, "application/x-ndjson; charset=utf-8", 2),
        (packed(*TWO), "application/zip", 2),
        (write_markdown(TWO[0]).encode(), "text/markdown", 1),
    ],
    ids=["lines", "ndjson", "zip", "markdown"],
)
def test_an_import_is_told_beforehand_and_changes_nothing_twice(
    curator: Curator, data: bytes, content_type: str, number: int
) -> None:
    """A dry run says what the import then does, and writes nothing; the second import finds all unchanged."""
    state = snapshot()
    told = curator.send(data, content_type, "?dry_run=1").json()
    assert snapshot() == state
    done = curator.send(data, content_type).json()
    assert (told.pop("dry_run"), done.pop("dry_run")) == (True, False)
    assert told == done and done["created"] == number and done["created_ids"] == ["a", "b"][:number]
    state = snapshot()
    again = curator.send(data, content_type).json()
    assert (again["created"], again["revised"], again["unchanged"]) == (0, 0, number)
    assert snapshot() == state


def test_an_import_revises_what_differs_and_names_itself(curator: Curator) -> None:
    """Who and why stand in the history; the state of an item that exists is not touched."""
    curator.send(LINES)
    changed = write_line(ItemDraft("a", "Run `a2`.", state="proposed")).encode()
    done = curator.send(changed, "application/jsonl", "?by=ada&reason=better").json()
    assert (done["revised"], done["revised_ids"]) == (1, ["a"])
    item = curator.get(f"{ITEMS}/a").json()
    assert (item["state"], item["revision"]) == ("confirmed", 2)
    assert (item["history"][0]["by"], item["history"][0]["reason"]) == ("ada", "better")


@pytest.mark.parametrize(
    ("data", "content_type", "status", "told"),
    [
        (LINES, "application/json", 415, {"field": "Content-Type"}),
        (LINES + b"\n{", "application/jsonl", 400, {"file": "body", "line": 3}),
        (LINES + b"\n" + LINES, "application/jsonl", 400, {"field": "knowledge_id", "line": 3}),
        (LINES + EMPTY, "application/jsonl", 400, {"field": "proposition", "line": 3}),
        (b"no front matter", "text/markdown", 400, {"file": "body", "line": 1}),
        (b"no zip", "application/zip", 400, {"file": "zip"}),
        (packed(*TWO, ItemDraft("c", RULE), ItemDraft("d", RULE)), "application/zip", 422, {"limit": 3}),
        (LINES.replace(b'"a"', b'"c"') + b"\n" + LINES, "application/jsonl", 400, {"field": "knowledge_id"}),
        (LED_NOWHERE, "application/jsonl", 400, {"field": "replaced_by"}),
    ],
)  # fmt: skip
def test_an_import_that_is_wrong_does_nothing(
    curator: Curator, settings: Any, data: bytes, content_type: str, status: int, told: dict[str, Any]
) -> None:
    """Refused by file, line, field and limit; also when only one item of many is wrong."""
    settings.KNOWLEDGE_IMPORT_MAX_ITEMS = 3
    state = snapshot()
    answer = curator.send(data, content_type)
    assert answer.status_code == status, answer.content
    assert told.items() <= answer.json().items(), answer.json()
    assert snapshot() == state


@pytest.mark.parametrize(("form", "content_type"), [("jsonl", "application/jsonl"), ("markdown", "application/zip")])
def test_what_is_exported_is_imported_elsewhere(curator: Curator, form: str, content_type: str) -> None:
    """The whole project in one answer, which another project takes as it is."""
    curator.send(LINES)
    exported = curator.get("/v1/knowledge/export", format=form)
    assert exported.headers["Content-Type"] == content_type
    other = Curator(make_project("beta"))
    data = exported.getvalue()
    assert other.send(data, content_type).json()["created"] == 2
    assert other.get("/v1/knowledge/export", format=form).getvalue() == data
    assert curator.get("/v1/knowledge/export", format="yaml").status_code == 400


def test_an_odd_id_has_an_address(curator: Curator) -> None:
    """An id with a slash and a percent sign is quoted twice, and its item says how."""
    item = made(curator, knowledge_id="a/b %2F.д")
    assert curator.get(item["url"]).json()["knowledge_id"] == "a/b %2F.д"
