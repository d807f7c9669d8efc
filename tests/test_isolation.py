"""Two projects, every address: what one of them holds changes nothing that the other can see, and nothing it can do.

The addresses are those of the resolver, filled with ids of the other project's things and with ids that both have. Each
is asked before the other project has anything and after: the answers are the same, counts, filters and errors included.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from debugger.grants import Ask, Choice, decide
from ingest.accept import accept_events
from ingest.authentication import SCOPES, create_key
from ingest.models import ApiKey, Project
from knowledge.drafts import ItemDraft
from knowledge.items import create_item
from knowledge.models import KnowledgeItem
from tests.factories import Recorder, make_person, make_project, send, typical_run

pytestmark = pytest.mark.django_db

TEXT: Final = "zqxtext"  # stands in every text of the other project, and in none of its ids
HIDDEN_RUN: Final = "zqxid-run"
SHARED_RUN: Final = "run-of-both"
HIDDEN_KEY: Final = 987_654  # number of the other project's key
HINT: Final = "git-init-both"

# What fills an address: a name that is not here fails the test, so that a new kind of address gets its place.
HIDDEN_IDS: Final[dict[str, Any]] = {
    "run_id": HIDDEN_RUN,
    "event_id": f"{HIDDEN_RUN}:5",
    "activation_id": f"{HIDDEN_RUN}:a1",
    "key_id": HIDDEN_KEY,
    "knowledge_id": "zqxid-item",
}
SHARED_IDS: Final[dict[str, Any]] = {
    "run_id": SHARED_RUN,
    "event_id": f"{SHARED_RUN}:5",
    "activation_id": f"{SHARED_RUN}:a1",
    "key_id": HIDDEN_KEY,
    "knowledge_id": HINT,
}
OF_NO_PROJECT: Final = {
    "token": "a-token-that-was-never-made",
    "rest": "no/such/address",
    "condition": "a-condition",
    "column": "a-column",
    "name": "behaviour-none",
    "number": 1,
}

# name -> why it is answered without a key and without signing in
OPEN: Final = {
    "healthz": "says that the process lives",
    "readyz": "says which parts are well, in words",
    "metrics": "counts of the whole instance, guarded by a token or the loopback address",
    "sign-in": "how to sign in",
    "sign-in-link": "signs in by its token",
    "sign-out": "ends a session; without one there is nothing to end",
    "api-event-types": "the published schemas",
    "api-schema": "the published document of the API",
    "api-docs": "the published document as a page",
    "unknown": "there is no such address",
}
INSTANCE_WIDE: Final = ("metrics",)  # differs with everything that happens; holds no word of a project

# An answer that tells its own moment is asked for a given one.
MOMENTS: Final = {"api-effectiveness": "since=2026-11-01T00:00:00Z&until=2127-01-01T00:00:00Z"}

# What an address of the list kind may be asked for.
FILTERS: Final = {
    "run_id": HIDDEN_RUN,
    "run": HIDDEN_RUN,
    "parent_run_id": HIDDEN_RUN,
    "team_root": HIDDEN_RUN,
    "knowledge_id": "zqxid-item",
    "tool": "zqxid-tool",
    "agent": "zqxid-agent",
    "key": str(HIDDEN_KEY),
    "code": "conflict",
    "event": f"{HIDDEN_RUN}:5",
    "after": "0",
    "limit": "1",
}

EVENT: Final = {"event_id": f"{HIDDEN_RUN}:5", "run_id": HIDDEN_RUN, "type": "thinking"}
QUERY: Final = {
    "run": HIDDEN_RUN,
    "trigger": "tool.failed",
    "tool": "shell",
    "tool_result": f"{TEXT}word not a git repository",
    "error_class": "exit_nonzero",
    "query": "zqxid-item",
    "activation_source_id": f"{HIDDEN_RUN}:5",
    "activation_id": f"{HIDDEN_RUN}:a1",
}
# What is posted to the machine API; an address that takes a POST and is not here fails the test.
BODIES: Final[dict[str, Any]] = {
    "api-events": {"events": [{**EVENT, "occurred_at": "2026-11-30T03:00:00Z", "data": {"text": "mine"}}]},
    "api-traces": {
        "resourceSpans": [
            {"scopeSpans": [{"spans": [{"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "mine"}]}]},
        ]
    },
    "api-logs": {"resourceLogs": []},
    "api-hints": QUERY,
    "api-hints-batch": {"requests": [QUERY]},
    "api-items": {"item": {"knowledge_id": "zqxid-item", "proposition": "Run `mine`."}, "reason": "mine"},
    "api-item-revisions": {"item": {"proposition": "Run `mine`."}, "reason": "mine"},
    "api-item-state": {"state": "challenged", "reason": "mine"},
    "api-item-suspension": {"suspended": True, "reason": "mine"},
    "api-item-evidence": {"run_id": HIDDEN_RUN, "supports": False, "note": "mine"},
    "api-items-import": {},
}


@dataclass(frozen=True, slots=True)
class Address:
    """One URL pattern of the project: its name, its route, the names it is filled with, the view's class if any."""

    name: str
    route: str
    names: tuple[str, ...]
    view: Any

    @property
    def is_api(self) -> bool:
        return self.route.startswith("v1/")

    def takes_post(self) -> bool:
        return hasattr(getattr(self.view, "view_class", None) or getattr(self.view, "cls", None), "post")


def walk(resolver: URLResolver, prefix: str = "") -> Iterator[Address]:
    for entry in resolver.url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from walk(entry, route)
        elif isinstance(entry, URLPattern):
            yield Address(entry.name or "unknown", route, tuple(entry.pattern.converters), entry.callback)


ADDRESSES: Final = tuple(walk(get_resolver()))


def filled(address: Address, slug: str, ids: dict[str, Any]) -> str:
    values = {"project": slug, **ids, **OF_NO_PROJECT}
    missing = [name for name in address.names if name not in values]
    assert missing == [], f"{address.route}: say in tests/test_isolation.py which id of a project {missing} is"
    if address.name == "unknown":
        return f"/v1/{OF_NO_PROJECT['rest']}"
    return reverse(address.name, kwargs={name: values[name] for name in address.names})


def every_url(address: Address) -> list[str]:
    """With the other project's slug and our own, with the other's ids and with those that both have."""
    urls = [filled(address, slug, ids) for slug in ("zqxid-other", "beta") for ids in (HIDDEN_IDS, SHARED_IDS)]
    return list(dict.fromkeys(urls))


def queries(address: Address, url: str) -> list[str]:
    """The address as it is; a list of our own also with each filter, for the other project's things."""
    plain = MOMENTS.get(address.name, "")
    is_list = not address.names or address.names == ("project",)
    if not is_list or address.name in OPEN or url.startswith("/zqxid-other/"):
        return [plain]
    return [plain, *(f"{name}={value}" for name, value in FILTERS.items())]


@dataclass(frozen=True, slots=True)
class Own:
    """The project that looks: its person, its key with every scope."""

    project: Project
    person: User
    raw_key: str

    def headers(self, address: Address) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.raw_key}"} if address.is_api else {}

    def client(self, address: Address) -> Client:
        client = Client()
        if not address.is_api:
            client.force_login(self.person)
        return client


def told(response: HttpResponse) -> tuple[int, str, str]:
    """What an answer says: status, where it leads, and its body without what is made anew for each answer."""
    body = response.getvalue().decode(errors="replace")  # of a file that is streamed as well
    body = re.sub(r"[A-Za-z0-9]{64}", "TOKEN", body)  # against forged requests, masked anew in each answer
    body = re.sub(r'"computed_at":"[^"]+"|as of <time.+?</time>|class="took">[^<]+', "", body)  # the answer's own time
    body = re.sub(r'name="key" value="[^"]+"|since=\d+', "", body)  # a form's own name, and since when a page waits
    return response.status_code, response.headers.get("Location", ""), body


@pytest.fixture
def own() -> Own:
    project = make_project("beta")
    send(project, typical_run(SHARED_RUN))
    draft = ItemDraft(HINT, "Own rule: run `git init`.", state="confirmed", entities=("not a git repository",))
    create_item(project, draft, by="b", reason="test")
    accept_events(project.pk, [{"event_id": "bad"}])
    return Own(project, make_person("bob", project), create_key(project, "own", SCOPES)[1])


def make_other() -> Project:
    """Fill the other project with one of everything, with ids that are its own and ids that both have."""
    other = make_project("zqxid-other")
    Project.objects.filter(pk=other.pk).update(name=f"{TEXT} project")
    make_person(f"{TEXT}person", other)
    key, _ = create_key(other, f"{TEXT} key", SCOPES)
    ApiKey.objects.filter(pk=key.pk).update(id=HIDDEN_KEY)
    rule = f"{TEXT} rule: run `zqxtext`."
    for knowledge_id in ("zqxid-item", HINT):
        draft = ItemDraft(knowledge_id, rule, state="confirmed", entities=("not a git repository", f"{TEXT}word"))
        create_item(other, draft, by=TEXT, reason=TEXT)
    for run_id in (HIDDEN_RUN, SHARED_RUN):
        send(other, typical_run(run_id))
        to = Recorder(f"{run_id}-more")
        to.add("run.started", {"task": f"{TEXT} task", "agent": "zqxid-agent"}, parent_run_id=run_id, team_root=run_id)
        to.add("tool.failed", {"detail": TEXT}, tool="zqxid-tool", call_id="c1", knowledge_id="zqxid-item")
        to.add("span", {"name": TEXT, "attributes": {"a": TEXT}})
        asked = to.add("run.escalated", {"reason": TEXT, "reviewer": TEXT}, task_id="zqxid-task")
        send(other, to.events)
        if run_id == SHARED_RUN:  # the other one stays open
            granted = Choice("granted", ("zqxid-tool",), TEXT)
            decide(other, Ask(f"{run_id}-more", asked, "zqxid-task", ""), granted, TEXT)
    accept_events(other.pk, [{"event_id": "zqxid-bad", "run_id": HIDDEN_RUN}], api_key_id=HIDDEN_KEY)
    late = {**typical_run(HIDDEN_RUN)[0], "data": {"task": TEXT}}
    accept_events(other.pk, [late], api_key_id=HIDDEN_KEY)
    return other


def everything_of(project: Project) -> str:
    """Every row that belongs to the project, as text."""
    rows: dict[str, Any] = {}
    for model in apps.get_models():
        names = {field.name for field in model._meta.get_fields()}
        owner = "project" if "project" in names else "item__project" if "item" in names else ""
        if owner:
            rows[model.__name__] = _rows(model, owner, project)
    rows["Project"] = list(Project.objects.filter(pk=project.pk).values())
    assert sum(bool(found) for found in rows.values()) > 8
    return json.dumps(rows, cls=DjangoJSONEncoder, default=repr, sort_keys=True)


def _rows(model: type[Model], owner: str, project: Project) -> list[str]:
    return sorted(repr(row) for row in model._default_manager.filter(**{owner: project}).values_list())


def test_every_address_has_a_name() -> None:
    """The resolver is walked as a whole: the two sides are there, and only what is no address has no name."""
    names = [address.name for address in ADDRESSES]
    assert {"api-events", "run-list", "healthz"} <= set(names)
    assert len(names) == len(set(names))
    assert set(OPEN) - {"unknown"} <= set(names)


def test_nothing_of_the_other_project_is_seen(own: Own) -> None:
    """Each address, filter and id answers as it did before the other project had anything."""
    wanted = [
        (address, f"{url}?{query}")
        for address in ADDRESSES
        if address.name not in INSTANCE_WIDE
        for url in every_url(address)
        for query in queries(address, url)
    ]
    clients = {address.name: own.client(address) for address in ADDRESSES}
    before = {url: told(clients[at.name].get(url, headers=own.headers(at))) for at, url in wanted}
    make_other()
    after = {url: told(clients[at.name].get(url, headers=own.headers(at))) for at, url in wanted}
    assert {url for url, (status, _, _) in after.items() if status >= 500} == set()
    assert [url for url in before if before[url] != after[url]] == []
    assert sum(status == 200 for status, _, _ in after.values()) > 15
    assert [url for url, (_, _, body) in after.items() if TEXT in body] == []


def test_nothing_of_the_other_project_is_changed(own: Own) -> None:
    """Each address is written to with the other project's ids: its rows stay as they are, and nothing of it is told."""
    other = make_other()
    kept = everything_of(other)
    for address in sorted(ADDRESSES, key=lambda address: address.is_api):  # pages first: the API makes runs of ours
        if address.is_api and address.takes_post():
            assert address.name in BODIES, f"say in tests/test_isolation.py what is posted to {address.name}"
        urls = {filled(address, "zqxid-other", HIDDEN_IDS)}
        if set(address.names) - {"project"}:
            urls |= {filled(address, "beta", HIDDEN_IDS), filled(address, "zqxid-other", SHARED_IDS)}
        for url in sorted(urls):
            for method in ("post", "put", "patch", "delete"):
                body = json.dumps(BODIES.get(address.name, {}))
                send_with = getattr(own.client(address), method)
                answer = send_with(url, body, content_type="application/json", headers=own.headers(address))
                assert answer.status_code < 500, (method, url)
                assert TEXT not in answer.content.decode(errors="replace"), (method, url)
                if url.startswith("/zqxid-other/"):
                    assert answer.status_code in (403, 404, 405), (method, url, answer.status_code)
    assert everything_of(other) == kept
    assert KnowledgeItem.objects.filter(project=other).count() == 2


def test_a_cursor_of_the_other_project_opens_nothing(own: Own) -> None:
    """A page of a list that the other project was given leads nowhere with our key."""
    other = make_other()
    _, raw = create_key(other, "reader", SCOPES)
    tried = 0
    for address in ADDRESSES:
        if not address.is_api or address.names:
            continue
        url = reverse(address.name)
        theirs = Client().get(f"{url}?limit=1", headers={"Authorization": f"Bearer {raw}"})
        is_list = theirs.status_code == 200 and "json" in theirs.headers["Content-Type"]
        cursor = theirs.json().get("next") if is_list else None
        if cursor:
            tried += 1
            ours = Client().get(url, {"cursor": str(cursor)}, headers={"Authorization": f"Bearer {own.raw_key}"})
            assert ours.status_code < 500
            assert not re.search(r"zqxtext|zqxid", ours.content.decode()), url
    assert tried >= 2


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address.name)
def test_nobody_gets_in_without_a_key_or_signing_in(own: Own, address: Address) -> None:
    """The machine API answers 401, a page leads to the sign-in page, and neither writes; only the open ones answer."""
    kept = everything_of(own.project)
    url = filled(address, "beta", SHARED_IDS)
    answers = [Client().get(url)]
    if address.name not in OPEN:
        answers.append(Client().post(url, json.dumps(BODIES.get(address.name, {})), content_type="application/json"))
    for answer in answers:
        if address.name in OPEN:
            assert answer.status_code < 500
        elif address.is_api:
            assert answer.status_code in (401, 405), url
        else:
            assert (answer.status_code, answer.headers["Location"].split("?")[0]) == (302, "/sign-in/"), url
    assert everything_of(own.project) == kept


def test_a_new_kind_of_address_is_noticed() -> None:
    """An address with an id that nobody placed fails, and so does one that takes a POST nobody wrote."""
    with pytest.raises(AssertionError, match="say in tests/test_isolation.py which id"):
        filled(Address("reports", "<slug:project>/reports/<id:report_id>/", ("project", "report_id"), None), "beta", {})
