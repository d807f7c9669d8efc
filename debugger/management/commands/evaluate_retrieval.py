"""`manage.py evaluate_retrieval`: how often FindHints finds what is right, and how often it speaks when it should not.

It lives here and not beside the code that measures, because it may have to start a database of its own.
"""

import json
import os
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils import timezone

from debugger.embedded.postgres import postgres_problem
from debugger.embedded.processes import StackError
from debugger.embedded.scratch import scratch_postgres
from debugger.preparation import prepare_schema
from debugger.settings import database_from_url
from knowledge.evaluation import data_sets, report, results
from knowledge.evaluation.measuring import measure
from knowledge.evaluation.pairs import CorpusError
from knowledge.evaluation.questions import questions_of
from knowledge.evaluation.subjects import NAMES, Subject, all_subjects, not_measurable

STORED_JSON: Final = Path(data_sets.__file__).with_name("measured.json")
STORED_MARKDOWN: Final = Path(settings.BASE_DIR) / "docs" / "retrieval.md"
INTERRUPTED: Final = 130  # exit status, as a shell reports Ctrl-C


class Command(BaseCommand):
    help = "Measure how well knowledge is found, version by version; nothing that is stored anywhere changes."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--corpus",
            choices=[*data_sets.FOREIGN_TO, "all"],
            default=data_sets.DEFAULT,
            help=f"default: {data_sets.DEFAULT}",
        )
        parser.add_argument("--pairs", type=Path, help="ask these instead: JSON Lines of rule, command, output, fixes")
        parser.add_argument("--items", type=Path, help="of these items instead: JSON Lines as import_knowledge takes")
        parser.add_argument("--versions", nargs="+", metavar="NAME", help=f"only these of: {', '.join(NAMES)}")
        parser.add_argument(
            "--sample",
            type=int,
            metavar="N",
            default=data_sets.ASKED_MOST,
            help=f"ask at most N pairs of each corpus, always the same; default: {data_sets.ASKED_MOST}",
        )
        parser.add_argument("--full", action="store_true", help="ask all pairs of each corpus")
        parser.add_argument(
            "--task", default="", metavar="TEXT", help="ask of failures with this task, and the command line beside it"
        )
        parser.add_argument("--json", action="store_true", help="print the result as JSON, as the last line")
        parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a fragment of a page")
        parser.add_argument("--store", action="store_true", help="keep the result in this checkout, for the documents")

    def handle(self, *args: Any, **options: Any) -> None:
        self.started = time.monotonic()
        try:
            sets = load_sets(options)
            subjects = chosen(options["versions"])
            self.left_out = not_measurable(subjects)
            for name, why in self.left_out.items():
                self.tell(f"{name} is not measured: {why}")
            with stopped_by_signals(), self.database():
                found = [self.measured(one, self.able(subjects), options) for one in sets]
        except (CorpusError, StackError) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            self.tell("stopped; nothing is kept")
            sys.exit(INTERRUPTED)
        self.give(found, options)

    def able(self, subjects: Mapping[str, Subject]) -> list[Subject]:
        return [subject for name, subject in subjects.items() if name not in self.left_out]

    def measured(
        self, data_set: data_sets.DataSet, subjects: Sequence[Subject], options: dict[str, Any]
    ) -> results.CorpusResult:
        sample = None if options["full"] else options["sample"]
        questions = questions_of(data_set.pairs, data_set.item_ids, data_set.foreign, sample)
        self.tell(f"corpus {data_set.name}")
        if questions.without_item:
            rules = ", ".join(questions.rules_without_item)
            self.tell(f"{len(questions.without_item)} pairs name a rule that has no item ({rules}): none can be found")
        answers = measure(data_set.drafts, questions, subjects, self.tell, options["task"])
        return results.CorpusResult(
            corpus=data_set.name,
            counts=results.counts_of(len(data_set.drafts), data_set.n_with_rule, questions),
            rules_without_item=questions.rules_without_item,
            versions={name: results.figures_of(answer) for name, answer in answers.items()},
            not_measured=self.left_out,
            task=options["task"],
        )

    def give(self, found: Sequence[results.CorpusResult], options: dict[str, Any]) -> None:
        self.stdout.write(report.markdown(found))
        measured = results.as_json(found, timezone.now().date().isoformat())
        if options["html"]:
            options["html"].write_text(report.html(found), encoding="utf-8")
        if options["store"]:
            STORED_JSON.write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            STORED_MARKDOWN.write_text(f"{report.DOCUMENT_HEAD}\n{report.markdown(found)}", encoding="utf-8")
        if options["json"]:
            self.stdout.write(json.dumps(measured, ensure_ascii=False))

    @contextmanager
    def database(self) -> Iterator[None]:
        """Point this process at a database: the one of DATABASE_URL when that answers, else one made for this."""
        named = os.environ.get("DATABASE_URL", "")
        problem = postgres_problem(named) if named else "DATABASE_URL is not set"
        if not problem:
            self.tell("using the database of DATABASE_URL; what is loaded into it is never committed")
            prepare_schema()
            yield
            return
        self.tell(f"starting a PostgreSQL of its own, for this measurement only ({problem})")
        before = dict(settings.DATABASES["default"])
        with scratch_postgres() as url:
            settings.DATABASES["default"].update(database_from_url(url))
            try:
                prepare_schema()
                yield
            finally:
                connections.close_all()
                settings.DATABASES["default"].update(before)

    def tell(self, line: str) -> None:
        self.stderr.write(f"[{time.monotonic() - self.started:5.1f} s] {line}", str)
        self.stderr.flush()


def load_sets(options: dict[str, Any]) -> list[data_sets.DataSet]:
    """Return what is measured by. Raises CommandError for options that do not go together."""
    own, corpus = options["pairs"] or options["items"], options["corpus"]
    if own and corpus == "all":
        raise CommandError("--pairs and --items are for one corpus: name it with --corpus")
    if options["sample"] < 1:
        raise CommandError("--sample must be 1 or more")
    narrowed = options["sample"] != data_sets.ASKED_MOST
    if narrowed and options["full"]:
        raise CommandError("--sample and --full say different things: leave one out")
    if options["store"] and (own or options["task"] or narrowed or options["versions"] or corpus != "all"):
        raise CommandError("--store keeps a whole measurement only: give --corpus all and leave out what narrows it")
    names = list(data_sets.FOREIGN_TO) if corpus == "all" else [corpus]
    return [data_sets.load(name, pairs=options["pairs"], items=options["items"]) for name in names]


def chosen(names: Sequence[str] | None) -> dict[str, Subject]:
    """Return what to measure. Raises CommandError for a name that is not known."""
    known = all_subjects()
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        raise CommandError(f"--versions: {unknown[0]} is not known; known are {', '.join(known)}")
    return {name: subject for name, subject in known.items() if not names or name in names}


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the work as Ctrl-C does, so that all is put away; also where that was ignored."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
