// Small tests to measure with: MANY=1000 npm test
import assert from "node:assert/strict";
import test from "node:test";

import { balance, transfer } from "../bank.js";
import { database } from "../support/database.js";

for (let number = 0; number < Number(process.env.MANY ?? 20); number++) {
  test(`transfer ${number}`, async (t) => {
    const db = await database(t);
    await transfer(db, "Ada", "Grace", number % 100);
    assert.equal(await balance(db, "Grace"), 20 + (number % 100));
  });
}
