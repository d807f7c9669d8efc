"""Shows that the state machine bites: copies of the tree with one defect each, and the rule that fails on every one.

    python -m tests.kernel.machine_mutations [part of a name]

Prints a line for each defect and ends with 1 when one of them went unnoticed or is no longer in the code to be made.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CORE = "kernel/core"
EXAMPLES = "150"
SECONDS = 240
PLAY = """
import sys, traceback
from tests.kernel import test_state_machine as machine
try:
    machine.test_the_core_keeps_its_promises_whatever_happens()
except BaseException as error:
    frames = traceback.extract_tb(error.__traceback__)
    place = [one for one in frames if one.name.startswith(("check_", "test_"))] or frames
    print("FAILED IN", place[-1].name, "|", type(error).__name__, str(error)[:100].replace(chr(10), " "))
"""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One defect: `old` in `module` becomes `new`."""

    name: str
    module: str
    old: str
    new: str


MUTATIONS = (
    Mutation(
        "ids count as issued when selected, withheld or not",
        "injection.py",
        "_spend(step, waiting, selection)",
        "_spend(step, waiting, wanted)",
    ),
    Mutation(
        "the reply of a copy is missing",
        "settling.py",
        "step.set(appends=(*step.state.appends, Append(call.reply_seq, message, copy_of=source.reply_seq)))",
        "pass",
    ),
    Mutation(
        "a refused call is a failed one",
        "triggers/tool_failed.py",
        'if happened.executed and happened.status in ("failed", "timed_out")',
        'if happened.status in ("failed", "timed_out", "denied")',
    ),
    Mutation(
        "identical calls are executed each",
        "calls.py",
        "duplicate = any(other.seen.digest == seen.digest for other in calls)",
        "duplicate = False",
    ),
    Mutation(
        "a situation is searched for again", "refusals.py", "if handled_by(state.activation, candidate):", "if False:"
    ),
    Mutation("what is put off is forgotten", "activation.py", "deferred=kept", "deferred=()"),
    Mutation(
        "a block is placed before the last reply",
        "injection.py",
        "Append(seq, message)), next_seq=seq + 1",
        "Append(seq - 1, message)), next_seq=seq + 1",
    ),
    Mutation("malformed arguments are executed", "envelope.py", "if call.seen.malformed:", "if False:"),
    Mutation("a blocked tool is executed", "envelope.py", "if name in state.spec.blocked_tools:", "if False:"),
    Mutation(
        "the run's limit is one too many",
        "refusals.py",
        "activation.count >= limits.activations_per_run",
        "activation.count > limits.activations_per_run",
    ),
    Mutation(
        "a tool's limit is not judged for what waited",
        "activation.py",
        "refusal = limit_refusal(step.state, candidate)",
        'refusal = ""',
    ),
    Mutation(
        "the block is measured without its frame",
        "budget.py",
        "size = estimate(render(hints))",
        "size = estimate(render(hints)) - 30",
    ),
    Mutation(
        "what does not fit now is kept back for ever",
        "hint_request.py",
        "suppressed.tokens > fits",
        "suppressed.tokens > 0",
    ),
    Mutation(
        "an item that was placed stays suppressed", "injection.py", " and entry.knowledge_id not in selected)", ")"
    ),
    Mutation(
        "the draw is the run's, not the situation's",
        "holdout.py",
        r"{spec.run_id}\x1f{situation_key}",
        r"{spec.run_id}",
    ),
    Mutation("an operation is told twice", "operations.py", "told = replace(ended, told=True)", "told = ended"),
    Mutation(
        "a server is met at every call", "activation.py", "        met.append(happened.mcp_server)\n", "        pass\n"
    ),
    Mutation(
        "an operation goes on after its run",
        "operations.py",
        "step.do(StopOperation(step.state.spec.run_id, operation.operation_id))",
        "pass",
    ),
    Mutation(
        "cancelling answers nobody",
        "calls.py",
        'reply(step, call, f"[{detail[0].upper()}{detail[1:]}.]", "refusal", "cancelled", code)',
        "pass",
    ),
    Mutation(
        "continue-as-new loses what was to be written",
        "decide.py",
        'step.set(phase="continuing", ',
        'step.set(phase="continuing", appends=(), ',
    ),
    Mutation(
        "a block is injected because it was placed",
        "injection.py",
        "        message = by_seq.get(placed.seq)\n        if message is None:\n            continue\n",
        '        message = by_seq.get(placed.seq, SentMessage(placed.seq, placed.seq, "0"))\n',
    ),
    Mutation(
        "what a request was to write is not kept",
        "requesting.py",
        'next_seq=reply_seq + 1, phase="calling")',
        'next_seq=reply_seq + 1, phase="calling", appends=())',
    ),
    Mutation(
        "a reply to another request is taken in",
        "decide.py",
        "if observed.n_messages not in (0, n_messages):",
        "if False:",
    ),
    Mutation(
        "waiting is forgotten by continue-as-new",
        "decide.py",
        "continue_suggested=False, turns_here=0)",
        "continue_suggested=False, turns_here=0, ended_operations=())",
    ),
    Mutation(
        "an awaiting call does not wait",
        "operations.py",
        "wait(step, call, wanted)",
        'answer(step, at_ns, call, "Go on.")',
    ),
    Mutation(
        "nobody is asked", "people.py", "state.spec.approval_tools and not call.approved", "() and not call.approved"
    ),
    Mutation(
        "the last events are not sent",
        "ending.py",
        "turn=None)\n    step.flush()\n",
        "turn=None)\n",
    ),
    Mutation(
        "shadow mode places blocks",
        "injection.py",
        "if spec.switches.shadow:\n        return",
        "if False:\n        return",
    ),
    Mutation("the end of an operation is no outcome", "operations.py", "executed=True,", "executed=False,"),
    Mutation("a step past the last is executed", "envelope.py", "if claimed >= limits.max_turns:", "if False:"),
    Mutation(
        "the last step is refused", "envelope.py", "claimed >= limits.max_turns", "claimed >= limits.max_turns - 1"
    ),
    Mutation(
        "the budget of calls is one too many",
        "envelope.py",
        "state.n_calls >= call_limit(limits)",
        "state.n_calls > call_limit(limits)",
    ),
    Mutation(
        "the budget is judged before the step",
        "envelope.py",
        "    claimed = position_of(state)",
        "    if state.n_calls >= call_limit(limits):\n"
        '        return "denied", "tool_call_limit_exceeded", "No."\n'
        "    claimed = position_of(state)",
    ),
    Mutation(
        "a guess at a tool costs nothing",
        "envelope.py",
        "    step.set(n_calls=step.state.n_calls + 1)",
        "    step.set(n_calls=step.state.n_calls + (tool_of(step.state, call.seen.name) is not None))",
    ),
    Mutation("an approved call is paid for twice", "envelope.py", "    if call.approved:", "    if False:"),
    Mutation("what follows an ask is executed", "envelope.py", "    if state.escalation:", "    if False:"),
    Mutation(
        "what follows an ask is copied",
        "calls.py",
        "if call.duplicate and not step.state.escalation:",
        "if call.duplicate:",
    ),
    Mutation("the last ask counts", "escalating.py", " and not state.escalation", ""),
    Mutation(
        "a forged ask is an ask",
        "calls.py",
        "if not offers_escalation(step.state):",
        "if False:",
    ),
    Mutation(
        "a forged ask is a refused call",
        "escalating.py",
        "return bool(call.seen.escalates) and",
        "return bool(call.seen.escalates) and offers_escalation(state) and",
    ),
    Mutation(
        "a forwarded ask ends the run",
        "escalating.py",
        "    from_driver =",
        "    step.set(escalation='forwarded', ask_call_id=call.seen.call_id)\n    from_driver =",
    ),
    Mutation(
        "an ask does not wait for what was started before it",
        "decide.py",
        "    if any(not call.outcome for call in step.state.calls):",
        "    if not step.state.escalation and any(not call.outcome for call in step.state.calls):",
    ),
    Mutation(
        "an ask is followed by a search",
        "decide.py",
        "    if step.state.escalation:\n        end_in_ask",
        "    if step.state.escalation and len(step.state.calls) == 1:\n        end_in_ask",
    ),
    Mutation(
        "the calls after an ask are counted wrongly",
        "ending.py",
        "places.index(state.ask_call_id) - 1",
        "places.index(state.ask_call_id)",
    ),
    Mutation(
        "a call that was not started is told to have had an effect",
        "calls.py",
        'phase == "running" and not step.state.refused',
        'phase == "running"',
    ),
    Mutation(
        "an ask like a call before it is a copy",
        "calls.py",
        "if is_ask(step.state, call):",
        "if is_ask(step.state, call) and not call.duplicate:",
    ),
    Mutation(
        "searches are made for the last request",
        "decide.py",
        "    step.set(limit=spent_limit(step.state, at_ns))\n",
        "",
    ),
    Mutation(
        "a new workflow is begun for the last request",
        "decide.py",
        "    if limit:\n        step.set(limit=limit)",
        "    if limit and not step.state.continue_suggested:\n        step.set(limit=limit)",
    ),
    Mutation("a round too many", "finale.py", "state.turn >= limits.max_turns", "state.turn > limits.max_turns"),
    Mutation("time does not end", "finale.py", "if limits.run_ms and", "if False and"),
    Mutation("tokens do not end", "finale.py", "if limits.run_tokens and", "if False and"),
    Mutation(
        "what the model says costs nothing",
        "requesting.py",
        "+ (observed.output_tokens or estimate(observed.text))",
        "+ (0 if observed.output_tokens else estimate(observed.text))",
    ),
    Mutation("a run that is to fail asks once more", "decide.py", 'at_limit == "fail"', 'at_limit == "never"'),
    Mutation("the last request offers tools", "requesting.py", "spec.model, bool(finale))", "spec.model, False)"),
    Mutation("the way into the finale is not seen", "requesting.py", 'step.emit("thinking", at_ns, data)', "pass"),
    Mutation(
        "the last request fails the run",
        "decide.py",
        "    if step.state.limit:\n        close_transcript(step)",
        "    if False:\n        close_transcript(step)",
    ),
    Mutation(
        "a run at its limit is completed",
        "decide.py",
        "    if step.state.limit:\n        end_at_limit(step, observed.at_ns, observed.text",
        "    if False:\n        end_at_limit(step, observed.at_ns, observed.text",
    ),
    Mutation(
        "results of delegates are forgotten",
        "delegation.py",
        "    if observed.started:\n        note",
        "    if False:\n        note",
    ),
    Mutation("results of calls are forgotten", "calls.py", "    if settled.executed:\n", "    if False:\n"),
    Mutation("a result is not listed", "finale.py", "*state.receipts))", "*state.receipts[1:]))"),
    Mutation(
        "long metadata is cut",
        "bounds.py",
        'return json.dumps({"left_out"',
        'return text[:METADATA_LIMIT] or json.dumps({"left_out"',
    ),
)


def play(mutation: Mutation, folder: Path) -> str:
    """Return in which rule the machine failed on the defect, or what is wrong with the mutation itself."""
    for package in ("contract", "kernel", "tests"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "histories"))
    path = folder / CORE / mutation.module
    text = path.read_text()
    if text.count(mutation.old) != 1:
        return f"NOT MADE: the text to be changed stands {text.count(mutation.old)} times in {mutation.module}"
    path.write_text(text.replace(mutation.old, mutation.new))
    settings = {"KERNEL_MACHINE_SHRINK": "0", "KERNEL_MACHINE_EXAMPLES": EXAMPLES, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PLAY], cwd=folder, env=os.environ | settings, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "NOT NOTICED in time"
    found = re.search(r"FAILED IN (.*)", done.stdout)
    if found is None or "the machine never came to" in found[1]:
        return f"NOT NOTICED {found[1] if found else done.stderr[-300:]}"
    return found[1]


def main(wanted: str = "") -> int:
    """Play every mutation whose name holds `wanted`."""
    missed = 0
    for mutation in MUTATIONS:
        if wanted not in mutation.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            outcome = play(mutation, Path(folder))
        missed += outcome.startswith("NOT")
        print(f"{mutation.name}: {outcome}", flush=True)
    print(f"{missed} unnoticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
