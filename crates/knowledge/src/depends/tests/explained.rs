//! What people are told about a statement's class.

use super::super::StatementDependency;
use super::classes::SCHEMA;
use super::{catalog, databases, run, value_of};

#[test]
fn a_class_has_its_reason_and_what_raises_it() {
    for (_database, mut connection) in databases() {
        run(&mut connection, SCHEMA);
        run(
            &mut connection,
            r#"create table "in pairs" (a int primary key, b int not null, unique (a, b));
               create table coded (id int primary key, code text);
               alter publication feed add table "in pairs", coded;"#,
        );
        // From this version on, generated columns are not permitted in a replica identity.
        let version = "select (current_setting('server_version_num')::int >= 180000)::text";
        let on_generated = match value_of(&mut connection, version, &[]).as_str() {
            Some("true") => {
                "a publication leaves out columns of public.t, so that the replica identity cannot be \
                 `full`; one that uses a unique index over the columns of the key, which are published \
                 and not null, makes the class `key`"
            }
            _ => {
                "`alter table public.t replica identity full`, or `lookaside feed setup \
                 --identity-full`, makes the class `key`; the log then contains the whole old row of \
                 each update and delete"
            }
        };
        for (sql, expected, help) in [
            (
                "select name from t where id = $1",
                "key of public.t (id)",
                "",
            ),
            (
                "select b from u where b = $1 and a = $2",
                "key of public.u (a, b)",
                "",
            ),
            (
                "select count(*) from t where id = $1",
                "table public.t, because it combines rows",
                "",
            ),
            (
                "select t.id from u join t on t.id = u.a where u.b = $1",
                "tables public.t, public.u, because it joins tables",
                "",
            ),
            (
                "select now() from t where id = $1",
                "age only, because it uses the function now(), which is not immutable",
                "",
            ),
            (
                "select id from t where code = $1",
                "table public.t, because it has code in its key, but the replica identity has not",
                on_generated,
            ),
            (
                "select id from coded where code = $1",
                "table public.coded, because it has code in its key, but the replica identity has not",
                "`alter table public.coded replica identity full`, or `lookaside feed setup \
                 --identity-full`, makes the class `key`; the log then contains the whole old row \
                 of each update and delete",
            ),
            (
                r#"select a from "in pairs" where b = $1"#,
                "table public.\"in pairs\", because it has b in its key, but the replica identity \
                 has not",
                "`alter table public.\"in pairs\" replica identity using index \
                 \"in pairs_a_b_key\"` makes the class `key`; the log then contains the old values \
                 of these columns where they change",
            ),
            (
                "select a from bare where a = $1",
                "age only, because it reads \"bare\", which has no replica identity",
                "add a primary key that is not deferrable to public.bare, or let `lookaside feed setup \
                 --identity-full` set its replica identity; the log then contains the whole old row of each update \
                 and delete",
            ),
            (
                "select a from nothing where a = $1",
                "age only, because it reads \"nothing\", which has no replica identity",
                "`alter table public.nothing replica identity default` makes its primary key the \
                 replica identity",
            ),
            (
                "select a from unpublished where a = $1",
                "age only, because it reads \"unpublished\", which is not in the publication",
                "`lookaside feed setup` adds public.unpublished to the publication",
            ),
            (
                "select a from v",
                "age only, because it reads \"v\", which is a view",
                "",
            ),
        ] {
            let (shape, catalog) = catalog(&mut connection, sql);
            let explained = StatementDependency::of(&shape, &catalog);
            assert_eq!(explained.to_string(), expected, "{sql}");
            assert_eq!(explained.help.unwrap_or_default(), help, "{sql}");
        }
    }
}
