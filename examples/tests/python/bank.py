def balance(connection, owner):
    return connection.execute("select balance from account where owner = %s", (owner,)).fetchone()[0]


def transfer(connection, source, target, amount):
    """Moves an amount from one account to another, or nothing."""
    with connection.transaction():
        for owner, change in ((source, -amount), (target, amount)):
            connection.execute("update account set balance = balance + %s where owner = %s", (change, owner))
