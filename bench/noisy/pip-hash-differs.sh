# command: pip install -v --require-hashes -r requirements.txt
# where: end
# error: THESE PACKAGES DO NOT MATCH THE HASHES
. "$PARTS/pip.sh"
cat >> wheel.py <<'PY'
import hashlib, pathlib
names = [f"kit{n:02}" for n in range(80)]
for name in names:
    wheel(name, "1.0")
lines = []
for name in names:
    digest = hashlib.sha256(pathlib.Path(f"wheels/{name}-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    lines.append(f"{name}==1.0 --hash=sha256:{digest if name != 'kit78' else '0' * 64}\n")
pathlib.Path("requirements.txt").write_text("".join(lines))
PY
python wheel.py
python -m pip install -v --no-index --find-links wheels --target site --require-hashes -r requirements.txt
