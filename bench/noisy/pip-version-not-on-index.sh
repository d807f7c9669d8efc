# command: pip install -vv -r requirements.txt --no-index --find-links wheels
# where: end
# error: ^ERROR: Could not find a version
. "$PARTS/pip.sh"
cat >> wheel.py <<'PY'
for n in range(45):
    wheel("ledgerkit", f"1.{n}.0", python=">=3.12" if n % 2 else "<3.9")
wheel("ledgerkit", "0.9.1")
PY
python wheel.py
printf 'ledgerkit==2.4.0\n' > requirements.txt
python -m pip install -vv --no-index --find-links wheels --target site -r requirements.txt
