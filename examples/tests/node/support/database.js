/**
 * A PostgreSQL database for each test.
 *
 *     lookaside pg run --migrations migrations -- node --test
 *
 * starts a server, fills the database of DATABASE_URL with the migrations, and removes both at the end. That database is
 * the template here: nobody connects to it, and each test gets a copy.
 */
import { after, before } from "node:test";
import pg from "pg";

if (!process.env.DATABASE_URL) {
  throw new Error("DATABASE_URL is not set: lookaside pg run --migrations migrations -- node --test");
}

const url = new URL(process.env.DATABASE_URL);
const template = url.pathname.slice(1);

function urlOf(database) {
  const copy = new URL(url);
  copy.pathname = database;
  return copy.href;
}

// A database that is copied must have no sessions, so this one is to another.
const server = new pg.Client({ connectionString: urlOf("postgres") });
let count = 0;
let next;

/** Makes a copy of the template. */
async function create() {
  // node:test runs each file in a process; all of them share the server.
  const name = `test_${process.pid}_${count++}`;
  // Copies files, which is the cheapest way for a small template (PostgreSQL 15 and newer).
  await server.query(`create database "${name}" template "${template}" strategy file_copy`);
  return name;
}

before(async () => {
  await server.connect();
  next = create();
});

after(async () => {
  await next;
  await server.end();
});

/** A client of a database that no other test sees; it is dropped after the test `t`. */
export async function database(t) {
  const name = await next;
  // The next one is made while this test runs.
  next = create();
  const db = new pg.Client({ connectionString: urlOf(name) });
  await db.connect();
  t.after(async () => {
    await db.end();
    await server.query(`drop database "${name}" with (force)`);
  });
  return db;
}
