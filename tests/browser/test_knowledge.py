"""A curator at the knowledge pages in a real browser: writing, trying, challenging, replacing; at every width."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from knowledge.drafts import ItemDraft
from knowledge.exchange.starter import starter_drafts
from knowledge.items import create_item, revise_item
from knowledge.models import HintAnswer
from tests.browser.conftest import Visitor
from tests.factories import send, typical_run

pytestmark = pytest.mark.browser

ERROR = "fatal: not a git repository (or any of the parent directories): .git"
LIST, TRY = "/alpha/knowledge/", "/alpha/knowledge/try/"


def write(page: Page, knowledge_id: str, rule: str, example: str = "") -> None:
    """Fill the form of a new item and make it."""
    page.goto("/alpha/knowledge/new/")
    page.get_by_label("Id", exact=True).fill(knowledge_id)
    page.get_by_label("Rule", exact=True).fill(rule)
    page.get_by_label("Error example 1").fill(example)
    page.get_by_label("State").select_option("confirmed")
    page.get_by_label("Reason").fill("seen in r-42")
    page.get_by_role("button", name="Make the item").click()


def move(page: Page, label: str, reason: str, **fields: str) -> None:
    """Open a move on an item's page, fill it and carry it out."""
    box = page.locator("details.move").filter(has=page.locator("summary", has_text=re.compile(f"^{label}")))
    box.locator("summary").click()
    for name, value in fields.items():
        box.locator(f"[name={name}]").fill(value)
    box.get_by_label("Reason").fill(reason)
    box.get_by_role("button").click()


def tried(page: Page, text: str) -> Locator:
    page.goto(TRY)
    page.get_by_label("What happened").fill(text)
    page.get_by_role("button", name="Find hints").click()
    answer = page.locator("#tried")
    expect(answer).to_contain_text("searched by")
    return answer


def test_a_curators_work(visitor: Visitor) -> None:
    """An item is written, found, challenged and replaced; then its replacement is offered and says in whose place."""
    page = visitor.open(LIST)
    expect(page.locator("#content")).to_contain_text("No knowledge yet")
    page.get_by_role("link", name="Write the first item").click()
    page.get_by_label("Rule", exact=True).fill("x" * 484)
    expect(page.locator("#rule-tokens")).to_contain_text("about 121 of 120 tokens: shorten it")
    write(page, "git-init", "Outside a repository git fails: run `git init` first.", ERROR)
    expect(page.get_by_role("heading", level=1)).to_contain_text("git-init")
    expect(page.locator(".rule code")).to_have_text("git init")
    expect(page.locator("#history + ol")).to_contain_text("seen in r-42")

    answer = tried(page, ERROR)
    expect(answer).to_contain_text("1 hint would be offered")
    expect(page).to_have_url(re.compile(r"/try/\?.*tool_result=fatal"))
    page.reload()  # the address asks the same again
    expect(page.locator("#tried .result")).to_contain_text("git-init")

    page.locator("#tried .result").get_by_role("link", name="git-init").click()
    move(page, "Challenge", "it did not help in r-43")
    expect(page.locator(".facts-box")).to_contain_text("challenged")
    expect(page.locator("#history + ol")).to_contain_text("it did not help in r-43")
    expect(tried(page, ERROR)).to_contain_text("challenged")

    write(page, "git-init-main", "Name the branch when you make one: `init -b main`.")  # nothing of the error is in it
    page.goto("/alpha/knowledge/items/git-init/")
    move(page, "Supersede by", "names the branch as well", replaced_by="git-init-main")
    expect(page.locator(".facts-box")).to_contain_text("Replaced by git-init-main")
    expect(page.locator("details.move")).to_have_count(0)
    answer = tried(page, ERROR)
    expect(answer.locator(".results:not(.held)")).to_contain_text("git-init-main")
    expect(answer.locator(".results:not(.held)")).to_contain_text("stands in for git-init")
    expect(answer.locator(".results.held")).to_contain_text("it was invalidated, superseded or corrected")
    expect(answer.locator(".results.held")).to_contain_text("it is superseded, replaced by git-init-main")
    assert HintAnswer.objects.count() == 0


def test_the_starter_set_is_one_click_away(visitor: Visitor) -> None:
    """The empty page imports what is shipped; search, filters and pages then lead through it without a reload."""
    page = visitor.open(LIST)
    page.get_by_role("button", name="Import the starter set").click()
    expect(page.locator("#item-count")).to_have_text(f"{len(starter_drafts())} items")
    page.keyboard.press("/")
    page.keyboard.type("git-not-a")
    expect(page.locator("#item-count")).to_have_text("1 item matches")
    expect(page).to_have_url(re.compile("q=git-not-a"))
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Sort").select_option("changed")
    expect(page).to_have_url(re.compile("sort=changed"))
    page.get_by_label("any state").select_option("proposed")
    expect(page.locator("#item-count")).to_contain_text("match")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/knowledge/items/"))
    page.get_by_role("link", name="Find it").click()
    expect(page.locator("#tried .result").first).to_be_visible()


def test_from_a_runs_candidate_to_its_item_and_back(visitor: Visitor) -> None:
    """The why panel leads to the item, and the item to the activation that was offered it."""
    create_item(visitor.project, ItemDraft("k-17", "Run `git init` first.", state="confirmed"), by="a", reason="r")
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/r-42/?event=r-42%3A8")
    page.locator("#why").get_by_role("link", name="k-17").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("k-17")
    page.get_by_role("link", name="r-42", exact=True).first.click()
    expect(page.locator("#why")).to_contain_text("k-17")


def test_an_edit_of_an_older_text_keeps_what_was_written(visitor: Visitor) -> None:
    """The second writer sees the first one's words, loses none of their own, and may then save."""
    create_item(visitor.project, ItemDraft("k-17", "Run `git init`."), by="a", reason="r")
    page = visitor.open("/alpha/knowledge/items/k-17/")
    page.get_by_role("link", name="Revise").click()
    page.get_by_label("Rule", exact=True).fill("Run `git init` here.")
    page.get_by_label("Reason").fill("where to")
    revise_item(visitor.project, ItemDraft("k-17", "Run `git init -b main`."), by="bob", reason="the branch")
    page.get_by_role("button", name="Save revision 2").click()
    expect(page.get_by_role("alert")).to_contain_text("the branch")
    expect(page.locator("ins")).to_have_text(" -b main")
    expect(page.get_by_label("Rule", exact=True)).to_have_value("Run `git init` here.")
    page.get_by_role("button", name="Save revision 3").click()
    expect(page.locator(".rule")).to_have_text("Run git init here.")
    page.get_by_role("link", name="Revision 2").click()
    expect(page.locator("#revisions")).to_contain_text("What revision 2 changed")
    expect(page.locator("#revisions ins")).to_have_text(" -b main")
    visitor.complaints = [told for told in visitor.complaints if "409" not in told]  # the browser's word on the answer


def test_nothing_is_cut_off_on_a_narrow_screen(visitor: Visitor) -> None:
    """Nothing scrolls sideways however long ids and words are, and every field has a name."""
    long = "a-very-long-name-" + "n" * 150
    draft = ItemDraft(
        long, f"Run `{long}` and {'word ' * 40}.", state="confirmed", why=long, entities=(long, "not a git repository"),
        topics=(long,), error_examples=(ERROR, long), tool="shell", evidence=(long,),
    )  # fmt: skip
    create_item(visitor.project, draft, by="n" * 100, reason=long)
    create_item(visitor.project, ItemDraft("k-17", "Run `git init` first.", state="confirmed"), by="a", reason="r")
    send(visitor.project, typical_run("r-42"))
    page = visitor.open(LIST, viewport={"width": 400, "height": 860})
    pages = {
        "list": LIST,
        "item": "/alpha/knowledge/items/k-17/",
        "long-item": f"/alpha/knowledge/items/{long}/",
        "revise": f"/alpha/knowledge/items/{long}/revise/",
        "try": f"{TRY}?tool_result={ERROR}&tool=git&knowledge_id={long}",
    }
    for name, address in pages.items():
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        for box in page.locator("details.move summary").all():
            box.click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        fields = page.locator("main :is(input:not([type=hidden]), textarea, select)").all()
        assert all(field.evaluate("field => !!(field.labels.length || field.ariaLabel)") for field in fields), name


@pytest.mark.parametrize("width", [1280, 620, 400])
def test_every_form_of_an_export_can_be_clicked(visitor: Visitor, width: int) -> None:
    """The menu lies over the table and within the window: each of its links gives its file."""
    create_item(visitor.project, ItemDraft("k-1", "Run `cool`."), by="alice", reason="seen")
    page = visitor.open(LIST, viewport={"width": width, "height": 860})
    page.get_by_text("Export", exact=True).click()
    for name, file in (("JSON Lines", "alpha-knowledge.jsonl"), ("Markdown", "alpha-knowledge.zip")):
        link = page.get_by_role("link", name=name)
        box = link.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
        with page.expect_download() as download:
            link.click(timeout=5_000)
        assert download.value.suggested_filename == file
