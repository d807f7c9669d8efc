"""Decides whether a run may be started as its spec says; pure, so that whoever starts runs can ask first.

What is wrong is named with the field, the limit and the fix. A spec goes through workflow history and most of it is
carried in the run's state, so its parts have sizes. (Seed 001 §8.)
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

from contract.stages import trigger_problem
from kernel.conversation.checks import conversation_problems
from kernel.core.codec import to_json
from kernel.messages import Holdout, Limits, Member, RunSpec
from kernel.tools.mcp_config import server_problem

DEPTH_LIMIT: Final = 5  # runs below the root
CHILD_ID: Final = 10  # characters a child's run id is longer than its parent's, at most
RUN_ID_LIMIT: Final = 150  # characters: ids of events, activations and child runs are longer by some
ID_LIMIT: Final = 200  # characters
TEXT_LIMIT: Final = 1_000_000  # characters of the task
RULES_LIMIT: Final = 100_000  # characters of the rules and of the setup command
NAMES_LIMIT: Final = 100  # skills, blocked tools, tools that need approval, triggers switched off: of each
NAMES_BYTES: Final = 4_096  # of all of them together
MEMBERS_LIMIT: Final = 16
MEMBERS_BYTES: Final = 6_144  # of all members together, their rules included
SERVERS_LIMIT: Final = 20
BATCH: Final = 20  # searches that Observation answers in one call
MOST: Final = 10**9  # of any limit


def spec_problem(spec: RunSpec) -> str:
    """Return the first thing that is wrong with the spec and how to put it right, or an empty string."""
    return next(_problems(spec), "")


def _problems(spec: RunSpec) -> Iterator[str]:
    yield from _text_problems(spec)
    yield from _names_problems(spec)
    yield from _server_problems("mcp_servers", spec)
    yield from _limits_problems("limits", spec.limits)
    yield from _member_problems(spec.members)
    yield from _holdout_problems(spec.holdout)
    if spec.conversation is not None:
        yield from conversation_problems(spec.conversation)
    for number, trigger in enumerate(spec.switches.off):
        problem = trigger_problem(trigger)
        if problem:
            yield f"switches.off[{number}] {problem}"


def _text_problems(spec: RunSpec) -> Iterator[str]:
    if not spec.run_id or not spec.run_id.isprintable():
        yield "run_id must be a printable text that is not empty"
    if not 0 <= spec.depth <= DEPTH_LIMIT:
        yield f"depth is {spec.depth}; it must be from 0 to {DEPTH_LIMIT}"
    if not spec.task.strip():
        yield "task is empty: say what the run is to do"
    bounded = {
        "run_id": RUN_ID_LIMIT + CHILD_ID * spec.depth,
        "task": TEXT_LIMIT,
        "rules": RULES_LIMIT,
        "setup": RULES_LIMIT,
    }
    short = ("task_id", "actor_id", "parent_run_id", "team_root", "agent", "script", "model", "reviewer")
    for name in (*bounded, *short):
        limit, length = bounded.get(name, ID_LIMIT), len(getattr(spec, name) or "")
        if length > limit:
            yield f"{name} has {length} characters; the limit is {limit}: shorten it"


def _names_problems(spec: RunSpec) -> Iterator[str]:
    named = ("skills", "blocked_tools", "approval_tools", "tools", "grants", "namespaces_off")
    lists = {name: getattr(spec, name) for name in named}
    lists["switches.off"] = spec.switches.off
    for name, names in lists.items():
        if len(names) > NAMES_LIMIT:
            yield f"{name} has {len(names)} entries; the limit is {NAMES_LIMIT}: keep those that matter"
        for number, one in enumerate(names):
            if not one.strip() or len(one) > ID_LIMIT or not one.isprintable():
                yield f"{name}[{number}] must be a printable text of 1 to {ID_LIMIT} characters"
    for name in _repeated(spec.tools):
        yield f"tools names {name!r} twice: once is enough"
    size = len(to_json(list(lists.values())).encode("utf-8", "replace"))
    if size > NAMES_BYTES:
        yield f"{', '.join(lists)} have {size} bytes together; the limit is {NAMES_BYTES}: shorten them"


def _server_problems(place: str, owner: RunSpec | Member) -> Iterator[str]:
    servers = owner.mcp_servers
    if len(servers) > SERVERS_LIMIT:
        yield f"{place} has {len(servers)} entries; the limit is {SERVERS_LIMIT}"
    for key in _repeated([server.key for server in servers]):
        yield f"{place} names {key!r} twice: give each server a key of its own"
    for server in servers:
        problem = server_problem(server)
        if problem:
            yield f"{place}: {problem}"


def _limits_problems(place: str, limits: Limits) -> Iterator[str]:
    for field in fields(limits):
        if field.name == "at_limit":
            continue
        value, least = getattr(limits, field.name), int(field.name in ("max_turns", "turns_per_workflow"))
        most = BATCH if field.name == "activations_per_turn" else MOST
        if not least <= value <= most:
            yield f"{place}.{field.name} is {value}; it must be from {least} to {most}"


def _member_problems(members: Sequence[Member]) -> Iterator[str]:
    if len(members) > MEMBERS_LIMIT:
        yield f"members has {len(members)} entries; the limit is {MEMBERS_LIMIT}"
    for name in _repeated([member.name for member in members]):
        yield f"members names {name!r} twice: give each member a name of its own"
    for number, member in enumerate(members):
        if not member.name.strip() or len(member.name) > ID_LIMIT:
            yield f"members[{number}].name must have 1 to {ID_LIMIT} characters"
        yield from _limits_problems(f"members[{number}].limits", member.limits)
        yield from _server_problems(f"members[{number}].mcp_servers", member)
    size = len(to_json(list(members)).encode("utf-8", "replace"))
    if size > MEMBERS_BYTES:
        yield f"members have {size} bytes together; the limit is {MEMBERS_BYTES}: shorten their rules and setup"


def _holdout_problems(holdout: Holdout) -> Iterator[str]:
    if not (math.isfinite(holdout.share) and 0 <= holdout.share <= 1):
        yield f"holdout.share is {holdout.share}; it must be from 0 to 1"
    if holdout.share and not holdout.salt:
        yield "holdout.salt is empty: without one of its own every experiment withholds the same situations"
    for name in ("salt", "experiment"):
        length = len(getattr(holdout, name))
        if length > ID_LIMIT:
            yield f"holdout.{name} has {length} characters; the limit is {ID_LIMIT}: shorten it"


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
