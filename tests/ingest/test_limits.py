"""Every limit of the API document stands, as a number, in what a sender is told who goes beyond it."""

import json
from typing import Any

import pytest

from ingest.limits import all_limits
from ingest.models import ApiKey, Event, Project
from tests.ingest.test_events_api import Sender, event

pytestmark = pytest.mark.django_db


@pytest.fixture
def sender() -> Sender:
    return Sender(Project.objects.create(slug="alpha", name="Alpha"), "ingest", "read", "observe")


def hints(sender: Sender, body: bytes) -> Any:
    return sender.client.post(
        "/v1/observations/hints",
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {sender.raw}"},
    )


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def beyond(name: str, sender: Sender, settings: Any) -> str:
    """Go beyond one limit, made small, and return all that the sender is told: the answer, or what is stored."""
    if name == "events_per_request":
        settings.INGEST_MAX_EVENTS = 3
        return sender.post({"events": [event(number) for number in range(4)]}).content.decode()
    if name == "spans_per_request":
        settings.INGEST_MAX_SPANS = 3
        spans = [{"traceId": "ab" * 16, "spanId": f"{number:016x}"} for number in range(1, 5)]
        body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        headers = {"Authorization": f"Bearer {sender.raw}"}
        sent = json.dumps(body)
        return sender.client.post("/v1/traces", sent, content_type="application/json", headers=headers).content.decode()
    if name == "body":
        settings.INGEST_MAX_BODY_BYTES = 4_321
        return sender.post(b" " * 5_000).content.decode()
    if name == "event":
        settings.INGEST_MAX_EVENT_BYTES = 54_321
        return sender.post({"events": [event(1, data=dict.fromkeys(map(str, range(20_000)), 1))]}).content.decode()
    if name == "nesting":
        settings.INGEST_MAX_NESTING = 13
        sender.post({"events": [event(1, data={"v": deep(20)})]})
        return json.dumps(Event.objects.get().data)
    if name == "id":
        return sender.post({"events": [event(1, tool="x" * 201)]}).content.decode()
    if name == "messages":
        many = {"n_messages": 10_001, "new_messages": [{"text": "hi"}] * 10_001}
        return sender.post({"events": [event(1, type="model.requested", data=many)]}).content.decode()
    if name == "events_per_minute":
        ApiKey.objects.filter(pk=sender.key.pk).update(events_per_minute=7)
        sender.post({"events": [event(number) for number in range(7)]})
        return sender.post({"events": [event(8)]}).content.decode()
    if name == "hints_body":
        settings.HINTS_MAX_BODY_BYTES = 987
        return hints(sender, b" " * 1_000).content.decode()
    raise AssertionError(f"how does a sender go beyond {name}?")


TOLD = {
    "events_per_request": "3",
    "spans_per_request": "3",
    "body": "4321",
    "event": "54321",
    "nesting": "12",  # of data: the event around it is one level
    "id": "200",
    "messages": "10000",
    "events_per_minute": "7",
    "hints_body": "987",
}
# What goes on without a refusal: a shortened key says so by its repair word, the others by what is missing in a page.
QUIET = {"key", "rejects_per_hour", "page"}


@pytest.mark.parametrize("name", TOLD)
def test_who_goes_beyond_a_limit_is_told_its_number(sender: Sender, settings: Any, name: str) -> None:
    """The number that counts now stands in the sentence, and in `limit` where the whole request is refused."""
    told = beyond(name, sender, settings)
    assert TOLD[name] in told, told
    if '"code"' in told and '"rejected"' not in told and name != "spans_per_request":  # that one is an OTLP Status
        assert json.loads(told)["limit"] == int(TOLD[name])


def test_every_limit_is_told_or_quiet_for_a_reason() -> None:
    """A new limit joins one of the two lists."""
    assert {limit.name for limit in all_limits()} == set(TOLD) | QUIET


def test_a_key_over_its_limit_is_shortened_to_it(sender: Sender, settings: Any) -> None:
    """The bound of a key holds to the byte, and the event is flagged."""
    settings.INGEST_MAX_KEY_BYTES = 40
    sender.post({"events": [event(1, data={"é" * 100: 1})]})
    row = Event.objects.get()
    assert max(len(name.encode()) for name in row.data) <= 40
    assert row.repairs == ["long_key"]
