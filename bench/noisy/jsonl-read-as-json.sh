# command: pytest tests -v --log-cli-level=INFO
# where: middle
# error: ^E +json.decoder.JSONDecodeError
mkdir tests
cat > tests/test_feed.py <<'PY'
import json
import logging

import pytest

log = logging.getLogger("feed")


@pytest.mark.parametrize("part", range(60))
def test_part(part, tmp_path):
    file = tmp_path / "events.json"
    rows = [{"part": part, "n": n} for n in range(2 if part == 31 else 1)]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    log.info("reading part %d of 60 from the feed, %d rows expected", part, len(rows))
    assert json.loads(file.read_text())["part"] == part
PY
python -m pytest tests -v -x --log-cli-level=INFO -p no:cacheprovider
