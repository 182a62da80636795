export async function balance(db, owner) {
  const { rows } = await db.query("select balance::int as balance from account where owner = $1", [owner]);
  return rows[0].balance;
}

/** Moves an amount from one account to another, or nothing. */
export async function transfer(db, source, target, amount) {
  await db.query("begin");
  try {
    for (const [owner, change] of [[source, -amount], [target, amount]]) {
      await db.query("update account set balance = balance + $1 where owner = $2", [change, owner]);
    }
    await db.query("commit");
  } catch (error) {
    await db.query("rollback");
    throw error;
  }
}
