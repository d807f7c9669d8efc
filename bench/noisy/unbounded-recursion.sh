# command: python -m shop.report
# where: end
# error: ^RecursionError
mkdir shop; touch shop/__init__.py
cat > shop/tree.py <<'PY'
def depth(node):
    return 1 + max((depth_of_child(child) for child in node["children"]), default=0)


def depth_of_child(child):
    return depth(child)
PY
cat > shop/report.py <<'PY'
import logging, sys
from shop.tree import depth

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
for n in range(70):
    logging.getLogger("shop.report").info("category %d loaded, %d products, parent %d", n, n * 13 % 50, n // 4)
sys.tracebacklimit = 24
root = {"children": []}
root["children"].append(root)
print(depth(root))
PY
python -m shop.report
