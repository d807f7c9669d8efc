# command: python sweep.py
# where: start
# error: ^RuntimeError: dictionary changed size
cat > sweep.py <<'PY'
import logging

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("sweep")
seen = {n: n * 5 % 17 for n in range(80)}
log.info("sweep of 80 entries begins")
try:
    for key, age in seen.items():
        if age > 15:
            del seen[key]
except RuntimeError:
    log.exception("expired entries were not removed")
for key, age in seen.items():
    log.info("entry %d kept, age %d, next look in %d minutes, bucket %d", key, age, 20 - age, key % 4)
PY
python sweep.py
