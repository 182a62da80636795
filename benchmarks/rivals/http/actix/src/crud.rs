//! Items one by one, kept for 200 ms by all workers together.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use actix_web::http::header::ContentType;
use actix_web::web::Bytes;
use actix_web::{HttpResponse, Responder, get, post, put, web};
use serde::{Deserialize, Serialize};

use crate::database::{Database, Item};

const KEPT: Duration = Duration::from_millis(200);
/// Workers that ask for different items seldom meet.
const SHARD_COUNT: usize = 64;

/// Encoded items. What an update invalidated while it was being read is not kept: each shard counts
/// its updates, and a read keeps what it brings only where none came between.
pub struct Cache {
    shards: Vec<Shard>,
}

#[derive(Default)]
struct Shard(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    items: HashMap<i32, (Instant, Bytes)>,
    updates: u64,
}

impl Default for Cache {
    fn default() -> Self {
        let shards = (0..SHARD_COUNT).map(|_| Shard::default()).collect();
        Self { shards }
    }
}

impl Cache {
    fn shard(&self, id: i32) -> std::sync::MutexGuard<'_, Kept> {
        let shard = &self.shards[id as usize % SHARD_COUNT];
        shard.0.lock().expect("nothing panics while it is held")
    }

    /// What is kept, or what to say when it is read.
    fn find(&self, id: i32) -> Result<Bytes, u64> {
        let shard = self.shard(id);
        match shard.items.get(&id) {
            Some((until, item)) if *until > Instant::now() => Ok(item.clone()),
            _ => Err(shard.updates),
        }
    }

    fn keep(&self, id: i32, updates: u64, item: Bytes) {
        let mut shard = self.shard(id);
        if shard.updates == updates {
            shard.items.insert(id, (Instant::now() + KEPT, item));
        }
    }

    fn forget(&self, id: i32) {
        let mut shard = self.shard(id);
        shard.updates += 1;
        shard.items.remove(&id);
    }
}

impl Default for Page {
    fn default() -> Self {
        Self {
            category: "electronics".into(),
            page: 1,
            limit: 10,
        }
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct Page {
    category: String,
    page: i64,
    limit: i64,
}

#[derive(Serialize)]
struct Listed<'a> {
    items: Vec<Item<'a>>,
    total: usize,
    page: i64,
    limit: i64,
}

#[get("/crud/items")]
pub async fn list(
    database: web::Data<Database>,
    page: web::Query<Page>,
) -> Result<impl Responder, actix_web::Error> {
    let connection = database.connection()?;
    let limit = page.limit.clamp(1, 50);
    let offset = (page.page.max(1) - 1) * limit;
    let rows = connection
        .query(&connection.list, &[&page.category, &limit, &offset])
        .await?;
    let items: Vec<Item<'_>> = rows.iter().map(Item::of).collect();
    Ok(HttpResponse::Ok().json(Listed {
        total: items.len(),
        items,
        page: page.page,
        limit,
    }))
}

#[get("/crud/items/{id}")]
pub async fn read(
    database: web::Data<Database>,
    cache: web::Data<Cache>,
    id: web::Path<i32>,
) -> Result<impl Responder, actix_web::Error> {
    let updates = match cache.find(*id) {
        Ok(item) => return Ok(found("HIT", item)),
        Err(updates) => updates,
    };
    let connection = database.connection()?;
    let rows = connection.query(&connection.read, &[&*id]).await?;
    let Some(row) = rows.first() else {
        return Ok(HttpResponse::NotFound().finish());
    };
    let item = Bytes::from(serde_json::to_vec(&Item::of(row))?);
    cache.keep(*id, updates, item.clone());
    Ok(found("MISS", item))
}

fn found(how: &'static str, item: Bytes) -> HttpResponse {
    HttpResponse::Ok()
        .content_type(ContentType::json())
        .insert_header(("X-Cache", how))
        .body(item)
}

#[derive(Deserialize)]
struct Created {
    id: i32,
    name: String,
    category: String,
    price: i32,
    quantity: i32,
}

#[post("/crud/items")]
pub async fn create(
    database: web::Data<Database>,
    cache: web::Data<Cache>,
    item: web::Json<Created>,
) -> Result<impl Responder, actix_web::Error> {
    let connection = database.connection()?;
    let Created {
        id,
        name,
        category,
        price,
        quantity,
    } = &*item;
    let rows = connection
        .query(&connection.create, &[id, name, category, price, quantity])
        .await?;
    cache.forget(*id);
    let row = rows
        .first()
        .ok_or(actix_web::error::ErrorInternalServerError("no row"))?;
    Ok(HttpResponse::Created().json(Item::of(row)))
}

#[derive(Deserialize)]
struct Updated {
    name: String,
    price: i32,
    quantity: i32,
}

#[put("/crud/items/{id}")]
pub async fn update(
    database: web::Data<Database>,
    cache: web::Data<Cache>,
    id: web::Path<i32>,
    item: web::Json<Updated>,
) -> Result<impl Responder, actix_web::Error> {
    let connection = database.connection()?;
    let Updated {
        name,
        price,
        quantity,
    } = &*item;
    let rows = connection
        .query(&connection.update, &[&*id, name, price, quantity])
        .await?;
    cache.forget(*id);
    Ok(match rows.first() {
        Some(row) => HttpResponse::Ok().json(Item::of(row)),
        None => HttpResponse::NotFound().finish(),
    })
}
