// node-postgres, by the URL and by the variables alone.
import { createRequire } from "node:module";
import { strictEqual } from "node:assert";

const require = createRequire(process.env.CLIENTS_NODE + "/");
const { Client } = require("pg");

for (const options of [{ connectionString: process.env.DATABASE_URL }, {}]) {
  const client = new Client(options);
  await client.connect();
  const answer = await client.query("select $1::int + 1 as n, $2::text || '!' as t, current_database() as d", [41, "ä"]);
  const [{ n, t, d }] = answer.rows;
  strictEqual(n, 42);
  strictEqual(t, "ä!");
  strictEqual(d, process.env.PGDATABASE);
  await client.end();
}
console.log("ok pg", require("pg/package.json").version);
