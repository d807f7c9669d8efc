# command: python worker.py
# where: middle
# error: is bound to a different event loop|attached to a different loop
cat > worker.py <<'PY'
import asyncio, logging

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s worker %(message)s")
queue = asyncio.Queue()

async def take():
    await asyncio.wait_for(queue.get(), 0.05)

async def fill():
    for n in range(50):
        logging.info("job %d accepted, priority %d, attempt 1 of 5, tenant blue", n, n % 3)

async def first():
    await fill()
    try:
        await take()
    except TimeoutError:
        logging.info("queue is empty, the shift ends")

asyncio.run(first())
try:
    asyncio.run(take())
except RuntimeError:
    logging.exception("second shift did not begin")
asyncio.run(fill())
PY
python worker.py
