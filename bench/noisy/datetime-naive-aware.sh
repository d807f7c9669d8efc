# command: python -m pytest -v tests
# where: middle
# error: ^E +TypeError: can't compare
. "$PARTS/many_tests.sh"
cat > tests/test_aa_expiry.py <<'PY'
import datetime as dt


class Token:
    def __init__(self, expires):
        self.expires = expires

    def expired(self):
        return self.expires < dt.datetime.now(dt.timezone.utc)


def test_fresh_token():
    token = Token(dt.datetime.fromisoformat("2031-01-01T00:00:00"))
    assert not token.expired()
PY
python -m pytest -v -rA -p no:cacheprovider tests
