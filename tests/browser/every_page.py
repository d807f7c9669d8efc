"""The pages a person can see, by the names of their addresses, and a project that has something on each of them."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

from debugger.grants import Ask, Choice, decide
from debugger.views.urls import urlpatterns
from ingest.accept import accept_events
from ingest.authentication import create_key
from ingest.models import ApiKey, Project
from knowledge.drafts import ItemDraft
from knowledge.items import create_item, revise_item
from tests.debugger.test_behaviour_page import NAME as BENCHMARK
from tests.debugger.test_behaviour_page import document as benchmark_document
from tests.debugger.test_compare_page import other_run
from tests.debugger.test_conformance_page import document
from tests.debugger.test_escalations import escalated_run
from tests.effect_runs import Series, run_experiment
from tests.factories import make_person, make_project, send, typical_run
from tests.knowledge.spans import TRACE, agent_run
from tests.spoken_run import spoken_run

ERROR: Final = "fatal: not a git repository"
LONG: Final = "a-very-long-name-" + "n" * 150


@dataclass(frozen=True, slots=True)
class View:
    """One look at a page: name of its picture, address, status of its answer, and what is clicked or pressed there."""

    name: str
    path: str
    status: int = 200
    click: str = ""
    press: str = ""
    signed_out: bool = False


# name of the address -> what is looked at there. A page in several states is several views.
VIEWS: Final[dict[str, list[View]]] = {
    "conformance": [View("conformance", "/conformance/")],
    "conformance-cell": [View("conformance-cell", "/conformance/outside-catalogue/scripted/")],
    "sign-in": [View("sign-in", "/sign-in/", signed_out=True)],
    "sign-in-link": [View("sign-in-spent", "/sign-in/a-link-that-was-never-made/", 410, signed_out=True)],
    "run-list": [
        View("runs", "/alpha/runs/"),
        View("runs-none-match", "/alpha/runs/?text=nothing-has-this"),
        View("runs-bad-filter", "/alpha/runs/?status=a%20b", 400),
        View("runs-first", "/beta/runs/"),
        View("account-menu", "/alpha/runs/", click=".tools .menu summary"),
        View("keyboard-help", "/alpha/runs/", press="?"),
    ],
    "run-compare": [
        View("compare", "/alpha/compare/?a=r-42&b=alike-1"),
        View("compare-choose", "/alpha/compare/?a=r-42"),
        View("compare-lost", "/alpha/compare/?a=r-42&b=nowhere", 404),
        View("compare-first", "/beta/compare/"),
    ],
    "run-new": [
        View("run-new", "/alpha/runs/new/start/?scenario=team"),
        View("run-again", "/alpha/runs/new/start/?again=r-42"),
    ],
    "run-detail": [
        View("run", "/alpha/runs/r-42/"),
        View("run-live", "/alpha/runs/live/"),
        View("run-spoken", "/alpha/runs/spoken/"),
        View("run-foreign", f"/alpha/runs/{TRACE}/"),
        View("run-escalated", "/alpha/runs/asked/"),
        View("run-why", "/alpha/runs/r-42/?event=r-42%3A8"),
        View("run-event", "/alpha/runs/r-42/?event=r-42%3A6"),
        View("run-none-match", "/alpha/runs/r-42/?q=nothing-has-this"),
        View("run-delete", "/alpha/runs/r-42/", click="#ask-delete summary"),
        View("run-unfolded", "/alpha/runs/behind/"),
        View("run-unknown", "/alpha/runs/nowhere/", 404),
    ],
    "run-started": [View("run-started", "/alpha/runs/not-yet/started/")],
    "run-chain": [
        View("chain", "/alpha/runs/r-42/chain/"),
        View("chain-node", "/alpha/runs/r-42/chain/?node=offered"),
        View("chain-none", "/alpha/runs/spoken/chain/"),
        View("chain-unfolded", "/alpha/runs/behind/chain/"),
    ],
    "run-waiting": [View("waiting", "/alpha/runs/live/waiting/")],
    "why": [View("why-page", "/alpha/runs/r-42/activations/r-42:a1/")],
    "event-detail": [View("event-page", "/alpha/runs/r-42/events/r-42:5/")],
    "request-detail": [
        View("request", "/alpha/runs/r-42/requests/r-42:14/"),
        View("request-spoken", "/alpha/runs/spoken/requests/spoken:11/"),
    ],
    "keys": [View("keys", "/alpha/keys/"), View("keys-none", "/beta/keys/")],
    "key-deliveries": [View("key", "/alpha/keys/{key}/")],
    "knowledge-list": [
        View("knowledge", "/alpha/knowledge/"),
        View("knowledge-none-match", "/alpha/knowledge/?q=nothing-has-this"),
        View("knowledge-export", "/alpha/knowledge/", click=".actions summary"),
        View("knowledge-first", "/beta/knowledge/"),
    ],
    "knowledge-new": [View("knowledge-new", "/alpha/knowledge/new/")],
    "knowledge-try": [
        View("knowledge-try", "/alpha/knowledge/try/"),
        View("knowledge-tried", f"/alpha/knowledge/try/?tool_result={ERROR}&tool=git&knowledge_id={LONG}"),
    ],
    "knowledge-item": [
        View("knowledge-item", "/alpha/knowledge/items/k-17/?revision=2"),
        View("knowledge-long-item", f"/alpha/knowledge/items/{LONG}/", click="details.move summary"),
    ],
    "knowledge-revise": [View("knowledge-revise", f"/alpha/knowledge/items/{LONG}/revise/")],
    "effects": [
        View("effects", "/alpha/effects/"),
        View("effects-bad-filter", "/alpha/effects/?group=colour", 400),
        View("effects-none", "/beta/effects/"),
    ],
    "effect-items": [View("effect-items", "/alpha/effects/items/"), View("effect-items-none", "/beta/effects/items/")],
    "experiments": [View("experiments", "/alpha/experiments/")],
    "behaviour-report": [
        View("behaviour", f"/alpha/experiments/reports/{BENCHMARK}/"),
        View("behaviour-unknown", "/alpha/experiments/reports/no-such-report/", 404),
    ],
    "escalation-list": [View("escalations", "/alpha/escalations/"), View("escalations-none", "/beta/escalations/")],
    "escalation": [
        View("escalation", "/alpha/escalations/asked/"),
        View("escalation-decided", "/alpha/escalations/decided/"),
    ],
    "operations": [View("operations", "/alpha/operations/"), View("operations-empty", "/beta/operations/")],
    "project-settings": [View("settings", "/alpha/settings/")],
}
# name of an address that shows no page of its own -> why
NO_PAGE: Final = {
    "healthz": "words for a probe",
    "readyz": "words for a probe",
    "metrics": "figures for Prometheus",
    "home": "leads to the runs of the first project",
    "sign-out": "a POST that leads to the sign-in page",
    "run-list-rows": "rows for the table of the runs",
    "run-rows": "rows for a timeline",
    "run-answer": "a POST, told in the place of the ask (test_driving)",
    "run-cancel": "a POST, told in the place of the ask (test_driving)",
    "hint-verdict": "a POST from the panel of an activation",
    "run-delete": "a POST from the run's page",
    "event-data": "a file",
    "request-data": "a file",
    "request-message": "a file",
    "key-quota": "a POST from the key's page",
    "key-revoke": "a POST from the list of keys",
    "knowledge-tokens": "the count beside a rule",
    "knowledge-starter": "a POST from the empty list",
    "knowledge-export": "a file",
    "knowledge-change": "a POST from the item's page",
    "effect-suspend": "a POST from the items' effects",
    "benchmark-start": "a POST from the experiments",
    "project-retention": "a POST from the settings",
    "project-redaction": "a POST from the settings",
    "project-delete": "a POST from the settings",
}


def names_of_addresses() -> set[str]:
    """Return the names of all addresses of the pages; those that end in -file give a table as a file."""
    return {str(pattern.name) for pattern in urlpatterns if not str(pattern.name).endswith("-file")}


def fill(alpha: Project, report: Path) -> ApiKey:
    """Give `alpha` something for every page, `beta` nothing at all, and make the conformance report; return a key."""
    recent = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=2)
    for run_id in ("r-42", "r-1", "r-2"):
        send(alpha, typical_run(run_id, recent - timedelta(minutes=len(run_id))))
    send(alpha, typical_run("live", recent, ended=False)[:20])
    send(alpha, typical_run("behind", recent, ended=False)[:14])
    accept_events(alpha.pk, typical_run("behind", recent)[14:])
    for events in (other_run("alike-1"), spoken_run()[0], agent_run(), escalated_run(), escalated_run("decided")):
        send(alpha, events)
    asked = Ask("decided", "decided:4", "release", "builder")
    decide(alpha, asked, Choice("granted", ("deploy",), "for this release"), "alice")
    _items(alpha)
    report.write_text(json.dumps(document()))
    (report.parent / f"{BENCHMARK}.json").write_text(json.dumps(benchmark_document()))
    _experiment(alpha, recent.date())
    make_project("beta").memberships.create(user=alpha.memberships.get().user)
    make_person("a-person-with-a-long-name-" + "n" * 100, alpha)
    create_key(alpha, "my exporter", ["ingest", "observe", "read"])
    return ApiKey.objects.get(project=alpha)


def _experiment(alpha: Project, today: date) -> None:
    """Draws of two items over three days, one of them harmful: something for every chart."""
    for back in range(3):
        day = today - timedelta(days=back)
        for knowledge_id, n_good in (("k-17", (6, 33)), ("k-good", (45, 15))):
            for arm, n in zip(("offered", "withheld"), n_good, strict=True):
                run_experiment(alpha, Series(arm, 50, n, knowledge_id, day=day, tool=knowledge_id), name=f"x{back}")


def _items(alpha: Project) -> None:
    create_item(alpha, ItemDraft("k-17", "Run `git init`.", state="confirmed"), by="alice", reason="seen")
    revise_item(alpha, ItemDraft("k-17", "Run `git init -b main` first."), by="bob", reason="the branch")
    draft = ItemDraft(
        LONG, f"Run `{LONG}` and {'word ' * 40}.", state="confirmed", why=LONG, entities=(LONG, "not a git repository"),
        topics=(LONG,), error_examples=(ERROR, LONG), tool="shell", evidence=(LONG,),
    )  # fmt: skip
    create_item(alpha, draft, by="n" * 100, reason=LONG)
