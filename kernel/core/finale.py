"""The safe end of a run whose budget is spent: which limit it was, what the model is told, what stands for an answer.

Work that was done is never lost behind an error: the results stay, and one last request without tools asks for an
answer that rests on them. (Seed 000.)
"""

from dataclasses import dataclass
from typing import Final

from kernel.core.bounds import clip_bytes
from kernel.core.state import RunState
from kernel.core.step import Step
from kernel.messages import Locale

RECEIPTS: Final = 24  # results that a run's state keeps, the newest
RECEIPT_BYTES: Final = 72  # of one of them
GIST_LIMIT: Final = 60  # code points of what a call was called with

LIMIT_CODES: Final = {
    "tool_rounds": "step_limit_exceeded",
    "time": "time_limit_exceeded",
    "tokens": "token_limit_exceeded",
}


@dataclass(frozen=True, slots=True)
class Words:
    """What the kernel itself says at the end of a run, in one language."""

    note: str
    limits: dict[str, str]
    limitation: str
    receipts: str
    nothing: str
    earlier: str
    not_executed: str


WORDS: Final[dict[Locale, Words]] = {
    "en": Words(
        note="[{limit}. This is the last request of the run and it offers no tools. Answer briefly, from the results "
        "recorded above and nothing else. Name the work that is unfinished. Start nothing new.]",
        limits={
            "tool_rounds": "The limit of {n} tool rounds is reached",
            "time": "The time of the run is spent",
            "tokens": "The tokens of the run are spent",
        },
        limitation="{limit}, and no final answer could be had. The work may be unfinished.",
        receipts="What is recorded:",
        nothing="No call was executed.",
        earlier="{n} earlier results",
        not_executed="{n} further tool calls were asked for after the limit; none was executed.",
    ),
    "zh": Words(
        note="[{limit}。这是本次运行的最后一次请求，不再提供工具。请仅根据上面已记录的结果简要回答，说明尚未完成的工作，不要开始新的操作。]",
        limits={
            "tool_rounds": "已达到 {n} 轮工具调用的上限",
            "time": "运行时间已用完",
            "tokens": "运行的 token 已用完",
        },
        limitation="{limit}，未能得到最终回答，工作可能尚未完成。",
        receipts="已记录的结果：",
        nothing="没有执行任何调用。",
        earlier="另有更早的 {n} 个结果",
        not_executed="达到上限后又请求了 {n} 次工具调用，均未执行。",
    ),
    "ru": Words(
        note="[{limit}. Это последний запрос запуска, инструментов в нём нет. Ответьте кратко и только по записанным "
        "выше результатам. Назовите незавершённое. Ничего нового не начинайте.]",
        limits={
            "tool_rounds": "Достигнут предел раундов с инструментами: {n}",
            "time": "Время запуска истекло",
            "tokens": "Токены запуска израсходованы",
        },
        limitation="{limit}, окончательного ответа получить не удалось. Работа могла остаться незавершённой.",
        receipts="Записанные результаты:",
        nothing="Ни один вызов не был выполнен.",
        earlier="более ранних результатов: {n}",
        not_executed="После предела запрошены ещё вызовы инструментов ({n}); ни один не выполнен.",
    ),
}


def spent_limit(state: RunState, at_ns: int) -> str:
    """Return the name of the limit that leaves no further round, or an empty string."""
    limits = state.spec.limits
    if state.turn >= limits.max_turns:
        return "tool_rounds"
    if limits.run_ms and at_ns - state.started_ns >= limits.run_ms * 1_000_000:
        return "time"
    if limits.run_tokens and state.model_tokens >= limits.run_tokens:
        return "tokens"
    return ""


def limit_words(state: RunState, limit: str) -> str:
    """Return the limit in a few words of the run's language."""
    return WORDS[state.spec.locale].limits[limit].format(n=state.spec.limits.max_turns)


def finale_note(state: RunState, limit: str) -> str:
    """Return what the model is told before its last answer."""
    return WORDS[state.spec.locale].note.format(limit=limit_words(state, limit))


def final_answer(state: RunState, limit: str, text: str, n_dropped: int) -> str:
    """Return the answer of a run that ends at a limit: the model's, flagged where it asked for more, or a fixed text
    that lists what is recorded."""
    words = WORDS[state.spec.locale]
    if not any(character.isprintable() and not character.isspace() for character in text):
        return _limitation(state, words, limit)
    return f"{text}\n\n{words.not_executed.format(n=n_dropped)}" if n_dropped else text


def _limitation(state: RunState, words: Words, limit: str) -> str:
    head = words.limitation.format(limit=limit_words(state, limit))
    if not state.n_receipts:
        return f"{head} {words.nothing}"
    earlier = state.n_receipts - len(state.receipts)
    told = [words.earlier.format(n=earlier)] if earlier else []
    return "\n".join([head, words.receipts, *(f"- {line}" for line in (*told, *state.receipts))])


def note_receipt(step: Step, name: str, gist: str, status: str) -> None:
    """Remember that an executed call left a result: a line of what it was and how it ended."""
    called = " ".join([clip_bytes(name, RECEIPT_BYTES), *gist.split()])
    receipts = (*step.state.receipts, f"{called}: {status}")[-RECEIPTS:]
    step.set(receipts=receipts, n_receipts=step.state.n_receipts + 1)
