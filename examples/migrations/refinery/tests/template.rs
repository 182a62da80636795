use lookaside_embedded::{Postgres, key_of_files};
use postgres::{Client, NoTls};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

mod embedded {
    refinery::embed_migrations!("migrations");
}

fn migrate(url: &str) -> Result {
    let mut client = Client::connect(url, NoTls)?;
    embedded::migrations::runner().run(&mut client)?;
    Ok(())
}

#[test]
fn the_first_note_is_there() -> Result {
    let db = Postgres::builder()
        .template(key_of_files(["migrations/**"])?, migrate)
        .start()?;

    let mut client = Client::connect(&db.url(), NoTls)?;
    let row = client.query_one("select body from notes", &[])?;
    assert_eq!(row.get::<_, String>(0), "hello");
    Ok(())
}
