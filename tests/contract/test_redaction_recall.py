"""How much redaction finds in generated secrets of every kind, and that it changes nothing in what tools print."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract import redaction, secret_scan
from contract.redaction import redact, redact_value
from contract.secret_formats import KINDS
from tests.contract.secret_samples import EACH, Recall, is_left, measure, samples

CORPORA = sorted((Path(__file__).parent / "corpora").glob("*.*"))
NEEDED = 0.95


@pytest.fixture(scope="module", params=[secret_scan.SCAN, secret_scan.RULES], ids=lambda scan: scan.name)
def recall(request: pytest.FixtureRequest) -> Iterator[dict[str, Recall]]:
    """The recall of every kind, measured once with the automaton and once with the rules alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "SCAN", request.param)
        yield measure()


@pytest.mark.parametrize("kind", KINDS)
def test_secrets_of_a_kind_are_found(kind: str, recall: dict[str, Recall]) -> None:
    """Of a kind's samples, 95 in 100 lose their secret, and nearly all of those under the marker of the kind."""
    found = recall[kind]
    assert found.n == EACH >= 50
    assert found.removed >= NEEDED * found.n, [(one.place, one.value) for one in found.missed]
    assert found.named_right >= 0.9 * found.n


def test_every_sample_holds_its_secret() -> None:
    """A sample from which nothing had to be removed would count as found."""
    for sample in samples():
        text = sample.value if isinstance(sample.value, str) else json.dumps(sample.value, ensure_ascii=False)
        assert is_left(sample.secret, text), sample


def test_samples_are_varied() -> None:
    """Each kind is seen in several places, in texts and inside JSON values, and hardly a sample comes twice."""
    drawn = list(samples())
    for kind in KINDS:
        own = [sample for sample in drawn if sample.kind == kind]
        assert len({sample.place for sample in own}) >= 9
        assert {type(sample.value) for sample in own} == {str, dict}
        assert len({repr(sample.value) for sample in own}) >= 0.8 * len(own)


def test_there_is_a_corpus() -> None:
    """The texts below are there: a test over an empty folder proves nothing."""
    assert len(CORPORA) >= 30
    assert sum(path.stat().st_size for path in CORPORA) > 100_000


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_what_tools_print_stays_as_it_is(path: Path) -> None:
    """Nothing is taken out of it, whether it comes whole, line by line or as JSON values."""
    text = path.read_text(encoding="utf-8")
    assert redact(text) == (text, 0)
    lines = text.splitlines()
    assert [line for line in lines if redact(line)[1]] == []
    value = {"result": text, "lines": lines, "nested": [{"text": line} for line in lines]}
    assert redact_value(value)[0] is value
    if path.suffix == ".jsonl":
        parsed = [json.loads(line) for line in lines]
        assert redact_value(parsed)[0] is parsed
