# command: pytest -v
# where: end
# error: ^E +fixture 'ledger' not found
. "$PARTS/many_tests.sh"
printf 'def test_balance(ledger):\n    assert ledger.total == 0\n' > tests/test_zz_balance.py
python -m pytest -v -p no:cacheprovider -p no:randomly tests
