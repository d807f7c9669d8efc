"""Writes the requests that must not change unnoticed: `python -m tests.kernel.conversation.record_requests`."""

import json
from dataclasses import asdict
from pathlib import Path

from kernel.conversation.request import compose
from kernel.messages import Locale
from tests.kernel.conversation.talks import cut_story, two_days

FOLDER = Path(__file__).parent / "golden"
LOCALES: tuple[Locale, ...] = ("zh", "en", "ru")
SITUATIONS = {"two_days": two_days, "cut_story": cut_story}
NAMES = [(name, locale) for name in SITUATIONS for locale in LOCALES]


def rendered(name: str, locale: Locale) -> str:
    """Return a request as its golden file has it."""
    request = compose(SITUATIONS[name](locale))
    messages = [{"role": one.role, "origin": one.origin, "text": one.text} for one in request.messages]
    value = {"messages": messages, "cut": None if request.cut is None else asdict(request.cut)}
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def golden(name: str, locale: Locale) -> Path:
    """Return where the file of a request is."""
    return FOLDER / f"{name}.{locale}.json"


if __name__ == "__main__":
    for name, locale in NAMES:
        golden(name, locale).write_text(rendered(name, locale))
