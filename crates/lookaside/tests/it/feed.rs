//! `lookaside feed`, and what `check` and `explain` print about the change feed of a provider.

use std::env;
use std::io::{self, Write as _};

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Postgres};

use crate::program::{Project, Said};

/// The tables belong to `owner`; the provider's user `app` may read them.
const SCHEMA: &str = r#"
create role owner login;
create role app login;
create table customers (id int primary key, name text, email text not null unique);
create table orders (id bigint primary key, customer int, price numeric);
create table "Odd" (id int primary key, name text);
create table log (host text, line text);
create table unread (id int primary key);
alter table customers owner to owner;
alter table orders owner to owner;
alter table "Odd" owner to owner;
alter table log owner to owner;
insert into customers values (1, 'Ada', 'ada@example.com');
insert into log values ('web-1', 'begin');
grant select on customers, orders, "Odd", log, unread to app;
"#;

const LOOKUPS: &str = r#"
[lookups.customer]
sql = "select name from customers where id = :id"
[lookups.email]
sql = "select id from customers where email = :email"
[lookups.total]
sql = "select sum(price) as total from orders where customer = :customer"
[lookups.odd]
sql = 'select name from "Odd" where id = :id'
[lookups.log]
sql = "select line from log where host = :host order by line"
[lookups.clock]
sql = "select name, now() as now from customers where id = :id"
"#;

/// A server of a version; in CI there must be one.
fn server(version: &str, wal_level: &str) -> Option<Postgres> {
    let requirement = version.parse().expect("a version");
    if let Err(error) = Binaries::find(requirement, &()) {
        assert!(env::var_os("CI").is_none(), "CI must have one: {error}");
        let _ = writeln!(io::stderr(), "SKIP no PostgreSQL {version}: {error}");
        return None;
    }
    let builder = Postgres::builder().version(requirement).fresh_cluster();
    let postgres = builder.setting("wal_level", wal_level).start().unwrap();
    postgres.execute(SCHEMA).unwrap();
    Some(postgres)
}

fn url_as(postgres: &Postgres, user: &str) -> String {
    let url = postgres.url();
    let of_user = url.replace("user=postgres", &format!("user={user}"));
    assert_ne!(of_user, url);
    of_user
}

/// A project whose provider is queried as `app`.
fn project(postgres: &Postgres, feed: &str, lookups: &str) -> Project {
    let url = url_as(postgres, "app");
    let config = format!(
        "version = 2\n[[provider.sqldb]]\nname = \"shop\"\nkind = \"postgres\"\n\
         connection_uri = \"{url}\"\n{feed}\n{lookups}"
    );
    Project::with(&[("knowdb.toml", &config)])
}

fn connect(postgres: &Postgres) -> Connection {
    let config = Config::parse(&postgres.url(), &Environment::empty()).unwrap();
    let Config::Postgres(config) = config else {
        panic!("{config} is not PostgreSQL");
    };
    Connection::connect_with(&config, Options::default()).unwrap()
}

/// Everything that `feed setup` may change, as text.
fn catalog(postgres: &Postgres) -> Vec<String> {
    let sql = "
        select concat_ws(' ', 'publication', pubname, puballtables, pubinsert, pubupdate, pubdelete,
            pubtruncate, pg_get_userbyid(pubowner), obj_description(oid, 'pg_publication'))
            from pg_publication
        union all select concat_ws(' ', 'published', t.pubname, t.schemaname, t.tablename)
            from pg_publication_tables t
        union all select concat_ws(' ', 'identity', relname, relreplident)
            from pg_class where relnamespace = 'public'::regnamespace
        union all select concat_ws(' ', 'identity index', indexrelid::regclass, indisreplident)
            from pg_index where indisreplident
        union all select concat_ws(' ', 'role', rolname, rolreplication, rolsuper) from pg_roles
        union all select concat_ws(' ', 'database', datname, datacl) from pg_database
        union all select concat_ws(' ', 'slot', slot_name) from pg_replication_slots
            where not temporary
        order by 1";
    let answer = connect(postgres).query(sql, &[]).unwrap();
    let rows = answer.rows.iter();
    rows.map(|row| row[0].as_str().expect("a text").to_owned())
        .collect()
}

/// Runs a command of `feed` on the project as a superuser.
fn as_admin(project: &Project, postgres: &Postgres, arguments: &[&str]) -> Said {
    let url = postgres.url();
    project.run(&[&["feed"], arguments, &[".", "--url", &url]].concat())
}

#[test]
fn setup_makes_the_feed_live_and_drop_undoes_it() {
    for version in ["18", "15"] {
        let Some(postgres) = server(version, "logical") else {
            continue;
        };
        let project = project(&postgres, "feed = \"auto\"", LOOKUPS);
        let before = catalog(&postgres);
        project.run(&["check", "."]).ended(0).out_has(&[
            "freshness: age only, because it reads \"customers\", which is not in the publication\n    \
             help: `lookaside feed setup` adds public.customers to the publication",
            "change feed of shop: down: ",
            "missing: the user app may not replicate\n    help: as a superuser: `alter role app \
             replication`",
            "missing: the publication lookaside does not exist\n    help: `lookaside feed setup`, or \
             `create publication lookaside for table public.\"Odd\", public.customers, \
             public.orders`",
        ]);
        project
            .run(&["check", "--strict", "."])
            .ended(1)
            .err_has(&["problems of change feeds, which --strict treats as errors"]);
        project.run(&["feed", "status"]).ended(1).out_has(&[
            "missing: the publication lookaside does not exist",
            "lookups.total: age only, because",
        ]);

        // The provider's own user owns nothing.
        project.run(&["feed", "setup"]).ended(1).err_has(&[
            "error: the user app may not run `create publication lookaside for table",
            "Nothing was changed. The statements for a database administrator:",
            "-- needs: a superuser\nalter role app replication;",
            "pass --url",
        ]);
        assert_eq!(catalog(&postgres), before);

        let said = as_admin(&project, &postgres, &["setup"]).ended(0);
        let said = said.out_has(&[
            "  done: create publication lookaside for table public.\"Odd\", public.customers, \
             public.orders\n",
            "  done: alter role app replication\n",
            "  done: comment on publication lookaside is E'changed by lookaside feed setup",
            "  note: public.log is left out: it has no primary key, and no other replica identity",
        ]);
        assert!(!said.out.contains("next:"), "{}", said.out);
        let after = catalog(&postgres);
        assert_ne!(after, before);
        project.run(&["check", "."]).ended(0).out_has(&[
            "lookup customer(id any): provider shop\n  freshness: key of public.customers (id)\n",
            "freshness: table public.customers, because it has email in its key, but the replica \
             identity has not\n    help: `alter table public.customers replica identity full`",
            "freshness: table public.orders, because it combines rows\n",
            "freshness: key of public.\"Odd\" (id)\n",
            "freshness: age only, because it reads \"log\", which is not in the publication",
            "freshness: age only, because it uses the function now(), which is not immutable",
            "change feed of shop: live, changes invalidate the answers of 4 of 6 lookups\n",
            "  ok: all requirements are met\n",
        ]);
        project.run(&["feed", "status"]).ended(0).out_has(&[
            "  ok: wal_level is logical\n",
            "  ok: the user app may replicate\n",
            "  ok: the publication lookaside exists\n",
            "  ok: public.customers is published, with replica identity default\n",
            "  ok: a stream of changes can be begun\n",
            "  note: public.log is not published, because it has no primary key",
            "  lookups.customer: key of public.customers (id)\n",
        ]);
        project.run(&["check", "--strict", "."]).ended(0);
        // Nothing is missing at the server, but no stream can be begun.
        let nowhere = "feed = \"auto\"\nfeed_uri = \"postgres://app@127.0.0.1:1/postgres\"";
        let unreachable = self::project(&postgres, nowhere, LOOKUPS);
        unreachable
            .run(&["check", "--strict", "."])
            .ended(1)
            .out_has(&["change feed of shop: down: feed_uri: "])
            .err_has(&["a change feed, which --strict treats as errors"]);
        as_admin(&project, &postgres, &["setup"])
            .ended(0)
            .out_has(&["nothing to change"]);
        assert_eq!(catalog(&postgres), after);

        as_admin(&project, &postgres, &["drop"]).ended(0).out_has(&[
            "  done: drop publication lookaside\n",
            "  done: alter role app noreplication\n",
        ]);
        assert_eq!(catalog(&postgres), before);
        as_admin(&project, &postgres, &["drop"])
            .ended(0)
            .out_has(&["nothing to undo"]);
    }
}

#[test]
fn a_printed_script_does_what_setup_does() {
    let Some(postgres) = server("18", "logical") else {
        return;
    };
    // A name with a line break must not end a comment.
    let log = "a\ncreate table broken ()";
    postgres
        .execute(&format!(
            "create table \"{log}\" (host text); alter table \"{log}\" owner to owner; grant select on \"{log}\" to app"
        ))
        .unwrap();
    let lookup = format!("[lookups.x]\nsql = '''select host from \"{log}\" where host = :host'''");
    let project = project(&postgres, "", &format!("{LOOKUPS}{lookup}\n"));
    let before = catalog(&postgres);
    let script = project.run(&["feed", "setup", "--print"]).ended(0);
    let script =
        script.out_has(&["-- not in this script: public.\"a\\ncreate table broken ()\" is"]);
    postgres
        .execute(&script.out.replace("commit;", "rollback;"))
        .unwrap();
    assert_eq!(catalog(&postgres), before);
    // The provider's own user may read what is needed.
    let arguments = ["feed", "setup", "--print", "--identity-full"];
    let script = project.run(&arguments).ended(0).out_has(&[
        "-- needs: the owner of public.log (owner)\n-- cost: the log then contains the whole old row \
         of each update and delete of this table\nalter table public.log replica identity full;",
        "alter table public.customers replica identity full;",
        "-- needs: CREATE on the database ",
        ", and the owner of each table (owner)\ncreate publication lookaside for table ",
        "-- needs: a superuser\nalter role app replication;",
        "-- next: add `feed = \"auto\"` to the section of the provider shop, ./knowdb.toml:2",
    ]);
    assert_eq!(catalog(&postgres), before);
    postgres.execute(&script.out).unwrap();
    let by_script = catalog(&postgres);
    assert_ne!(by_script, before);
    postgres.execute("update log set line = 'end'").unwrap();

    let undo = project
        .run(&["feed", "drop", "--print"])
        .ended(0)
        .out_has(&[
            "drop publication lookaside;",
            "alter table public.log replica identity default;",
            "alter role app noreplication;",
        ]);
    assert_eq!(catalog(&postgres), by_script);
    postgres.execute(&undo.out).unwrap();
    assert_eq!(catalog(&postgres), before);

    as_admin(&project, &postgres, &["setup", "--identity-full"])
        .ended(0)
        .out_has(&[
            "    cost: the log then contains",
            "next: add `feed = \"auto\"`",
        ]);
    assert_eq!(catalog(&postgres), by_script);
    let project = self::project(&postgres, "feed = \"auto\"", LOOKUPS);
    project.run(&["check", "."]).ended(0).out_has(&[
        "freshness: key of public.customers (email)\n",
        "freshness: key of public.log (host)\n",
        "live, changes invalidate the answers of 5 of 6 lookups",
    ]);
    // No lookup reads the odd table any more, so another project might.
    as_admin(&project, &postgres, &["drop", "--all"]).ended(0);
    assert_eq!(catalog(&postgres), before);
}

#[test]
fn what_others_have_made_stays_theirs() {
    let Some(postgres) = server("18", "logical") else {
        return;
    };
    let schema = "
        alter role app replication;
        create publication lookaside for table unread, customers;
        alter publication lookaside owner to owner;
        comment on publication lookaside is 'it''s \\ \"ours\"';
        alter table customers replica identity using index customers_email_key;
        alter table \"Odd\" replica identity nothing;";
    postgres.execute(schema).unwrap();
    let before = catalog(&postgres);
    let project = project(&postgres, "feed = \"auto\"", LOOKUPS);
    as_admin(&project, &postgres, &["setup", "--identity-full"])
        .ended(0)
        .out_has(&[
            "done: alter table public.\"Odd\" replica identity full\n",
            "done: alter table public.customers replica identity full\n",
            "done: alter publication lookaside add table public.\"Odd\", public.log, public.orders\n",
        ]);
    // What is changed afterwards is left as it is.
    let later = "alter table log replica identity nothing";
    postgres.execute(later).unwrap();
    as_admin(&project, &postgres, &["drop"]).ended(0).out_has(&[
        "done: alter publication lookaside drop table public.\"Odd\", public.log, public.orders\n",
        "done: comment on publication lookaside is E'it''s \\\\ \"ours\"'\n",
        "done: alter table public.customers replica identity using index \"customers_email_key\"\n",
        "done: alter table public.\"Odd\" replica identity nothing\n",
        "note: public.log has replica identity nothing meanwhile",
    ]);
    postgres
        .execute("alter table log replica identity default")
        .unwrap();
    assert_eq!(catalog(&postgres), before);

    // Without a record, nothing is dropped.
    as_admin(&project, &postgres, &["drop"]).ended(1).err_has(&[
        "has no record of `lookaside feed setup`",
        "nothing was changed",
    ]);
    // A record that names another user takes no rights from it.
    let forged = "
        alter role owner replication;
        comment on publication lookaside is 'changed by lookaside feed setup, undone by lookaside \
         feed drop: {\"version\":1,\"created\":false,\"tables\":[],\"replication\":[\"owner\"]}'";
    postgres.execute(forged).unwrap();
    as_admin(&project, &postgres, &["drop"])
        .ended(0)
        .out_has(&["the feed's user is app now"]);
    let roles = catalog(&postgres);
    assert!(roles.contains(&"role owner t f".to_owned()), "{roles:?}");
}

#[test]
fn what_setup_cannot_add_is_named() {
    let Some(postgres) = server("18", "replica") else {
        return;
    };
    let only_log = "[lookups.log]\nsql = \"select line from log where host = :host order by line\"";
    let project = project(&postgres, "feed = \"auto\"", only_log);
    let before = catalog(&postgres);
    as_admin(&project, &postgres, &["setup"])
        .ended(1)
        .err_has(&[
            "error: no lookup of the provider shop reads a table that can be published",
            "public.log is left out: it has no primary key",
            "pass --identity-full: the log then contains the whole old row",
        ]);
    assert_eq!(catalog(&postgres), before);

    let project = self::project(&postgres, "feed = \"auto\"", LOOKUPS);
    let wal_level = "missing: wal_level is replica, and must be logical\n    help: as a superuser: \
                     `alter system set wal_level = logical`, then restart the server";
    as_admin(&project, &postgres, &["setup", "--print"])
        .ended(0)
        .out_has(&["-- not in this script: wal_level is replica, and must be logical"]);
    as_admin(&project, &postgres, &["setup"])
        .ended(1)
        .out_has(&["done: create publication lookaside", wal_level]);
    project
        .run(&["feed", "status"])
        .ended(1)
        .out_has(&[wal_level]);
    project
        .run(&["check", "."])
        .ended(0)
        .out_has(&["change feed of shop: down: ", wal_level]);
    as_admin(&project, &postgres, &["drop"]).ended(0);
    assert_eq!(catalog(&postgres), before);

    // A class does not depend on whether the feed runs; a pooler does not allow one.
    let by_id = "select name from customers where id = :id";
    project.run(&["explain", ".", by_id]).ended(0).out_has(&[
        "\n  freshness: age only, because it reads \"customers\", which is not in the publication\n",
    ]);
    let pooled = self::project(&postgres, "feed = \"auto\"\npooler = true", LOOKUPS);
    pooled.run(&["explain", ".", by_id]).ended(0).out_has(&[
        "freshness: age only, because it is of a provider without a change feed: with pooler = true",
    ]);
    pooled.run(&["check", "."]).ended(0).out_has(&[
        "change feed of shop: off\n",
        "missing: with pooler = true, queries may be answered by another server",
    ]);
    let elsewhere = format!(
        "feed = \"auto\"\nfeed_uri = \"{}&dbname=elsewhere\"",
        postgres.url()
    );
    let elsewhere = self::project(&postgres, &elsewhere, LOOKUPS);
    elsewhere.run(&["check", "."]).ended(0).out_has(&[
        "change feed of shop: down: ",
        "missing: feed_uri names the database elsewhere, and connection_uri ",
    ]);
}

#[test]
fn a_command_line_that_cannot_be_meant_is_refused() {
    let two = "version = 2
        [[provider.sqldb]]\nname = \"shop\"\nkind = \"postgres\"\n\
        connection_uri = \"postgres://app:hidden@localhost:1/shop\"
        [[provider.sqldb]]\nname = \"hosts\"\nkind = \"postgres\"\n\
        connection_uri = \"postgres://app:hidden@localhost:1/hosts\"";
    let project = Project::with(&[("knowdb.toml", two)]);
    for command in ["setup", "status", "drop"] {
        let said = project.run(&["feed", command]).ended(2);
        said.err_has(&["several PostgreSQL providers", "--provider: shop, hosts"]);
        let said = project
            .run(&["feed", command, "--provider", "shpo"])
            .ended(2);
        said.err_has(&["did you mean \"shop\"?"]);
    }
    let arguments = ["feed", "drop", "--provider", "shop"];
    let said = project.run(&arguments).ended(1);
    let said = said.err_has(&["cannot connect to postgres://app@localhost:1/shop"]);
    assert!(!said.err.contains("hidden"), "{}", said.err);
    let url = ["--url", "mysql://root:hidden@localhost/shop"];
    let said = project.run(&[&arguments[..], &url].concat()).ended(2);
    let said = said.err_has(&["--url must be the URL of a PostgreSQL server"]);
    assert!(!said.err.contains("hidden"), "{}", said.err);
    let local = Project::with(&[("knowdb.toml", "version = 2")]);
    let said = local.run(&["feed", "status"]).ended(2);
    said.err_has(&["has no PostgreSQL provider"]);
}

/// A server refuses updates and deletes of a published table if its replica identity has columns that a
/// publication leaves out.
#[test]
fn issue_15_setup_leaves_the_writers_of_a_table_alone() {
    const LOOKUPS: &str = r#"
[lookups.computed]
sql = "select name from computed where id = :id"
[lookups.both]
sql = "select id from both_columns where name = :name"
[lookups.few]
sql = "select id from few_columns where name = :name"
[lookups.plain]
sql = "select id from plain where name = :name"
[lookups.late]
sql = "select name from late where id = :id"
"#;
    const TABLES: [&str; 4] = ["computed", "both_columns", "few_columns", "plain"];
    for version in ["15", "18"] {
        let Some(postgres) = server(version, "logical") else {
            continue;
        };
        let schema = "
            create table computed
                (base int, id int generated always as (base + 1) stored primary key, name text);
            create table both_columns
                (id int primary key, name text, next int generated always as (id + 1) stored);
            create table few_columns (id int primary key, name text, note text);
            create table plain (id int primary key, name text);
            create table late (id int primary key deferrable, name text);
            create publication warehouse for table few_columns (id, name);
            insert into computed values (1, default, 'a');
            insert into both_columns values (1, 'a', default);
            insert into few_columns values (1, 'a', '');
            insert into plain values (1, 'a');
            grant select on computed, both_columns, few_columns, plain, late to app;";
        postgres.execute(schema).unwrap();
        let is_left_out = version == "18";
        let project = project(&postgres, "feed = \"auto\"", LOOKUPS);
        as_admin(&project, &postgres, &["setup", "--print"])
            .ended(0)
            .out_has(&["public.late is left out: its primary key is deferrable"]);
        let said = as_admin(&project, &postgres, &["setup", "--identity-full"]);
        let said = said
            .ended(0)
            .out_has(&["done: alter table public.plain replica identity full\n"]);
        if is_left_out {
            said.out_has(&[
                "note: public.computed is left out: its replica identity has generated columns, which the \
                 publication leaves out, so the server would refuse updates and deletes",
            ]);
        }
        for table in TABLES {
            for sql in [
                format!("update {table} set name = 'b'"),
                format!("delete from {table}"),
            ] {
                postgres
                    .execute(&sql)
                    .unwrap_or_else(|error| panic!("{version}, {sql}: {error}"));
            }
        }
        let explained = project.run(&[
            "explain",
            ".",
            "select id from few_columns where name = :name",
        ]);
        explained.ended(0).out_has(&[
            "help: a publication leaves out columns of public.few_columns, so that the replica identity \
             cannot be `full`",
        ]);
        // One that was set by hand is named.
        let full = "alter table few_columns replica identity full";
        postgres.execute(full).unwrap();
        project.run(&["feed", "status"]).ended(1).out_has(&[
            "missing: public.few_columns is published, and the publication \"warehouse\" contains some of \
             its columns only: the server refuses its updates and deletes",
        ]);
    }
}

/// Several projects may use one publication.
#[test]
fn issue_15_drop_leaves_what_was_done_for_another_project() {
    let Some(postgres) = server("18", "logical") else {
        return;
    };
    let before = catalog(&postgres);
    let of = |lookup: &str| project(&postgres, "feed = \"auto\"", lookup);
    let customers = of("[lookups.a]\nsql = \"select name from customers where id = :id\"");
    let orders = of("[lookups.b]\nsql = \"select price from orders where id = :id\"");
    as_admin(&customers, &postgres, &["setup"]).ended(0);
    as_admin(&orders, &postgres, &["setup"]).ended(0);
    as_admin(&customers, &postgres, &["drop"])
        .ended(0)
        .out_has(&[
            "done: alter publication lookaside drop table public.customers\n",
            "note: public.orders may have been published for other projects",
        ]);
    as_admin(&orders, &postgres, &["status"])
        .ended(0)
        .out_has(&[
            "ok: public.orders is published",
            "ok: the user app may replicate",
        ]);
    // It has nothing there any more.
    as_admin(&customers, &postgres, &["drop"])
        .ended(0)
        .out_has(&["note: public.orders may have been published for other projects"]);
    as_admin(&customers, &postgres, &["setup"]).ended(0);
    as_admin(&customers, &postgres, &["drop", "--all"])
        .ended(0)
        .out_has(&["done: drop publication lookaside\n", "noreplication"]);
    assert_eq!(catalog(&postgres), before);

    // Each user that got a right is known.
    let of_owner = format!(
        "version = 2\n[[provider.sqldb]]\nname = \"shop\"\nkind = \"postgres\"\n\
         connection_uri = \"{}\"\n\
         [lookups.a]\nsql = \"select name from customers where id = :id\"",
        url_as(&postgres, "owner")
    );
    let of_owner = Project::with(&[("knowdb.toml", &*of_owner)]);
    as_admin(&of_owner, &postgres, &["setup"]).ended(0);
    as_admin(&orders, &postgres, &["setup"]).ended(0);
    as_admin(&of_owner, &postgres, &["drop"]).ended(0);
    as_admin(&orders, &postgres, &["drop"]).ended(0).out_has(&[
        "done: alter role app noreplication\n",
        "note: `feed setup` gave the user owner the right to replicate",
    ]);
    postgres.execute("alter role owner noreplication").unwrap();
    assert_eq!(catalog(&postgres), before);

    // Nor does it make updates fail that work.
    let others = "create publication others for table log";
    postgres.execute(others).unwrap();
    let before = catalog(&postgres);
    let log = of("[lookups.log]\nsql = \"select line from log where host = :host order by line\"");
    as_admin(&log, &postgres, &["setup", "--identity-full"]).ended(0);
    as_admin(&log, &postgres, &["drop"])
        .ended(0)
        .out_has(&["note: public.log keeps replica identity full: the publication \"others\""]);
    postgres.execute("update log set line = 'other'").unwrap();
    let undo = "alter table log replica identity default";
    postgres.execute(undo).unwrap();
    assert_eq!(catalog(&postgres), before);
    postgres.execute("drop publication others").unwrap();

    // A lookup that cannot be prepared is not the end of it.
    as_admin(&orders, &postgres, &["setup"]).ended(0);
    postgres
        .execute("alter table orders rename to gone")
        .unwrap();
    as_admin(&orders, &postgres, &["drop"])
        .ended(1)
        .err_has(&["help: correct the lookup, or pass --all"]);
    as_admin(&orders, &postgres, &["drop", "--all"]).ended(0);
    postgres
        .execute("alter table gone rename to orders")
        .unwrap();

    // A feed of another database needs the same right.
    postgres.execute("create database elsewhere").unwrap();
    let before = catalog(&postgres);
    as_admin(&orders, &postgres, &["setup"]).ended(0);
    let config = Config::parse(&postgres.url(), &Environment::empty()).unwrap();
    let Config::Postgres(mut config) = config else {
        panic!("{config} is not PostgreSQL");
    };
    config.database = "elsewhere".to_owned();
    let mut elsewhere = Connection::connect_with(&config, Options::default()).unwrap();
    let slot = "select pg_create_logical_replication_slot('lookaside_test', 'pgoutput', true)";
    elsewhere.query(slot, &[]).unwrap();
    as_admin(&orders, &postgres, &["drop"]).ended(0).out_has(&[
        "note: the user app may still replicate: a feed of the database elsewhere is running",
    ]);
    drop(elsewhere);
    postgres.execute("alter role app noreplication").unwrap();
    assert_eq!(catalog(&postgres), before);
}
