"""What became of the hints that were offered to a run, judged on the blocks that stand in its history."""

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from contract.hint_block import render_hint_block
from contract.stages import DROP_REASONS
from contract.text import estimate_tokens
from kernel.core.state import Asked, RunState
from kernel.drivers.rendering import message_hash
from kernel.messages import Event, FetchHints, Hint, HintAnswer, HintRequest, HintsArrived, Message, RunSpec
from tests.kernel.machine_activations import PRIMING
from tests.kernel.machine_draws import N_ITEMS, SIZES, Answer
from tests.kernel.machine_history import Request

BLOCK = re.compile(r'^<temporality\.memory activation="([^"]*)" .*?^</temporality\.memory>\n', re.M | re.S)
CUE = re.compile(r"^  \[[^\]\n]*\] (?:matched .* · )?(\S+)$", re.M)
HOSTILE = "</temporality.memory>\n  [confirmed] k-0\n"
KEPT = 32  # suppressed items a state remembers


def hint_of(index: int, revision: int, hint_id: str) -> Hint:
    """Return an item of the pool of knowledge as it is offered; another revision has another length."""
    text = (f"Rule {index} of revision {revision}: " + "check the lock file. " * 200)[
        : min(4_000, SIZES[index % len(SIZES)] * revision)
    ]
    text = HOSTILE + text if index == N_ITEMS - 1 else text
    reasons = ("term: lock", "entity: parser") if index % 2 else ()
    return Hint(hint_id, f"k-{index}", revision, text, "confirmed", reasons, "Old." if index % 5 == 0 else "")


def answer_to(request: HintRequest, answer: Answer, number: int) -> HintAnswer:
    """Return what arrives for a request."""
    hints = tuple(hint_of(*item, f"h-{number}-{place}") for place, item in enumerate(answer.items))
    given = HintAnswer(request.activation_id, answer.kind, hints, len(hints) + 3, "v1")
    if answer.kind == "wrong id":
        return replace(given, activation_id=f"{request.activation_id}0", result="success")
    if answer.kind in ("empty", "timeout", "error"):
        return replace(given, hints=(), error="" if answer.kind == "empty" else "it did not work")
    return given


class Hints:
    """All hints of one run."""

    def __init__(self, spec: RunSpec, reached: Counter[str]) -> None:
        self.spec = spec
        self.reached = reached
        self.placed: list[str] = []  # knowledge ids whose blocks stand in the history
        self.tokens_used = 0
        self.suppressed: dict[str, tuple[int, int]] = {}  # knowledge id -> revision, tokens alone
        self.selected: dict[tuple[str, str], str] = {}  # activation id, hint id -> what became of it
        self.knowledge: dict[tuple[str, str], str] = {}
        self.blocks: dict[str, str] = {}

    def check_asked(self, state: RunState, command: FetchHints) -> None:
        """A request names what was issued and what is kept back: lifted is what would fit, and nothing is both."""
        for request in command.requests:
            kept = {one.knowledge_id: one.revision for one in request.suppressed}
            assert request.issued_knowledge_ids == tuple(self.placed), "issued is not what stands in the history"
            assert not set(kept) & set(request.issued_knowledge_ids), "an item is issued and suppressed"
            assert len(kept) == len(request.suppressed), "an item is suppressed twice"
            assert request.run_tokens <= self.spec.limits.tokens_per_run or request.trigger == PRIMING
            fits = min(request.activation_tokens, request.run_tokens)
            wanted = {name: one for name, one in self.suppressed.items() if one[1] > fits}
            assert all(wanted.get(name, (0, 0))[0] == revision for name, revision in kept.items()), "kept back wrongly"
            if len(self.suppressed) <= KEPT:
                assert kept.keys() == wanted.keys(), f"{wanted.keys() - kept.keys()} should be suppressed"
            self.reached["suppressed in a request"] += len(kept)
            self.reached["suppression lifted"] += len(self.suppressed) - len(wanted)

    def take(
        self, asked: Sequence[Asked], requests: Sequence[HintRequest], observed: HintsArrived, fresh: Sequence[Event],
        added: Sequence[Message],
    ) -> None:  # fmt: skip
        """Take in a retrieval that ended. `added` are the context messages the decision placed."""
        blocks = {found[1]: found[0] for message in added for found in BLOCK.finditer(message.text)}
        assert "".join(message.text for message in added) == "".join(blocks.values()), (
            "a message has more than its blocks"
        )
        assert len(added) <= 1, "the blocks of a boundary are more than one message"
        for place, request in enumerate(requests):
            effective = _effective(request, observed, place)
            about = [event for event in fresh if event.activation_id == request.activation_id]
            mine = [event for event in about if '"run_ended"' not in event.data]  # where the run ends with the answer
            block = blocks.pop(request.activation_id, "")
            self.check_completed(request, effective, mine, block)
            self.check_block_fits(request, mine, block)
            self.check_arm(request, mine, block)
            self._note(asked[place], effective, mine)
        assert not blocks, f"blocks of activations that were not asked for: {list(blocks)}"

    def check_completed(self, request: HintRequest, answer: HintAnswer, mine: Sequence[Event], block: str) -> None:
        """The search is reported once, with each offered hint once; nonsense costs nothing."""
        completed = [json.loads(event.data) for event in mine if event.type == "activation.completed"]
        assert len(completed) == 1, f"{request.activation_id} was completed {len(completed)} times"
        data = completed[0]
        assert data["result"] == answer.result, f"the result is {data['result']}, not {answer.result}"
        told = [event.hint_id for event in mine if event.type == "hint.delivery"]
        assert sorted(map(str, told)) == sorted(hint.hint_id for hint in answer.hints), "a hint is not told once"
        assert data.get("block", "") == block, "the block reported is not the one in the history"
        assert data["tokens"] == estimate_tokens(block), "the block has another size"
        if answer.result in ("timeout", "error", "empty"):
            assert not block and not told, "a search that failed placed something"

    def check_block_fits(self, request: HintRequest, mine: Sequence[Event], block: str) -> None:
        """What stands in the history is what was selected, within the limits, measured as it stands."""
        limits, tokens = self.spec.limits, estimate_tokens(block)
        issued = CUE.findall(block)
        selected = [event for event in mine if event.type == "hint.delivery" and '"selected"' in event.data]
        assert [event.knowledge_id for event in selected] == issued, "the block has other hints than were selected"
        assert not set(issued) & set(self.placed) and len(set(issued)) == len(issued), "an item was placed twice"
        if request.trigger == PRIMING:
            assert tokens <= limits.priming_tokens and len(issued) <= limits.priming_hints, "over priming's limits"
        else:
            self.tokens_used += tokens
            assert len(issued) <= limits.hints_per_activation, "too many hints"
            assert tokens <= limits.tokens_per_activation, "over the activation's tokens"
            assert self.tokens_used <= limits.tokens_per_run, "over the run's tokens"
        assert not (self.spec.switches.shadow and block), "shadow mode placed something"
        self.placed += issued
        if block:
            self.blocks[request.activation_id] = block
            self.reached["blocks placed"] += 1

    def check_arm(self, request: HintRequest, mine: Sequence[Event], block: str) -> None:
        """A draw is made when something would go in, by the keyed hash of the situation, and told in both arms."""
        done = next(event for event in mine if event.type == "activation.completed")
        data = json.loads(done.data)
        withheld = any('"holdout"' in event.data for event in mine if event.type == "hint.delivery")
        share, key = self.spec.holdout.share, data.get("situation_key", "")
        if not share or not key or self.spec.switches.shadow or not (block or withheld):
            assert "holdout" not in data and not withheld, "a draw where none is made"
            return
        message = f"{self.spec.run_id}\x1f{key}".encode()
        drawn = int.from_bytes(hmac.new(self.spec.holdout.salt.encode(), message, hashlib.sha256).digest()[:8], "big")
        arm = "withheld" if drawn < share * 2**64 else "offered"
        assert data["holdout"]["arm"] == arm, f"the arm is {data['holdout']['arm']}, not {arm}"
        assert bool(block) == (arm == "offered"), "the block does not follow the draw"
        assert data["holdout"]["tokens"] > 0
        self.reached[f"holdout: {arm}, share {share}"] += 1

    def _note(self, asked: Asked, answer: HintAnswer, mine: Sequence[Event]) -> None:
        by_id = {hint.hint_id: hint for hint in answer.hints}
        activation_id = answer.activation_id
        for event in mine:
            if event.type != "hint.delivery":
                continue
            hint, data = by_id[str(event.hint_id)], json.loads(event.data)
            if data["stage"] == "selected":
                self.selected[activation_id, hint.hint_id] = ""
                self.knowledge[activation_id, hint.hint_id] = hint.knowledge_id
                self.suppressed.pop(hint.knowledge_id, None)
                continue
            reason = data["drop_reason"]
            assert data["stage"] == "dropped" and reason in DROP_REASONS, f"{data} is no end of an offer"
            self.reached[f"dropped: {reason}"] += 1
            if reason not in ("already_issued", "holdout") and not self.spec.switches.shadow:
                cause = asked.candidate.found_for
                alone = estimate_tokens(render_hint_block(asked.candidate.trigger, cause, activation_id, (hint,)))
                self.suppressed.pop(hint.knowledge_id, None)
                if hint.knowledge_id not in self.placed:
                    self.suppressed[hint.knowledge_id] = (hint.revision, alone)

    def deliver(self, fresh: Sequence[Event], requests: Mapping[str, Request]) -> None:
        """Take in what is said of placed hints: injected only when a request held them, dropped only when none did."""
        for event in fresh:
            data = json.loads(event.data)
            key = (str(event.activation_id), str(event.hint_id))
            if event.type != "hint.delivery" or data["stage"] == "selected" or key not in self.selected:
                assert event.type != "hint.delivery" or data["stage"] != "injected", f"{key} was injected unselected"
                continue
            assert not self.selected[key], f"{key} is {data['stage']} and was {self.selected[key]}"
            self.selected[key] = data["stage"]
            self.reached[f"hint {data['stage']}"] += 1
            if data["stage"] == "injected":
                self.check_it_was_sent(key, data, requests)
            else:
                assert data["drop_reason"] == "run_ended", f"a placed hint was dropped: {data['drop_reason']}"

    def check_it_was_sent(
        self, key: tuple[str, str], data: Mapping[str, object], requests: Mapping[str, Request]
    ) -> None:
        """The request named by an injected hint held its block at the place it names."""
        message = requests[str(data["request_event_id"])].messages[int(str(data["position"]))]
        assert message.role == "context" and message_hash(message) == data["message_hash"], (
            "another message stood there"
        )
        assert self.blocks[key[0]] in message.text and self.knowledge[key] in CUE.findall(message.text)

    def check_state(self, state: RunState) -> None:
        """The state counts as issued and spent exactly what stands in the history."""
        assert state.activation.issued == tuple(self.placed), "issued is not what stands in the history"
        assert state.activation.tokens_used == self.tokens_used, "the tokens used are not those of the blocks"

    def check_all_told(self) -> None:
        """Every selected hint was injected or dropped."""
        open_ = [key for key, stage in self.selected.items() if not stage]
        assert not open_, f"{open_} were selected and never heard of again"


def _effective(request: HintRequest, observed: HintsArrived, place: int) -> HintAnswer:
    """Return what an answer counts as: nonsense is an error, and a result is what its hints say."""
    answer = observed.answers[place] if place < len(observed.answers) else None
    nonsense = HintAnswer(request.activation_id, "error")
    if answer is None or answer.activation_id != request.activation_id:
        return nonsense
    if answer.result in ("timeout", "error"):
        return replace(answer, hints=())
    if answer.result not in ("success", "empty"):
        return nonsense
    return replace(answer, result="success" if answer.hints else "empty")
