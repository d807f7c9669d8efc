"""What holds for every version of FindHints whatever is known and asked: through the database, for each of VERSIONS.

Few examples of each, the same on every run: all of it takes seconds. (Seed 001 §7.3, §9.1, §13.)
"""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.stages import HOLD_REASONS, RETIRED_STATES
from ingest.models import Project
from ingest.repair import Repairs, clean_text
from knowledge.drafts import ItemDraft
from knowledge.find_hints import VERSIONS, find_hints
from knowledge.find_hints.findings import Findings, HintQuery
from knowledge.items import TRANSITIONS, change_state, import_items
from knowledge.models import KnowledgeItem
from knowledge.offering import answer_all
from tests.knowledge.asking import URL, add_item, key_for, make_project, post

pytestmark = [pytest.mark.django_db, pytest.mark.parametrize("version", VERSIONS)]

EXAMPLES = 10
FEW = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
WORDS = st.sampled_from(
    ["git", "not", "repository", "sqlite", "table", "flux", "jam", "не", "модуль", "branch", "E0432", "no-such-file"]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=7).map(" ".join)
DRAFTS = st.lists(
    st.builds(
        ItemDraft,
        st.integers(0, 99).map(lambda number: f"k-{number:02}"),
        TEXTS.map(lambda text: f"On {text}: run `act`."),
        kind=st.sampled_from(["claim", "observation"]),
        state=st.sampled_from(["confirmed", "proposed", "challenged", "at_risk", "invalidated"]),
        entities=st.lists(TEXTS, max_size=2).map(tuple),
        topics=st.lists(WORDS, max_size=2).map(tuple),
        error_examples=st.lists(TEXTS, max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda draft: draft.knowledge_id,
)


@pytest.fixture
def use(settings: Any, version: str) -> str:
    """Let requests be answered by the version."""
    settings.HINTS_ALGORITHM = version
    return version


@contextmanager
def knowing(drafts: Sequence[ItemDraft], slug: str = "alpha") -> Iterator[Project]:
    """A project that knows these items and is gone, with all that hangs on it, after the block."""
    with transaction.atomic():
        project = make_project(slug)
        import_items(project, list(drafts), by="tester")
        yield project
        transaction.set_rollback(True)


def asking(text: str, activation: str = "r-1:a1", **fields: Any) -> HintQuery:
    return HintQuery("r-1", activation, "tool.failed", tool="shell", tool_result=text, **fields)


def ids(answer: dict[str, Any]) -> list[str]:
    return [hint["knowledge_id"] for hint in answer["hints"]]


def check_findings(findings: Findings, limit: int) -> None:
    """Check what holds of all findings: dense ranks, known reasons, hints within the limit, nothing twice."""
    found = [one.item.knowledge_id for one in findings.candidates]
    assert len(found) == len(set(found))
    assert [one.rank for one in findings.candidates] == list(range(1, len(found) + 1))
    assert len(findings.offered) <= limit
    assert {one.hold_reason for one in findings.candidates} <= {"", *HOLD_REASONS}
    assert not {one.item.state for one in findings.offered} & {*RETIRED_STATES, "at_risk"}
    assert all(one.matched_by for one in findings.offered)


@FEW
@given(drafts=DRAFTS, text=TEXTS, limit=st.integers(1, 20), seed=st.integers(0, 9))
def test_the_same_question_finds_the_same(use: str, drafts: list[ItemDraft], text: str, limit: int, seed: int) -> None:
    """Asked again, and in a project that came to know the items in another order: ties included."""
    query = asking(text, limit=limit)
    with knowing(drafts) as project:
        first, again = find_hints(project.pk, query, use), find_hints(project.pk, query, use)
        answers = [answer_all(project, [replace(query, activation_id=name)])[0] for name in ("one", "two")]
    shuffled = random.Random(seed).sample(drafts, len(drafts))
    with knowing(shuffled, "beta") as project:
        other = find_hints(project.pk, query, use)
    assert first == again == other
    check_findings(first, limit)
    without_ids = [json.dumps(answer).replace(answer["activation_id"], "") for answer in answers]
    assert without_ids[0] == without_ids[1]


@FEW
@given(drafts=DRAFTS, texts=st.lists(TEXTS, min_size=2, max_size=4), limit=st.integers(1, 3))
def test_a_batch_offers_nothing_twice(use: str, drafts: list[ItemDraft], texts: list[str], limit: int) -> None:
    """Neither an item nor a text, and asked again in parts it still does not."""
    queries = [asking(text, f"r-1:a{number}", limit=limit) for number, text in enumerate(texts)]
    with knowing(drafts) as project:
        (last,) = answer_all(project, queries[-1:])
        answers = answer_all(project, queries)
        assert answers[-1] == last
        assert answer_all(project, queries) == answers
    offered = [one for answer in answers for one in ids(answer)]
    rules = [hint["proposition"].lower() for answer in answers for hint in answer["hints"]]
    assert len(offered) == len(set(offered)) and len(rules) == len(set(rules))


@FEW
@given(drafts=DRAFTS, texts=st.lists(TEXTS, min_size=2, max_size=5))
def test_a_run_is_offered_nothing_twice(use: str, drafts: list[ItemDraft], texts: list[str]) -> None:
    """When each search is told what stands in the history, no search offers it again."""
    issued: tuple[str, ...] = ()
    with knowing(drafts) as project:
        for number, text in enumerate(texts):
            (answer,) = answer_all(project, [asking(text, f"r-1:a{number}", issued=issued)])
            assert not set(ids(answer)) & set(issued)
            issued += tuple(ids(answer))
    assert len(issued) == len(set(issued))


@FEW
@given(drafts=DRAFTS, text=TEXTS, steps=st.lists(st.integers(0, 10_000), max_size=8))
def test_a_retired_item_is_never_offered(use: str, drafts: list[ItemDraft], text: str, steps: list[int]) -> None:
    """Whatever way of the lifecycle its items went: only live ones are offered, also in place of retired ones."""
    with knowing(drafts) as project:
        for step in steps:
            walk(project, step)
        findings = find_hints(project.pk, asking(text, limit=20), use)
        states = dict(KnowledgeItem.objects.filter(project=project).values_list("knowledge_id", "state"))
    check_findings(findings, 20)
    assert {states[one.item.knowledge_id] for one in findings.offered} <= {"confirmed", "proposed", "challenged"}
    held = {one.item.knowledge_id: one.hold_reason for one in findings.candidates if one.hold_reason}
    assert all(reason for name, reason in held.items() if states[name] in RETIRED_STATES)


def walk(project: Project, step: int) -> None:
    """Move one item of the project to one of the states it may go to next; one that has nowhere to go stays."""
    items = list(KnowledgeItem.objects.filter(project=project).order_by("knowledge_id"))
    item = items[step % len(items)]
    targets = sorted(TRANSITIONS.get(item.state, ()))
    if not targets:
        return
    target = targets[step // len(items) % len(targets)]
    live = [one.knowledge_id for one in items if one.state not in RETIRED_STATES and one.pk != item.pk]
    if target in ("superseded", "corrected") and not live:
        return
    new = live[step % len(live)] if target in ("superseded", "corrected") else None
    change_state(project, item.knowledge_id, target, by="ada", reason="walk", replaced_by=new)


HOSTILE = [
    "'; DROP TABLE knowledge_knowledgeitem; --",
    "\"quoted\" 'single' \\ back \\\" slash \\' \\\\",
    "-b -- --not -gizmo | & ! ( ) <-> :* :A *",
    "a:* & b | !c <-> (d) <2> e:AB",
    "%s %(x)s {0} {} $1 $$ :name ?",
    "\x00 nul \x00",
    "\ud800 lone \udfff",
    "🙂🙃" * 4_096,
    "ошибка: не найден модуль " * 300,
    "خطأ: لم يتم العثور على الملف \u202e\u200f ".strip() * 200,
    "e\u0301" * 4_096,
    "n\u0303o\u0308" + "\u0335" * 3_000,
    "x" * 8_192,
    "a-" * 4_096,
    "ＦＵＬＬ ｗｉｄｔｈ ﬁ ligature ß İ ı",
    "/usr/lib/" * 900,
    "0x" + "f" * 8_000,
    "\n" * 8_192,
    "\t\r\x0b\x0c\x1b[31m\x85\u2028",
    "",
]


@pytest.mark.parametrize("text", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_hostile_text_is_only_text(use: str, text: str) -> None:
    """Through the API: answered, nothing invented, and what is said beside it is still found."""
    project = make_project("alpha")
    add_item(project, "git-init", entities=("not a git repository",), error_examples=("fatal: not a git repository",))
    key = key_for(project)
    arguments = [cut for made in (text, json.dumps({"command": text})) if (cut := made[:1_024])]
    for called_with in arguments:
        sent = {"run": "r-1", "trigger": "tool.failed", "tool_result": "x", "tool_arguments": called_with}
        response = post(key, sent, URL)
        assert (response.status_code, response.json()["hints"]) == (200, [])
    for field in ("tool_result", "query", "entities", "topics", "tool"):
        cut = text[:4_096] if field == "query" else text[:200] if field in ("entities", "topics", "tool") else text
        value: Any = [cut or "x"] if field in ("entities", "topics") else cut
        response = post(key, {"run": "r-1", "trigger": "tool.failed", field: value}, URL)
        assert (response.status_code, response.json()["hints"]) == (200, [])
    beside = {"run": "r-1", "trigger": "tool.failed", "query": text[:4_096], "tool_arguments": text[:1_024],
              "tool_result": f"{text[:8_000]}\nfatal: not a git repository"}  # fmt: skip
    assert ids(post(key, beside).json()) == ["git-init"]


@FEW
@given(
    text=st.text(max_size=400) | st.text(st.characters(categories=["Mn", "Cf", "So", "Sk", "Pi", "Cc"]), max_size=99),
    times=st.integers(1, 60),
)
def test_any_text_can_be_asked(use: str, text: str, times: int) -> None:
    """Up to 8,192 code points of anything, in every field that is searched, made storable as the API does it."""
    asked = clean_text((text * times)[:8_192], Repairs())
    with knowing([ItemDraft("k", "Flux jam: run `cool`.", entities=("flux jam",))]) as project:
        name = asked[:200]
        query = asking(asked, query=asked[:4_096], error_class=name, entities=(name,), topics=(name,))
        findings = find_hints(project.pk, query, use)
        (answer,) = answer_all(project, [query])
        assert answer["counts"]["retrieved"] == len(findings.candidates)
    check_findings(findings, 8)


def test_twenty_thousand_words_can_be_asked(use: str) -> None:
    """More than the API lets through: a search within the process is bounded by itself."""
    words = " ".join(f"word{number}" for number in range(20_000))
    with knowing([ItemDraft("k", "Flux jam: run `cool`.", entities=("flux jam",), state="confirmed")]) as project:
        assert find_hints(project.pk, asking(words), use).offered == ()
        assert [one.item.knowledge_id for one in find_hints(project.pk, asking(f"{words}\nflux jam"), use).offered] == [
            "k"
        ]


def test_nobody_elses_items_are_found(use: str) -> None:
    """Two projects with the same ids and the same errors: each finds its own rules, and no retired one of the other."""
    draft = ItemDraft("k", "Rule of alpha: `alpha`.", entities=("flux jam",), error_examples=("flux jam",),
                      state="confirmed")  # fmt: skip
    with knowing([draft]) as alpha, knowing([replace(draft, proposition="Rule of beta: `beta`.")], "beta") as beta:
        change_state(alpha, "k", "invalidated", by="ada", reason="wrong")
        mine, theirs = (find_hints(one.pk, asking("flux jam"), use) for one in (alpha, beta))
    assert [one.hold_reason for one in mine.candidates] == ["retired"]
    assert [one.item.proposition for one in theirs.offered] == ["Rule of beta: `beta`."]
