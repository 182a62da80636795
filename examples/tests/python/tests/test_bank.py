from decimal import Decimal

import psycopg
import pytest

from bank import balance, transfer


def test_a_transfer_moves_money(db):
    transfer(db, "Ada", "Grace", Decimal("12.50"))
    assert (balance(db, "Ada"), balance(db, "Grace")) == (Decimal("87.50"), Decimal("32.50"))


def test_nobody_gives_more_than_they_have(db):
    with pytest.raises(psycopg.errors.CheckViolation):
        transfer(db, "Grace", "Ada", 21)
    assert (balance(db, "Ada"), balance(db, "Grace")) == (100, 20)


def test_every_test_begins_with_what_the_migrations_made(db):
    assert db.execute("select count(*) from account").fetchone() == (2,)
    db.execute("drop table account")
    db.commit()
