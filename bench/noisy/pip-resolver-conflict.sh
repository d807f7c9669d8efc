# command: pip install -vv --find-links wheels -r requirements.txt
# where: end
# error: ^ERROR: ResolutionImpossible|The conflict is caused by
. "$PARTS/pip.sh"
cat >> wheel.py <<'PY'
for n in range(14):
    wheel("paperjam", f"3.{n}", ["inkwell>=2"])
    wheel("quillpen", f"1.{n}", ["inkwell<2"])
wheel("inkwell", "1.8"); wheel("inkwell", "2.1")
PY
python wheel.py
printf 'paperjam>=3.9\nquillpen>=1.9\n' > requirements.txt
python -m pip install -vv --no-index --find-links wheels --target site -r requirements.txt
