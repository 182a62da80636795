use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, sql_query, sql_types::Text};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use lookaside_embedded::{Postgres, key_of_files};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MIGRATIONS: EmbeddedMigrations = embed_migrations!();

fn migrate(url: &str) -> Result {
    let mut connection = PgConnection::establish(url)?;
    connection.run_pending_migrations(MIGRATIONS)?;
    Ok(())
}

#[derive(QueryableByName)]
struct Note {
    #[diesel(sql_type = Text)]
    body: String,
}

#[test]
fn the_first_note_is_there() -> Result {
    let db = Postgres::builder()
        .template(key_of_files(["migrations/**"])?, migrate)
        .start()?;

    let mut connection = PgConnection::establish(&db.url())?;
    let note: Note = sql_query("select body from notes").get_result(&mut connection)?;
    assert_eq!(note.body, "hello");
    Ok(())
}
