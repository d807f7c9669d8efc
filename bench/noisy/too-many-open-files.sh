# command: python crawl.py
# where: middle
# error: ^OSError: \[Errno 24\]
cat > crawl.py <<'PY'
import logging, sys

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s crawl: %(message)s")
log, kept = logging.getLogger(), []
for n in range(300):
    try:
        kept.append(open(f"page-{n}.html", "w"))
        log.info("fetched page %d, status 200, %d bytes, kept for the index", n, 1000 + n * 37)
    except OSError:
        log.exception("page %d was not stored", n)
        break
while kept:
    log.info("closing %s, queue now %d", kept[-1].name, len(kept))
    kept.pop().close()
PY
ulimit -n 90; python crawl.py
