"""The chain of a whole run: a picture, the same numbers as a table, and the rows behind each box. (Seed 001 §14.)"""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET
from django.views.decorators.vary import vary_on_headers

from debugger.access import get_run_for, person_only
from debugger.htmx import HtmxHttpRequest, wants_fragment
from debugger.queries.chain import COLUMNS, Chain
from debugger.queries.chain_picture import draw, keys_of
from debugger.queries.chain_rows import LISTED, list_lines, load_chain, why_empty
from debugger.queries.opening import warnings_of

LONGEST_NUMBER: Final = 18  # digits of a number in an address
NOTHING_NEW: Final = 204
TABLED: Final = 100  # nodes of a column that the table names


@person_only
@require_GET
@vary_on_headers("HX-Request")
def chain(request: HtmxHttpRequest, project: str, run_id: str) -> HttpResponse:
    """The page. `node` names the box whose lines are listed, `from` the first of them; an unknown box lists nothing.

    For htmx whether the chain has changed since the page was drawn (`folded`): 204 while it has not. The page itself
    stays as it is until its reader asks, so that nothing moves away under a hand.
    """
    run = get_run_for(request.user, project, run_id)
    node, folded = request.GET.get("node", ""), run.registry.folded_arrival
    context: dict[str, Any] = {"project": run.project, "run_id": run_id, "run": run, "node": node}
    if wants_fragment(request):
        if _number(request.GET.get("folded", "")) == folded:
            return HttpResponse(status=NOTHING_NEW)
        return render(request, "_chain_news.html", {**context, "has_news": True})
    rows = load_chain(run)
    warnings = (*warnings_of(run), *rows.warnings)
    context |= {"warnings": warnings, "n_unfolded": max(0, run.registry.last_arrival - folded), "folded": folded}
    context["is_live"] = context["n_unfolded"] or run.summary is None or run.summary.status == "running"
    if not rows.chain.lines:
        return render(request, "run_chain.html", {**context, "empty": why_empty(run)})
    context |= {"chain": rows.chain, "picture": draw(rows.chain), "table": _table(rows.chain)}
    context |= _listed(rows.chain, node, _number(request.GET.get("from", "")), rows.origin_ns)
    return render(request, "run_chain.html", context)


def _table(chain: Chain) -> list[dict[str, Any]]:
    columns = ((name, chain.column(number)) for number, name in enumerate(COLUMNS))
    return [
        {"name": name, "nodes": nodes[:TABLED], "n_more": max(0, len(nodes) - TABLED)}
        for name, nodes in columns
        if nodes
    ]


def _listed(chain: Chain, node: str, start: int, origin_ns: int) -> dict[str, Any]:
    keys = keys_of(chain, node) if node else ()
    lines = chain.through(keys) if node else chain.lines
    start = min(start, max(0, len(lines) - 1))
    chosen = next((one for one in chain.nodes if one.stop.key in keys), None)
    return {
        "chosen": chosen,
        "n_together": len(keys),
        "is_unknown": bool(node) and not keys,
        "listed": list_lines(lines[start : start + LISTED], origin_ns),
        "first": start + 1,
        "last": min(len(lines), start + LISTED),
        "n_listable": len(lines),
        "earlier": max(0, start - LISTED) if start else None,
        "later": start + LISTED if start + LISTED < len(lines) else None,
    }


def _number(given: str) -> int:
    """Return a whole number of an address; what is none counts as 0."""
    return int(given) if given.isascii() and given.isdecimal() and len(given) <= LONGEST_NUMBER else 0
