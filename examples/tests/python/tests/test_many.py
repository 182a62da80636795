"""Small tests to measure with: `MANY=1000 lookaside pg run --migrations migrations -- pytest`."""

import os

import pytest

from bank import balance, transfer


@pytest.mark.parametrize("amount", range(int(os.environ.get("MANY", 20))))
def test_a_transfer(db, amount):
    amount %= 100
    transfer(db, "Ada", "Grace", amount)
    assert balance(db, "Grace") == 20 + amount
