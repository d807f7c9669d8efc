"""The knowledge pages against hostile items, stale and doubled forms, and people who are not who they should be."""

from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from contract.hint_api import is_id
from knowledge.drafts import ItemDraft
from knowledge.items import add_evidence, create_item, revise_item
from knowledge.models import KnowledgeChange, KnowledgeRevision
from tests.debugger.test_knowledge_pages import World, kept, state_of, world  # noqa: F401

pytestmark = pytest.mark.django_db

SCRIPT = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}{% debug %}"
JS_URL = "javascript:alert(1)"
MARKDOWN = "**b** [x](javascript:alert(1)) `code` ``` <b>"
RTL = "\u202eedoc neddih\u202c עברית \u2066x\u2069"
HOSTILE = {"script": SCRIPT, "url": JS_URL, "markdown": MARKDOWN, "rtl": RTL, "word": "W" * 200, "emoji": "😀" * 200}
ODD_IDS = [
    "a/b/../c", "..", ".", "...", "//", "\\", "?q=1#f", "&amp;", "%", "%2F", "%252F",
    "%00", "é", "e\u0301", "K-17", "+", "new", "revise", SCRIPT,
    "😀" * 200, "я" * 200,
]  # fmt: skip


class Tags(HTMLParser):
    """The tags of a page, and the attributes that run something or lead somewhere."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.risky: list[tuple[str, str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.risky += [
            (tag, name, value)
            for name, value in attrs
            if name.startswith("on")
            or (name in ("href", "src", "action") and not str(value).startswith(("/", "#", "?")))
        ]


def hostile(knowledge_id: str, text: str) -> ItemDraft:
    """An item with `text` in every field that takes it."""
    return ItemDraft(
        knowledge_id, text[:200], why=text, verify=text, caution=text, tool=text, mcp_server=text, version_scope=text,
        entities=(text, ""), topics=(text, "", text), error_examples=(text, "", f"{text}\n{text}"),
        evidence=(text, "", ".", "a/b"), language=text[:10],
    )  # fmt: skip


def pages_of(here: World, knowledge_id: str) -> dict[str, Any]:
    item = [here.project.slug, knowledge_id]
    asked = {"tool_result": "something of it all", "knowledge_id": knowledge_id, "gate": "off"}
    return {
        "list": here.alice.get(reverse("knowledge-list", args=["alpha"])),
        "item": here.alice.get(reverse("knowledge-item", args=item)),
        "revision": here.alice.get(
            reverse("knowledge-item", args=item), {"revision": "1"}, headers={"HX-Request": "true"}
        ),
        "revise": here.alice.get(reverse("knowledge-revise", args=item)),
        "try": here.alice.get(reverse("knowledge-try", args=["alpha"]), asked),
    }


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_an_item_holds_is_shown_as_text(world: World, text: str) -> None:  # noqa: F811
    """Every page has the tags it has with a plain item, and none that runs or leads elsewhere."""
    create_item(world.project, hostile("plain", "plain"), by="a", reason="r")
    named = text if is_id(text) else "hostile"
    create_item(world.project, hostile(named, text), by=text, reason=text)
    revise_item(world.project, hostile(named, f"{text[:190]} 2"), by=text, reason=text)
    revise_item(world.project, hostile("plain", "plain 2"), by="a", reason="r")
    add_evidence(world.project, named, text, supports=True, note=text, by=text)
    add_evidence(world.project, "plain", "plain", supports=True, note="plain", by="a")
    usual, pages = pages_of(world, "plain"), pages_of(world, named)
    for name, page in pages.items():
        assert page.status_code == 200, (name, page.content[:300])
        tags, plain = Tags(page.content.decode()), Tags(usual[name].content.decode())
        assert set(tags.tags) <= {*plain.tags, "code", "ins", "del"}, name
        assert [one for one in tags.risky if one not in plain.risky] == [], name


@pytest.mark.parametrize("knowledge_id", ODD_IDS)
def test_an_item_of_any_id_can_be_looked_after(world: World, knowledge_id: str) -> None:  # noqa: F811
    """Seen, revised, moved and replaced by its links, whatever its id is; its neighbour k-17 stays as it is."""
    before = state_of()
    create_item(world.project, ItemDraft(knowledge_id, "Rule one."), by="a", reason="r")
    create_item(world.project, ItemDraft("next", "Rule two."), by="a", reason="r")
    for name, page in pages_of(world, knowledge_id).items():
        assert page.status_code == 200, (name, page.content[:300])
    listed = world.get("knowledge-list")
    assert f'href="{escape(reverse("knowledge-item", args=["alpha", knowledge_id]))}"' in listed
    form = {"proposition": "Rule new.", "reason": "r", "revision": "1", "kind": "claim", "language": "en"}
    revised = world.alice.post(reverse("knowledge-revise", args=["alpha", knowledge_id]), form)
    assert revised.status_code == 302, revised.content
    assert world.alice.get(revised.headers["Location"]).status_code == 200
    assert world.change("confirmed", knowledge_id).status_code == 302
    assert world.change("superseded", knowledge_id, replaced_by="next").status_code == 302
    assert state_of(knowledge_id) == ("superseded", 2, False, "next")
    assert world.alice.get(reverse("knowledge-item", args=["alpha", "next"])).status_code == 200
    assert state_of() == before


@pytest.mark.parametrize(
    "replaced_by", ["\x00", "x" * 5_000, "\ud800".encode("utf-8", "surrogatepass"), "k-17", " ", "../k-17"]
)
def test_a_replacement_that_is_none_is_told_at_its_field(world: World, replaced_by: Any) -> None:  # noqa: F811
    """What no item can be called, the item itself, and an unknown id are told; nothing moves."""
    before = kept(), state_of()
    answer = world.change("superseded", replaced_by=replaced_by)
    assert answer.status_code == 400 and b'role="alert"' in answer.content
    assert (kept(), state_of()) == before


def test_a_form_sent_twice_counts_once(world: World) -> None:  # noqa: F811
    """Two clicks on one button: the item is made, revised, moved, suspended and given evidence once."""
    new = {
        "knowledge_id": "k-2",
        "proposition": "Run `it`.",
        "reason": "r",
        "state": "proposed",
        "kind": "claim",
        "language": "en",
    }
    new_url = reverse("knowledge-new", args=["alpha"])
    revise_url = reverse("knowledge-revise", args=["alpha", "k-2"])
    assert [world.alice.post(new_url, new).status_code for _ in range(2)] == [302, 409]
    form = {**new, "proposition": "Run `that`.", "revision": "1"}
    assert [world.alice.post(revise_url, form).status_code for _ in range(2)] == [302, 409]
    for move, more in (("evidence", {"run_id": "r-42", "supports": "no"}), ("suspend", {}), ("confirmed", {})):
        seen = KnowledgeChange.objects.filter(item__knowledge_id="k-2").latest("pk").pk
        answers = [world.change(move, "k-2", seen=seen, **more).status_code for _ in range(2)]
        assert answers == [302, 409], move
    told = KnowledgeChange.objects.filter(item__knowledge_id="k-2").order_by("pk").values_list("what", flat=True)
    assert list(told) == ["created", "revised", "evidence", "suspended", "state"]


def test_a_form_without_its_token_changes_nothing(world: World) -> None:  # noqa: F811
    """Each address that writes checks that the form is one of ours."""
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = world.alice.cookies
    before = kept(), state_of()
    for name, args in {
        "knowledge-new": ["alpha"], "knowledge-starter": ["alpha"], "knowledge-revise": ["alpha", "k-17"],
        "knowledge-change": ["alpha", "k-17"], "knowledge-try": ["alpha"], "knowledge-tokens": ["alpha"],
    }.items():  # fmt: skip
        assert strict.post(reverse(name, args=args), {"move": "challenged", "reason": "r"}).status_code == 403, name
    assert (kept(), state_of()) == before


def test_an_address_that_writes_does_not_write_on_get(world: World) -> None:  # noqa: F811
    """A link, a preview or a prefetch changes nothing."""
    before = kept(), state_of()
    for name, args in {
        "knowledge-starter": ["alpha"],
        "knowledge-change": ["alpha", "k-17"],
        "knowledge-tokens": ["alpha"],
    }.items():
        assert world.alice.get(reverse(name, args=args), {"move": "challenged", "reason": "r"}).status_code == 405
    assert (kept(), state_of()) == before


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}, {"HX-Request": "true", "HX-Boosted": "true"}])
@pytest.mark.parametrize(
    "query",
    [
        {"revision": "0"}, {"revision": "99999999999999999999"}, {"revision": "-1"}, {"revision": "x"}, {"cursor": "x"},
        {"cursor": "WyJpZCIsIG51bGwsICJrLTE3Il0"}, {"q": "\x00"}, {"q": "%_\\"}, {"sort": "used", "cursor": "e30"},
        {"topic": "x" * 300},
    ],
    ids=str,
)  # fmt: skip
def test_addresses_typed_by_hand_are_answered(world: World, query: dict[str, str], headers: dict[str, str]) -> None:  # noqa: F811
    """With and without htmx: a page, or a refusal that says why; never an error of the server."""
    for name, args in {
        "knowledge-item": ["alpha", "k-17"],
        "knowledge-list": ["alpha"],
        "knowledge-try": ["alpha"],
    }.items():
        answer = world.alice.get(reverse(name, args=args), query, headers=headers)
        assert answer.status_code in (200, 400), name


SECRET = "AKIA" + "IOSFODNN7QXRT2ZL"


@pytest.mark.parametrize(
    "name",
    ["knowledge_id", "proposition", "why", "verify", "caution", "error_examples", "entities", "topics", "evidence",
     "trigger", "tool", "mcp_server", "version_scope", "kind", "state", "language", "reason"],
)  # fmt: skip
def test_a_secret_in_any_field_of_the_form_is_refused(world: World, name: str) -> None:  # noqa: F811
    """Told at its field, and nothing of it is in the database."""
    before = kept()
    form = {
        "knowledge_id": "k-2",
        "proposition": "Run `it`.",
        "reason": "r",
        "kind": "claim",
        "state": "proposed",
        "language": "en",
    }
    answer = world.alice.post(reverse("knowledge-new", args=["alpha"]), {**form, name: f"x {SECRET}"})
    assert answer.status_code == 400 and b'role="alert"' in answer.content
    answer = world.alice.post(
        reverse("knowledge-revise", args=["alpha", "k-17"]), {**form, "revision": "1", name: f"x {SECRET}"}
    )
    assert answer.status_code == 400 or name in ("knowledge_id", "state")
    assert SECRET not in str(list(KnowledgeRevision.objects.values())) + str(list(KnowledgeChange.objects.values()))
    assert kept()[0] == before[0]


def test_a_secret_in_a_move_is_refused(world: World) -> None:  # noqa: F811
    """In a reason, in the id of a run and in that of a replacement."""
    before = kept(), state_of()
    for move, fields in (
        ("challenged", {"reason": SECRET}),
        ("evidence", {"run_id": SECRET}),
        ("superseded", {"replaced_by": SECRET}),
    ):
        assert world.change(move, **fields).status_code == 400, move
    assert (kept(), state_of()) == before


def test_a_wrong_query_is_told_in_the_words_of_the_form(world: World) -> None:  # noqa: F811
    """The field is called as it is on the page, and beside the form stands that nothing was searched."""
    answer = world.alice.get(reverse("knowledge-try", args=["alpha"]), {"tool_result": "x", "limit": "99"})
    assert answer.status_code == 400
    assert b"Hints at most: a whole number from 1 to 20" in answer.content
    assert b"Nothing was searched" in answer.content and b"Paste what a tool printed" not in answer.content


def test_the_list_shows_commands_as_commands(world: World) -> None:  # noqa: F811
    """As the item's page does; the signs around them are not shown."""
    assert "run <code>git init</code> first." in world.get("knowledge-list")
