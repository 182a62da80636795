//! Where the log of a provider's server ends.

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment};
use lookaside_embedded::{Binaries, Postgres};
use lookaside_knowledge::{LogPosition, Value};

use super::{add_local_table, open, skip, write_project};
use crate::non_blocking::block_on;

/// What a writer reads after its commit, as `docs/FRESHNESS.md` says.
const POSITION: &str = "select format('pg:%s:%s:%s', system_identifier, \
                        ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int, lsn) \
                        from pg_control_system(), pg_current_wal_insert_lsn() as lsn";

fn position(writer: &mut Connection) -> LogPosition {
    let answer = writer.query(POSITION, &[]).unwrap();
    let text = answer.rows.first().unwrap()[0].to_text().to_string();
    text.parse().unwrap_or_else(|()| panic!("{text}"))
}

#[test]
fn a_user_without_rights_learns_where_the_log_ends() {
    for version in ["15", "18"] {
        let version = version.parse().unwrap();
        if let Err(error) = Binaries::find(version, &()) {
            skip(&format!("no PostgreSQL {version} to test with: {error}"));
            continue;
        }
        let postgres = Postgres::builder().version(version).fresh_cluster();
        let postgres = postgres.start().unwrap();
        postgres
            .execute(
                "create role app login; create table goods (id int primary key); \
                 grant select on goods to app",
            )
            .unwrap();
        let url = postgres.url();
        let as_app = url.replace("user=postgres", "user=app");
        assert_ne!(as_app, url);
        let Ok(Config::Postgres(config)) = Config::parse(&url, &Environment::empty()) else {
            panic!("{url} is not PostgreSQL");
        };
        let mut writer = Connection::connect_with(&config, Options::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let local = add_local_table(folder.path());
        write_project(folder.path(), &as_app, "", local);
        let knowledge = open(&folder);
        let statement = knowledge
            .prepare("select id from pg.goods where id = :id")
            .unwrap();
        let mut session = knowledge.session();
        for id in 0..3 {
            let sql = format!("insert into goods values ({id})");
            writer.query(&*sql, &[]).unwrap();
            let before = position(&mut writer);
            let ends = [
                session.log_end(&statement),
                block_on(knowledge.log_end_async(&statement)),
            ];
            for end in ends {
                let end = end.expect("the server says it");
                assert_eq!(
                    (end.system_id, end.timeline),
                    (before.system_id, before.timeline)
                );
                assert!(before.position <= end.position);
                // Nothing else writes much.
                assert!(end.position.0 < before.position.0 + (16 << 20));
            }
        }
        let own = knowledge
            .prepare("select name from local_t where id = :id")
            .unwrap();
        assert_eq!(session.log_end(&own), None);
        assert!(
            session
                .first(&statement, &[Value::Int(1)])
                .unwrap()
                .is_some()
        );
    }
}
