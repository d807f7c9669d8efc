"""Pages of runs against a plain reading of the same chains: whatever is asked, the same runs in the same order."""

import pytest
from django.db import connection

from bench.run_list import addresses
from bench.run_list_rows import MadeRun, copy_runs, make_runs
from knowledge import run_pages
from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain
from knowledge.run_filters import OF_HINT, OF_RUN, OF_SEARCH, RunFilter, parse_filter
from tests.factories import make_project

N_RUNS = 150
LIMIT = 60
PAIRS_STEP = 29  # of the pairs of filters a few are asked
RUN_COLUMNS = {"waiting": "waiting_for", "conversation": "conversation_id"}


def is_meant(run: MadeRun, wanted: RunFilter) -> bool:
    """Whether a run is asked for, told from its chain alone."""
    if (wanted.since and run.at < wanted.since) or (wanted.until and run.at >= wanted.until):
        return False
    if run.chain is None:
        return wanted.fits_unfolded
    return (
        is_run(run.chain, wanted)
        and wanted.text.upper() in run.chain.run.task.upper()
        and wanted.has_injection in (None, bool(run.chain.run.n_injected))
        and in_one_search(run.chain, wanted)
    )


def is_run(chain: RunChain, wanted: RunFilter) -> bool:
    run = chain.run
    words = {"tool": run.tools, "mcp_server": run.mcp_servers}
    for name, word in wanted.of(OF_RUN).items():
        if (name, word) == ("waiting", "person"):
            words[name] = ("person",) if run.waiting_for else ()
        if word not in words.get(name, (getattr(run, RUN_COLUMNS.get(name, name), None),)):
            return False
    return True


def in_one_search(chain: RunChain, wanted: RunFilter) -> bool:
    """Whether one search has all that is asked of searches, and one candidate of it all that is asked of hints."""

    def has_all(row: ActivationFacts | CandidateFacts, names: tuple[str, ...]) -> bool:
        return all(getattr(row, name) == word for name, word in wanted.of(names).items())

    def has_hint(search: ActivationFacts) -> bool:
        hints = [one for one in chain.candidates if one.activation_id == search.activation_id]
        return not wanted.of(OF_HINT) or any(has_all(hint, OF_HINT) for hint in hints)

    if not wanted.of((*OF_SEARCH, *OF_HINT)):
        return True
    return any(has_all(search, OF_SEARCH) and has_hint(search) for search in chain.activations)


def asked() -> list[dict[str, str]]:
    """What the measurement asks for, as far as runs can tell it: every word, and some pairs."""
    known = [one for one in addresses() if one.get("waiting") != "escalation"]
    pairs = [one for one in known if len(one) > 1]
    return [one for one in known if len(one) < 2] + pairs[::PAIRS_STEP]


def listed(project_id: int, wanted: RunFilter) -> list[str]:
    """The ids of all pages, read one after another."""
    found, cursor = [], ""
    while True:
        page = run_pages.page_of(project_id, wanted, cursor, LIMIT)
        found += [run.run_id for run in page.rows]
        if page.next is None:
            return found
        cursor = page.next


@pytest.mark.django_db
def test_pages_hold_exactly_the_runs_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs count as the newest here, so that most words are found by the indexes, day by day."""
    monkeypatch.setattr(run_pages, "LOOKED_AT", 30)
    project = make_project().pk
    runs = list(make_runs(N_RUNS, "main"))
    with connection.cursor() as cursor:
        copy_runs(cursor.cursor, project, iter(runs))
        copy_runs(cursor.cursor, make_project("beside").pk, make_runs(60, "side"))
    n_found = 0
    for params in [*asked(), {"text": runs[3].run_id}, {"text": runs[3].run_id, "status": "cancelled"}]:
        wanted = parse_filter(params)
        ids = [run.run_id for run in reversed(runs) if is_meant(run, wanted) or is_named(run, wanted)]
        assert listed(project, wanted) == ids, params
        assert run_pages.count_runs(project, wanted, N_RUNS) == len(ids), params
        assert run_pages.count_runs(project, wanted, len(ids) - 1) is None or not ids, params
        n_found += bool(ids)
    assert n_found > len(asked()) / 2, "most of what is asked finds something"


def is_named(run: MadeRun, wanted: RunFilter) -> bool:
    """Whether the text is the run's id, and the rest holds."""
    if wanted.text != run.run_id:
        return False
    return run.chain is None or is_run(run.chain, wanted)
