"""Makes the constants of the gate of `hybrid.v3` again, and shows how they differ: `python -m bench.gate`.

Questions of the corpora go through the search itself in a database of its own; two logistic models are fitted on the
numbers of their candidates (knowledge/find_hints/v3/scores.py says what each is), and moved so that the operating point
named here stands at 0.5. `--dump` keeps the numbers, `--numbers` fits on kept ones. `ruff` is left out: with codes its
matches are exact and pass any gate; `tasks` is judged only, as it was not there when the constants were chosen.
"""

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path

import django

from bench.gate_fit import Corpus, Model, Rates, fit, left_out, rates, serves

MEANING, WORDS = ("cosine", "overlap"), ("log_lexical", "share")
FITTED_ON = ("thefuck", "ruff-words", "noisy", "russian")
JUDGED = (*FITTED_ON, "tasks")
SHOWN_BESIDE = (-0.5, -0.25, 0.0, 0.25, 0.5)  # from the gate


def main() -> None:
    options = parse()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "debugger.settings")
    django.setup()
    from knowledge.find_hints.v3 import scores  # noqa: PLC0415 - Django is set up by then

    if options.numbers:
        found = json.loads(options.numbers.read_text())
    else:
        from bench.gate_numbers import gather  # noqa: PLC0415

        found = gather(JUDGED, options.sample)
    if options.dump:
        options.dump.write_text(json.dumps(found))
    model = show("WITH_MEANING", MEANING, found["meaning"], options.meaning)
    compare("WITH_MEANING", model.with_gate_at_half(options.meaning), scores.WITH_MEANING)
    model = show("TERMS_ONLY", WORDS, found["words"], options.words)
    compare("TERMS_ONLY", model.with_gate_at_half(options.words), scores.TERMS_ONLY)
    others = model.with_gate_at_half(options.other_script)
    compare("TERMS_OF_ANOTHER_SCRIPT", others, scores.TERMS_OF_ANOTHER_SCRIPT)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=400, metavar="N", help="pairs of a corpus; default: 400")
    parser.add_argument("--dump", type=Path, metavar="FILE", help="keep the numbers here, as JSON")
    parser.add_argument("--numbers", type=Path, metavar="FILE", help="fit on kept numbers, and ask nothing")
    for name, gate in (("meaning", -2.6), ("words", -1.9), ("other-script", -2.75)):
        parser.add_argument(
            f"--{name}", type=float, default=gate, help=f"its operating point, a logit; default: {gate}"
        )
    return parser.parse_args()


def show(title: str, names: tuple[str, ...], corpora: Mapping[str, Corpus], gate: float) -> Model:
    """Fit one model, print it and what it lets pass, and give it."""
    fitted_on = {name: corpora[name] for name in FITTED_ON if name in corpora and serves(corpora[name], names)}
    model = fit(list(fitted_on.values()), names)
    factors = " ".join(f"{factor:+.2f}*{name}" for name, factor in zip(names, model.factors, strict=True))
    print(f"\n{title}: logit = {model.constant:.2f} {factors}, fitted on {', '.join(fitted_on)}")
    print("right passed / near-miss injection / false injection, by the logit of the gate:")
    for name, corpus in corpora.items():
        if serves(corpus, names):
            shown = (f"{gate + step:.2f}: {told(rates(model, corpus, gate + step))}" for step in SHOWN_BESIDE)
            print(f"  {name}{'' if name in fitted_on else ' (not fitted on)'}  {'  '.join(shown)}")
    print(f"left out of the fit, at {gate:.2f}:")
    for name, found in left_out(fitted_on, names, gate).items():
        print(f"  {name}  {told(found)}")
    return model


def told(found: Rates) -> str:
    return f"{found.right:.2f}/{found.near_miss:.2f}/{found.foreign:.2f}"


def compare(title: str, made: tuple[float, ...], there: tuple[float, ...]) -> None:
    """Print the constants with the gate at 0.5 beside those in the source."""
    differences = ", ".join(f"{one - other:+.2f}" for one, other in zip(made, there, strict=True))
    print(f"{title} = ({', '.join(f'{one:.2f}' for one in made)})  # in the source: {there}; difference {differences}")


if __name__ == "__main__":
    main()
