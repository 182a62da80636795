//! The data of the server: the arena's own files if present, otherwise generated ones of the same
//! shape.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lookaside_client::postgres::{Options, blocking::Connection};
use lookaside_client::{Config, Environment, Request};
use lookaside_http::encoding::Compressor;
use lookaside_http::negotiate::Encoding;
use tempfile::TempDir;

use super::dataset::{Rating, Thing};

/// Where the files are.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    dataset: PathBuf,
    pub(super) site: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    /// Holds the generated files.
    _made: Arc<TempDir>,
}

/// The number of things of `/json`.
const THING_COUNT: usize = 50;

/// The names and sizes of the files on the arena's site.
const SITE: [(&str, usize); 20] = [
    ("reset.css", 8_192),
    ("layout.css", 25_600),
    ("theme.css", 18_432),
    ("components.css", 204_800),
    ("utilities.css", 61_440),
    ("analytics.js", 12_288),
    ("helpers.js", 22_528),
    ("app.js", 204_800),
    ("vendor.js", 307_200),
    ("router.js", 35_840),
    ("header.html", 122_880),
    ("footer.html", 56_320),
    ("logo.svg", 15_344),
    ("icon-sprite.svg", 71_680),
    ("manifest.json", 2_883),
    ("regular.woff2", 18_432),
    ("bold.woff2", 22_528),
    ("hero.webp", 46_080),
    ("thumb1.webp", 8_192),
    ("thumb2.webp", 6_144),
];

impl Data {
    /// The files in the arena's folders, such as `/data` and `/certs`, or generated ones.
    pub(crate) fn find(data: &Path, certificates: &Path) -> Result<Self, Box<dyn Error>> {
        let made = TempDir::new()?;
        let or_made = |path: PathBuf, name: &str| match path.exists() {
            true => path,
            false => made.path().join(name),
        };
        let found = Self {
            dataset: or_made(data.join("dataset.json"), "dataset.json"),
            site: or_made(data.join("static"), "static"),
            certificate: or_made(certificates.join("server.crt"), "server.crt"),
            key: or_made(certificates.join("server.key"), "server.key"),
            _made: Arc::new(made),
        };
        let is_made = |path: &Path| path.starts_with(found._made.path());
        if is_made(&found.dataset) {
            let mut random = fastrand::Rng::with_seed(1);
            let things: Vec<_> = (1..=THING_COUNT as i64)
                .map(|id| thing(&mut random, id))
                .collect();
            fs::write(&found.dataset, serde_json::to_vec(&things)?)?;
        }
        if is_made(&found.site) {
            make_site(&found.site)?;
        }
        if is_made(&found.certificate) || is_made(&found.key) {
            let key = rcgen::KeyPair::generate()?;
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
            fs::write(&found.certificate, certificate.pem())?;
            fs::write(&found.key, key.serialize_pem())?;
        }
        Ok(found)
    }

    pub(super) fn things(&self) -> Result<Vec<Thing>, Box<dyn Error + Send + Sync>> {
        let name = self.dataset.display();
        let text =
            fs::read(&self.dataset).map_err(|error| format!("cannot read {name}: {error}"))?;
        let things = serde_json::from_slice(&text);
        Ok(things.map_err(|error| format!("{name} is not what it should be: {error}"))?)
    }
}

fn make_site(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    let mut random = fastrand::Rng::with_seed(2);
    let mut compressor = Compressor::default();
    for (name, size) in SITE {
        let is_text = !name.ends_with(".webp") && !name.ends_with(".woff2");
        let content = match is_text {
            true => text(&mut random, size),
            false => (0..size).map(|_| random.u8(..)).collect(),
        };
        fs::write(folder.join(name), &content)?;
        if is_text {
            for (encoding, end) in [(Encoding::Brotli, "br"), (Encoding::Gzip, "gz")] {
                let mut compressed = Vec::new();
                compressor.compress(encoding, &content, &mut compressed);
                fs::write(folder.join(format!("{name}.{end}")), compressed)?;
            }
        }
    }
    Ok(())
}

/// Generates `size` bytes of words.
fn text(random: &mut fastrand::Rng, size: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(size + 16);
    while text.len() < size {
        let words: &[&str] = if random.bool() { &NOUNS } else { &TAGS };
        text.extend_from_slice(words[random.usize(..words.len())].as_bytes());
        text.push(if random.u8(..8) == 0 { b'\n' } else { b' ' });
    }
    text.truncate(size);
    text
}

const CATEGORIES: [&str; 10] = [
    "electronics",
    "office",
    "kitchen",
    "garden",
    "sports",
    "toys",
    "books",
    "music",
    "tools",
    "health",
];

const ADJECTIVES: [&str; 8] = [
    "Plain", "Swift", "Solid", "Quiet", "Bright", "Small", "Grand", "Old",
];

const NOUNS: [&str; 8] = [
    "Lamp", "Chair", "Radio", "Kettle", "Drill", "Globe", "Clock", "Mirror",
];

const TAGS: [&str; 10] = [
    "new", "sale", "blue", "light", "steel", "paper", "gift", "spare", "fast", "green",
];

/// Generates a thing like the arena's: names of two words, one to four tags.
fn thing(random: &mut fastrand::Rng, id: i64) -> Thing {
    let adjective = ADJECTIVES[random.usize(..ADJECTIVES.len())];
    let noun = NOUNS[random.usize(..NOUNS.len())];
    let tag_count = random.usize(1..=4);
    Thing {
        id,
        name: format!("{adjective} {noun}"),
        category: CATEGORIES[random.usize(..CATEGORIES.len())].to_owned(),
        price: random.i64(1..=500),
        quantity: random.i64(1..=1000),
        active: random.bool(),
        tags: random
            .choose_multiple(TAGS, tag_count)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        rating: Rating {
            score: random.i64(1..=50),
            count: random.i64(1..=500),
        },
    }
}

const TABLES: &str = "\
    create table items (id integer primary key, name text not null, category text not null, \
        price integer not null, quantity integer not null, active boolean not null, \
        tags jsonb not null, rating_score integer not null, rating_count integer not null);
    create table fortune (id integer primary key, message text not null);
    create table users (id integer primary key, name text not null, email text not null, \
        plan text not null);
    insert into users select id, 'user ' || id, 'user' || id || '@example.org', 'free' \
        from unnest(array[1, 7, 42, 100]) id;";

/// Messages that need escaping, and ordinary ones.
const FORTUNES: [&str; 4] = [
    "<script>alert(\"This is data & nothing else.\");</script>",
    "フレームワークのベンチマーク",
    "A table is a function that somebody has bothered to write down.",
    "Whoever measures once has a number; whoever measures twice has a doubt.",
];

const FORTUNE_COUNT: usize = 200;

/// Makes the arena's tables with `item_count` items in an empty database.
pub(crate) fn seed(url: &str, item_count: usize) -> Result<(), Box<dyn Error>> {
    let Config::Postgres(config) = Config::parse(url, &Environment::of_process())? else {
        return Err("the tables are made in PostgreSQL".into());
    };
    let mut connection = Connection::connect_with(&config, Options::default())?;
    for answer in connection.script(TABLES, 0)? {
        answer?;
    }
    let mut random = fastrand::Rng::with_seed(42);
    let mut lines = String::new();
    for id in 1..=item_count as i64 {
        let item = thing(&mut random, id);
        let Thing {
            name,
            category,
            price,
            quantity,
            active,
            tags,
            rating,
            ..
        } = item;
        let tags = serde_json::to_string(&tags)?;
        let Rating { score, count } = rating;
        lines += &format!(
            "{id}\t{name} {id}\t{category}\t{price}\t{quantity}\t{active}\t{tags}\t{score}\t{count}\n"
        );
    }
    copy(&mut connection, "copy items from stdin", lines)?;
    let mut lines = String::new();
    for id in 1..=FORTUNE_COUNT {
        let message = match FORTUNES.get(id - 1) {
            Some(message) => (*message).to_owned(),
            None => format!(
                "\"{}\" isn't {} & never was \u{2014} ask the {} about it, twice",
                NOUNS[random.usize(..NOUNS.len())],
                TAGS[random.usize(..TAGS.len())],
                ADJECTIVES[random.usize(..ADJECTIVES.len())],
            ),
        };
        lines += &format!("{id}\t{message}\n");
    }
    copy(&mut connection, "copy fortune from stdin", lines)?;
    connection.query("analyze", &[])?;
    Ok(())
}

fn copy(connection: &mut Connection, sql: &str, lines: String) -> Result<(), Box<dyn Error>> {
    for answer in connection.request(Request::copy_in(sql, lines.into_bytes()))? {
        answer?;
    }
    Ok(())
}
