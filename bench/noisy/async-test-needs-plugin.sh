# command: pytest -v tests
# where: start
# error: async def functions are not natively supported
. "$PARTS/many_tests.sh"
printf 'async def test_ping():\n    assert True\n' > tests/test_aaa_ping.py
python -m pytest -v -rA -p no:cacheprovider -p no:asyncio -p no:anyio tests
