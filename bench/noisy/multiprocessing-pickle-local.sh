# command: python pipeline.py --workers 2
# where: end
# error: Can't pickle local object
cat > pipeline.py <<'PY'
import logging, multiprocessing

logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(processName)s %(levelname)s %(message)s")

def main():
    factor = 3
    def scaled(n):
        return n * factor
    for n in range(75):
        logging.debug("stage %d: planned 40 chunks of 2,048 rows, checksum %08x", n, n * 2654435761 % 2**32)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(sum(pool.map(scaled, range(100))))

if __name__ == "__main__":
    main()
PY
python pipeline.py
