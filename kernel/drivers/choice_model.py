"""A driver whose model chooses: a small language model on this machine picks the next command out of given ones.

It keeps nothing between requests and does not know what a run is compared with: what it does follows from the messages
and the candidates alone. The real model comes with packages that the product does without
(`requirements-behaviour.txt`); where they are missing, making a ChoiceModel fails with ImportError.
"""

import asyncio
import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernel.drivers import DriverReply, ModelRequest
from kernel.drivers.choice_context import render, render_neutral
from kernel.drivers.choice_scoring import METHODS, Method, Piece, Scored, Scorer, ScoringError, highest, values
from kernel.drivers.scripted import DEMOS, SCRIPT_NAME
from kernel.edge.retry import ModelError
from kernel.messages import Message, ToolCall

REAL: Final = "kernel.drivers.choice_llama"
MOST_CANDIDATES: Final = 32
CANDIDATE_BYTES: Final = 1_000  # UTF-8
REMEMBERED: Final = 512  # contexts
TOOL: Final = "shell"
DONE: Final = "The last command succeeded."
GAVE_UP: Final = "No command succeeded."


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen: its place among the candidates, and every candidate's score in their order."""

    place: int
    scores: tuple[float, ...]


class ChoiceModel:
    """A model that chooses, with a thread of its own: choices wait for each other, and nothing waits for the model.

    `method` other than "pmi" is for measuring beside it (kernel.drivers.choice_scoring).
    """

    name = "choice_model"

    def __init__(self, scorer: Scorer | None = None, method: Method = "pmi") -> None:
        """Take a scorer, or load the real one. Raises ImportError where its packages are missing, and ValueError."""
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
        self._scorer = scorer if scorer is not None else real_scorer()
        self._method = method
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="choice-model")
        self._known: dict[tuple[tuple[Piece, ...], tuple[str, ...]], dict[str, Scored]] = {}

    @property
    def model(self) -> str:
        """The model and how it chooses, as a run reports it."""
        return f"{self._scorer.name}:{self._method}"

    def versions(self) -> Mapping[str, str]:
        """Return what the results depend on, by name."""
        return {**self._scorer.versions(), "method": self._method}

    async def choose(self, messages: Sequence[Message], candidates: Sequence[str], dice: str = "") -> int:
        """Return the place of the command to run next; see `weigh`."""
        return (await self.weigh(messages, candidates, dice)).place

    async def weigh(self, messages: Sequence[Message], candidates: Sequence[str], dice: str = "") -> Choice:
        """Return what is chosen, and why. The order of the candidates does not matter; `dice` is a text that decides
        between equal scores. Raises ModelError for candidates that cannot be chosen from.
        """
        check_candidates(candidates)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._weigh, tuple(messages), tuple(candidates), dice)

    async def close(self) -> None:
        """Let the running choice end and give the model's memory back."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._scorer.close)
        self._thread.shutdown()

    def _weigh(self, messages: tuple[Message, ...], candidates: tuple[str, ...], dice: str) -> Choice:
        try:
            conditional = self._scores(render(messages), candidates)
            neutral = self._scores(render_neutral(messages), candidates) if self._method == "pmi" else ()
            scores = values(self._method, conditional, neutral)
        except ScoringError as error:
            raise ModelError("choice_failed", str(error)) from None
        return Choice(highest(scores, [_lot(dice, one) for one in candidates]), scores)

    def _scores(self, context: tuple[Piece, ...], candidates: tuple[str, ...]) -> list[Scored]:
        """Return the scores of the candidates in their order; what was asked of late is not computed again."""
        ordered = tuple(sorted(candidates))
        known = self._known.pop((context, ordered), None)
        if known is None:
            known = dict(zip(ordered, self._scorer.score(context, ordered), strict=True))
        self._known[context, ordered] = known
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return [known[one] for one in candidates]


class ChoiceDriver:
    """Chooses a shell command at each request, from the candidates that the run's script names, and ends the run when
    the last one succeeded. A command that failed may be chosen again."""

    def __init__(self, model: ChoiceModel | None = None, folder: Path = DEMOS) -> None:
        """Take a model, or load the real one (ImportError). A script is `<script>.json` there, key `choices`."""
        self._model = model if model is not None else ChoiceModel()
        self._folder = folder

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Choose once. Raises ModelError when the script names no candidates or they cannot be chosen from."""
        replies = [message for message in request.messages if message.role == "tool"]
        succeeded = bool(replies) and replies[-1].status == "ok"
        if succeeded or request.finale:
            return DriverReply(DONE if succeeded else GAVE_UP, model=self._model.model)
        candidates = self._candidates(request.script)
        chosen = await self._model.choose(request.messages, candidates, request.run_id)
        call = ToolCall("", TOOL, json.dumps({"command": candidates[chosen]}, ensure_ascii=False))
        return DriverReply(calls=(call,), model=self._model.model)

    async def end_run(self, run_id: str) -> None:
        """Nothing is held for a run."""

    async def close(self) -> None:
        await self._model.close()

    def _candidates(self, script: str) -> list[str]:
        if not SCRIPT_NAME.fullmatch(script):
            raise ModelError("script_invalid", "the script's name must be 1 to 80 letters, digits, _ or -")
        try:
            candidates = json.loads((self._folder / f"{script}.json").read_text(encoding="utf-8"))["choices"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError("script_invalid", f"script {script} names no choices: {error!r}") from None
        if not isinstance(candidates, list):
            raise ModelError("script_invalid", f"script {script}: choices must be a list of commands")
        return candidates


def real_scorer(module: str = REAL) -> Scorer:
    """Load the model that `requirements-behaviour.txt` brings. Raises ImportError."""
    try:
        scorer: Scorer = importlib.import_module(module).LlamaScorer.shipped()
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the choice model needs {error.name}, which is not installed: "
            "pip install --no-deps -r requirements-behaviour.txt, or make bench-behaviour-model"
        ) from None
    return scorer


def check_candidates(candidates: Sequence[object]) -> None:
    """Raise ModelError, "choice_invalid", unless these are commands that can be chosen from."""
    if not candidates:
        raise ModelError("choice_invalid", "there are no candidates: give at least one command to choose from")
    if len(candidates) > MOST_CANDIDATES:
        raise ModelError("choice_invalid", f"{len(candidates)} candidates; the limit is {MOST_CANDIDATES}")
    for place, one in enumerate(candidates):
        if not isinstance(one, str) or not one.strip():
            raise ModelError("choice_invalid", f"candidate {place} must be a text that is not empty")
        if len(one.encode("utf-8", "replace")) > CANDIDATE_BYTES:
            raise ModelError("choice_invalid", f"candidate {place} is longer than {CANDIDATE_BYTES} UTF-8 bytes")
    if len(set(candidates)) < len(candidates):
        raise ModelError("choice_invalid", "a candidate stands there twice: give each command once")


def _lot(dice: str, command: str) -> bytes:
    return hashlib.sha256(f"{dice}\x1f{command}".encode("utf-8", "replace")).digest()
