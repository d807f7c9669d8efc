"""`fold.v2`: from a run's events to its chain. Pure; the same events in any order and any batches give the same chain.

Every event the journal can hold is taken in: missing parents, ends before starts, data of the wrong shape. What is
not reported stays empty, and later events complete it. (Seed 001 §10.3, §13.)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from contract.events import TERMINAL_TYPES
from ingest.journal import JournalEvent
from knowledge import event_data as read
from knowledge.activations import ChainRows, Row, collect_rows
from knowledge.calls import Call, pair_calls
from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain, RunFacts, Verdict
from knowledge.event_data import fill
from knowledge.span_runs import earliest, model_tokens, model_turns, read_run
from knowledge.span_searches import AGENT_SEARCH, add_searches
from knowledge.spans import RUN_TYPES, Spans, is_span, read_spans, superseded
from knowledge.usage import judge, make_record, take_verdicts
from knowledge.waiting import waiting_for

FOLD_VERSION: Final = "fold.v2"
TURN_TYPES: Final = ("model.requested", "turn.started", "turn.completed")
PRIMING: Final = "task.priming"
SKIPPED: Final = "skipped"
NAMES_LIMIT: Final = 1_000  # tools and servers listed with one run
NO_RANK: Final = read.INT32_MAX


def fold_run(events: Sequence[JournalEvent], verdicts: Sequence[Verdict] = ()) -> RunChain:
    """Return the chain of one run from all of its events so far, and from what people said of its hints, in order.

    Never raises, whatever the events hold.
    """
    known = read.in_order(events)
    unfinished = superseded(known)
    ordered = [event for event in known if event.event_id not in unfinished]
    spans = read_spans(ordered)
    calls = pair_calls(ordered, spans.inner)
    rows = collect_rows(ordered)
    add_searches(rows, spans)
    take_verdicts(rows, verdicts)
    judge(rows, make_record(ordered, calls, rows.activations.values()))
    candidates = tuple(sorted((_candidate(place, row) for place, row in rows.candidates.items()), key=_rank))
    activations = _activations(ordered, rows, candidates)
    return RunChain(_summary(spans, len(known), calls, activations), activations, candidates)


def _rank(candidate: CandidateFacts) -> tuple[str, int, str]:
    rank = NO_RANK if candidate.rank is None else candidate.rank
    return candidate.activation_id, rank, candidate.knowledge_id


def _candidate(place: tuple[str, str], row: Row) -> CandidateFacts:
    known = _kept(CandidateFacts, row)
    if "offered_ns" in row:
        known.pop("hold_reason", None)
    evidence = {"usage": row.get("usage_evidence"), "outcome": row.get("outcome_evidence")}
    return CandidateFacts(
        activation_id=place[0],
        knowledge_id=place[1],
        tokens=row.get("delivered_tokens", row.get("item_tokens")),
        evidence={name: value for name, value in evidence.items() if value},
        **known,
    )


def _kept(facts: type[CandidateFacts] | type[ActivationFacts], row: Row) -> dict[str, Any]:
    """Return the row's values that are fields of `facts` under the same name."""
    return {name: value for name, value in row.items() if name in facts.__dataclass_fields__}


def _activations(
    events: Sequence[JournalEvent], rows: ChainRows, candidates: Iterable[CandidateFacts]
) -> tuple[ActivationFacts, ...]:
    found: dict[str, list[CandidateFacts]] = {}
    for candidate in candidates:
        found.setdefault(candidate.activation_id, []).append(candidate)
    places: dict[str, int] = {}
    for index, event in enumerate(events):
        places.setdefault(event.activation_id or event.event_id, index)
    # Deliveries that name no activation stand last.
    order = sorted(rows.activations, key=lambda name: (name == "", places.get(name, len(events)), name))
    return tuple(
        _activation(name, ordinal, rows.activations[name], found.get(name, [])) for ordinal, name in enumerate(order)
    )


def _activation(activation_id: str, ordinal: int, row: Row, candidates: Sequence[CandidateFacts]) -> ActivationFacts:
    row = dict(row)
    n_injected = sum(candidate.injected_ns is not None for candidate in candidates)
    said = [row.get("said_retrieved", 0), row.get("found_retrieved", 0), len(candidates)]
    fill(row, result=_result(row), completed_ns=row.get("skipped_ns"), duration_ms=_waited_ms(row))
    return ActivationFacts(
        activation_id=activation_id,
        ordinal=ordinal,
        n_retrieved=max(said),
        n_offered=sum(candidate.offered_ns is not None for candidate in candidates),
        n_selected=sum(candidate.selected_ns is not None for candidate in candidates),
        n_injected=n_injected,
        n_dropped=sum(candidate.dropped_ns is not None and candidate.injected_ns is None for candidate in candidates),
        tokens=_tokens(row, candidates) if n_injected else 0,
        **_kept(ActivationFacts, row),
    )


def _result(row: Row) -> str:
    """Return how the search ended: as the runtime said, else skipped, else as Observation said of a lone query."""
    asked = "requested_ns" in row or "deferred_ns" in row
    skipped = SKIPPED if "skipped_ns" in row else ""
    return row.get("answered") or skipped or ("" if asked else row.get("query_result", ""))


def _waited_ms(row: Row) -> float | None:
    if "requested_ns" not in row or "completed_ns" not in row:
        return None
    waited = (row["completed_ns"] - row["requested_ns"]) / 1e6
    return waited if 0 <= waited <= read.LARGEST_NUMBER else None


def _tokens(row: Row, candidates: Iterable[CandidateFacts]) -> int:
    """Return the tokens of the block that was injected; a block placed and never sent took none."""
    cues = sum(candidate.tokens or 0 for candidate in candidates if candidate.injected_ns is not None)
    return min(int(row.get("block_tokens", cues)), read.INT32_MAX)


def is_search(activation: ActivationFacts) -> bool:
    """Say whether a search was made: not skipped, not merely deferred, and not deliveries of an unknown one."""
    asked = activation.requested_ns is not None or activation.completed_ns is not None
    found = activation.search_ms is not None or activation.algorithm_version != ""
    return activation.activation_id != "" and activation.result != SKIPPED and (asked or found)


def offers_hints(activation: ActivationFacts) -> bool:
    """Say whether what was found counts as hints of the run.

    Documents that an application found by itself do only when it says that it put some of them into a request.
    """
    return activation.trigger != AGENT_SEARCH or activation.n_selected > 0 or activation.n_injected > 0


def _summary(spans: Spans, n_events: int, calls: Sequence[Call], activations: Sequence[ActivationFacts]) -> RunFacts:
    row: Row = {}
    events = spans.events
    typed = read.by_type(events)
    # What was said of the run itself comes before what its spans say of it.
    said = read.by_type([event for event in events if not (event.type in RUN_TYPES and is_span(event))])
    _take_start(row, said)
    _take_end(row, said)
    fill(row, **read_run(spans))
    _take_rest(row, events, typed)
    inner = [events[place] for place in spans.inner if events[place].type.startswith("tool.")]
    runtime = [activation for activation in activations if activation.trigger != PRIMING]
    hinting = [activation for activation in activations if offers_hints(activation)]
    return RunFacts(
        tools=_names(call.tool for call in calls),
        mcp_servers=_names([*(call.mcp_server for call in calls), *(event.mcp_server for event in inner)]),
        n_events=n_events,
        n_turns=_count_turns(typed, spans),
        n_tool_calls=len(calls),
        n_tools_failed=sum(call.status == "failed" and not call.copy for call in calls),
        n_activations=sum(is_search(activation) for activation in activations),
        n_skipped=sum(activation.result == SKIPPED for activation in activations),
        n_retrieved=min(sum(activation.n_retrieved for activation in activations), read.INT32_MAX),
        n_offered=sum(activation.n_offered for activation in hinting),
        n_injected=sum(activation.n_injected for activation in hinting),
        n_dropped=sum(activation.n_dropped for activation in hinting),
        hint_tokens=sum(activation.tokens for activation in runtime),
        priming_tokens=sum(activation.tokens for activation in activations) - sum(one.tokens for one in runtime),
        model_tokens=_model_tokens(typed, spans),
        waiting_for="" if "ended_ns" in row else waiting_for(events),
        **row,
    )


def _take_start(row: Row, typed: Mapping[str, Sequence[JournalEvent]]) -> None:
    for event in typed.get("run.started", []):
        data = event.data
        fill(
            row,
            started_ns=event.occurred_ns,
            task=read.text(data, "task", read.TEXT_LIMIT),
            agent=read.identity(data, "agent"),
            model=read.identity(data, "model"),
            conversation_id=read.identity(data, "conversation_id"),
            limits=read.mapping(data, "limits"),
            switches=read.mapping(data, "switches"),
        )


def _take_rest(row: Row, events: Sequence[JournalEvent], typed: Mapping[str, Sequence[JournalEvent]]) -> None:
    for event in events:
        fill(row, parent_run_id=event.parent_run_id, team_root=event.team_root)
    for event in typed.get("model.completed", []):
        fill(row, model=read.identity(event.data, "model"))
    # While the start has not arrived, the earliest time anything happened stands for it.
    fill(row, started_ns=earliest(events))
    for event in reversed(typed.get("run.outcome", [])):
        fill(row, success=read.flag(event.data, "success"))


def _take_end(row: Row, typed: Mapping[str, Sequence[JournalEvent]]) -> None:
    ends = [typed[kind][0] for kind in TERMINAL_TYPES if kind in typed]
    end = min(ends, key=read.place, default=None)
    if end is not None:
        why = (read.text(end.data, name, read.TEXT_LIMIT) for name in ("reason", "limit", "error"))
        fill(
            row,
            status=TERMINAL_TYPES[end.type],
            status_reason=next((reason for reason in why if reason), ""),
            ended_ns=end.occurred_ns if end.ended_ns is None else end.ended_ns,
            answer=read.text(end.data, "answer", read.TEXT_LIMIT),
        )


def _names(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value})[:NAMES_LIMIT])


def _count_turns(typed: Mapping[str, Sequence[JournalEvent]], spans: Spans) -> int:
    """Return how many turns are numbered; a sender that numbers none has one for each model request."""
    numbered = {event.turn for kind in TURN_TYPES for event in typed.get(kind, []) if event.turn is not None}
    turns = model_turns(spans)
    numbered |= {event.turn for event in turns if event.turn is not None}
    asked = [event for event in typed.get("model.requested", []) if not is_span(event)]
    return len(numbered) or len(asked) or len(turns)


def _model_tokens(typed: Mapping[str, Sequence[JournalEvent]], spans: Spans) -> int:
    """Return the tokens providers reported, counted on model events only; the requests' estimates when none did.

    Of a run that is told both by events and by spans, the events count.
    """
    completed = [event for event in typed.get("model.completed", []) if not is_span(event)]
    reported = [read.whole(event.data, name) for event in completed for name in ("input_tokens", "output_tokens")]
    estimates = [read.whole(event.data, "tokens") for event in typed.get("model.requested", [])]
    known = [tokens for tokens in reported if tokens is not None]
    if known:
        return sum(known)
    return model_tokens(spans) or sum(tokens for tokens in estimates if tokens is not None)
