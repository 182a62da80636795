// postgres.js, by the URL and by the variables alone.
import { createRequire } from "node:module";
import { strictEqual } from "node:assert";

const require = createRequire(process.env.CLIENTS_NODE + "/");
const postgres = require("postgres");

for (const sql of [postgres(process.env.DATABASE_URL), postgres()]) {
  const [{ n, t, d }] = await sql`select ${41}::int + 1 as n, ${"ä"}::text || '!' as t, current_database() as d`;
  strictEqual(n, 42);
  strictEqual(t, "ä!");
  strictEqual(d, process.env.PGDATABASE);
  await sql.end();
}
console.log("ok postgres");
