import assert from "node:assert/strict";
import test from "node:test";

import { balance, transfer } from "../bank.js";
import { database } from "../support/database.js";

test("a transfer moves money", async (t) => {
  const db = await database(t);
  await transfer(db, "Ada", "Grace", 12);
  assert.deepEqual([await balance(db, "Ada"), await balance(db, "Grace")], [88, 32]);
});

test("nobody gives more than they have", async (t) => {
  const db = await database(t);
  // 23514: check_violation.
  await assert.rejects(transfer(db, "Grace", "Ada", 21), { code: "23514" });
  assert.deepEqual([await balance(db, "Ada"), await balance(db, "Grace")], [100, 20]);
});

test("every test begins with what the migrations made", async (t) => {
  const db = await database(t);
  const { rows } = await db.query("select owner from account order by owner");
  assert.deepEqual(rows, [{ owner: "Ada" }, { owner: "Grace" }]);
  await db.query("drop table account");
});
