cat > make_tests.py <<'PY'
import pathlib, sys
words = "orders invoices refunds carts stock users roles search export import mail tax coupons audit".split()
for word in words[: int(sys.argv[1])]:
    body = "".join(
        f"def test_{word}_{what}_{n}():\n    assert {n} + 1 == {n + 1}\n\n\n"
        for what in ("created", "changed", "listed") for n in range(4)
    )
    pathlib.Path(f"tests/test_{word}.py").write_text(body)
PY
mkdir -p tests; python make_tests.py 14
