//! The worker's connections, and the items that they bring.

use std::cell::Cell;

use actix_web::{HttpResponse, Responder, get, web};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{Client, Error, NoTls, Row, Statement};

const COLUMNS: &str =
    "id, name, category, price, quantity, active, tags, rating_score, rating_count";

pub struct Database {
    connections: Vec<Connection>,
    next: Cell<usize>,
}

pub struct Connection {
    client: Client,
    pub range: Statement,
    pub fortunes: Statement,
    pub list: Statement,
    pub read: Statement,
    pub create: Statement,
    pub update: Statement,
}

impl Database {
    pub async fn connect(url: Option<&str>, count: usize) -> Result<Self> {
        let mut connections = Vec::new();
        if let Some(url) = url {
            for _ in 0..count {
                connections.push(Connection::open(url).await?);
            }
        }
        Ok(Self {
            connections,
            next: Cell::new(0),
        })
    }

    /// The connections take turns.
    pub fn connection(&self) -> Result<&Connection, actix_web::Error> {
        let next = self.next.get();
        self.next.set((next + 1) % self.connections.len().max(1));
        self.connections
            .get(next)
            .ok_or_else(|| actix_web::error::ErrorServiceUnavailable("no DATABASE_URL"))
    }
}

impl Connection {
    async fn open(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        ensure!(!client.is_closed(), "the server closed the connection");
        actix_web::rt::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("a connection ended: {error}");
            }
        });
        let prepare = async |sql: String| client.prepare(&sql).await;
        Ok(Self {
            range: prepare(format!(
                "select {COLUMNS} from items where price between $1 and $2 limit $3"
            ))
            .await?,
            fortunes: prepare("select id, message from fortune".into()).await?,
            list: prepare(format!(
                "select {COLUMNS} from items where category = $1 order by id limit $2 offset $3"
            ))
            .await?,
            read: prepare(format!("select {COLUMNS} from items where id = $1")).await?,
            create: prepare(format!(
                "insert into items ({COLUMNS}) values ($1, $2, $3, $4, $5, true, '[]', 0, 0) \
                 on conflict (id) do update set name = excluded.name, category = excluded.category, \
                 price = excluded.price, quantity = excluded.quantity returning {COLUMNS}"
            ))
            .await?,
            update: prepare(format!(
                "update items set name = $2, price = $3, quantity = $4 where id = $1 \
                 returning {COLUMNS}"
            ))
            .await?,
            client,
        })
    }

    pub async fn query(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, actix_web::Error> {
        self.client.query(statement, params).await.map_err(failed)
    }
}

fn failed(error: Error) -> actix_web::Error {
    eprintln!("{error}");
    actix_web::error::ErrorInternalServerError("the database failed")
}

#[derive(Serialize)]
pub struct Item<'a> {
    pub id: i32,
    name: &'a str,
    category: &'a str,
    price: i32,
    quantity: i32,
    active: bool,
    tags: &'a RawValue,
    rating: Rating,
}

#[derive(Serialize)]
struct Rating {
    score: i32,
    count: i32,
}

impl<'a> Item<'a> {
    pub fn of(row: &'a Row) -> Self {
        Self {
            id: row.get(0),
            name: row.get(1),
            category: row.get(2),
            price: row.get(3),
            quantity: row.get(4),
            active: row.get(5),
            tags: row.get::<_, Json<&RawValue>>(6).0,
            rating: Rating {
                score: row.get(7),
                count: row.get(8),
            },
        }
    }
}

#[derive(Deserialize)]
struct Range {
    #[serde(default = "Range::default_min")]
    min: i32,
    #[serde(default = "Range::default_max")]
    max: i32,
    #[serde(default = "Range::default_max")]
    limit: i32,
}

impl Range {
    fn default_min() -> i32 {
        10
    }

    fn default_max() -> i32 {
        50
    }
}

#[derive(Serialize)]
struct Found<'a> {
    items: Vec<Item<'a>>,
    count: usize,
}

#[get("/async-db")]
pub async fn async_db(
    database: web::Data<Database>,
    range: web::Query<Range>,
) -> Result<impl Responder, actix_web::Error> {
    let connection = database.connection()?;
    let limit = i64::from(range.limit.clamp(1, 50));
    let params: [&(dyn ToSql + Sync); 3] = [&range.min, &range.max, &limit];
    let rows = connection.query(&connection.range, &params).await?;
    let items: Vec<Item<'_>> = rows.iter().map(Item::of).collect();
    let count = items.len();
    Ok(HttpResponse::Ok().json(Found { items, count }))
}
