"""What must hold of the real model's scores, whatever they are: checked wherever the model is installed."""

import math
from collections.abc import Iterator
from typing import Final

from bench.choice_cases import CASES
from kernel.drivers.choice_context import render
from kernel.drivers.choice_scoring import Piece, Scored, Scorer, ScoringError
from kernel.messages import Message

SIGN: Final = "<|im_end|>"
HOSTILE: Final = ("\U0001f9ff" * 20, "\u0f3c\u200d\ufffd" * 12, "а̀б" * 12, "0 1\t2\n" * 9, "~!`^" * 12)
CONTEXT: Final = render([Message("user", CASES[0].task, "task")])
COMMANDS: Final = CASES[0].commands


def checked(scorer: Scorer) -> Iterator[tuple[str, bool]]:
    """Yield what must hold, and whether it does."""
    for check in (
        again,
        in_another_order,
        alone,
        one_after_another,
        signs_are_text,
        tokens_are_bytes,
        too_large_is_refused,
    ):
        yield check.__doc__ or "", check(scorer)


def again(scorer: Scorer) -> bool:
    """The same question gives the same numbers, to the bit, also after others."""
    before = scorer.score(CONTEXT, COMMANDS)
    scorer.score(CONTEXT[:2], COMMANDS[:1])
    return scorer.score(CONTEXT, COMMANDS) == before


def in_another_order(scorer: Scorer) -> bool:
    """The order of the candidates changes no number."""
    return list(scorer.score(CONTEXT, COMMANDS[::-1]))[::-1] == list(scorer.score(CONTEXT, COMMANDS))


def alone(scorer: Scorer) -> bool:
    """A candidate alone scores as among others that begin alike, but for rounding."""
    among = scorer.score(CONTEXT, COMMANDS)
    return all(_close(scorer.score(CONTEXT, [text])[0], one) for text, one in zip(COMMANDS, among, strict=True))


def one_after_another(scorer: Scorer) -> bool:
    """What a command begins with may as well stand in the context: the rest is as probable, but for rounding."""
    [whole] = scorer.score(CONTEXT, [COMMANDS[1]])
    start, rest = COMMANDS[1][:3], COMMANDS[1][3:]
    [behind] = scorer.score([*CONTEXT, Piece(start)], [rest])
    n_start = len(whole.tokens) - len(behind.tokens)
    return whole.tokens[n_start:] == behind.tokens and math.isclose(
        math.fsum(whole.logprobs[n_start:]), behind.total(), abs_tol=0.05
    )


def signs_are_text(scorer: Scorer) -> bool:
    """The sign that ends a turn is one token only where the template has it."""
    [spelled] = scorer.score(CONTEXT, [SIGN])
    as_text = scorer.score([*CONTEXT, Piece(SIGN)], ["ls"])
    as_sign = scorer.score([*CONTEXT, Piece(SIGN, special=True)], ["ls"])
    return len(spelled.tokens) > 2 and as_text != as_sign


def tokens_are_bytes(scorer: Scorer) -> bool:
    """No text has more tokens than UTF-8 bytes, so what is bounded in bytes fits the window."""
    scored = scorer.score(CONTEXT, HOSTILE)
    return all(len(one.tokens) - 1 <= len(text.encode()) for one, text in zip(scored, HOSTILE, strict=True))


def too_large_is_refused(scorer: Scorer) -> bool:
    """More than the window holds is refused, and the scorer goes on."""
    try:
        scorer.score([Piece("\U0001f9ff" * 8_192)], ["ls"])
    except ScoringError:
        return again(scorer)
    return False


def _close(one: Scored, other: Scored) -> bool:
    return one.tokens == other.tokens and math.isclose(one.total(), other.total(), abs_tol=0.05)
