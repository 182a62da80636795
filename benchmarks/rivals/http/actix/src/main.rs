//! rival-http-actix: actix-web on PORT (8080), with tokio-postgres where DATABASE_URL names a server.
//!
//! Its best settings: a worker a core; each worker has its share of DATABASE_MAX_CONN (16)
//! connections, which its requests use in turn without waiting for one another, so that
//! tokio-postgres pipelines them; statements are prepared ahead; answers are written from the rows.

mod crud;
mod database;
mod fortunes;

use std::{env, thread};

use actix_web::http::KeepAlive;
use actix_web::{App, HttpResponse, HttpServer, Responder, get, route, web};
use anyhow::Result;
use serde::Deserialize;

use crate::crud::Cache;
use crate::database::Database;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As many connections as a listener holds back.
const BACKLOG: u32 = 4096;

#[derive(Deserialize)]
struct Sum {
    a: i64,
    b: i64,
}

#[get("/ok")]
async fn ok() -> impl Responder {
    HttpResponse::Ok().content_type("text/plain").body("ok")
}

#[get("/pipeline")]
async fn pipeline() -> impl Responder {
    HttpResponse::Ok().content_type("text/plain").body("ok")
}

#[route("/baseline11", method = "GET", method = "POST")]
async fn baseline(query: web::Query<Sum>, body: web::Bytes) -> impl Responder {
    let text = std::str::from_utf8(&body).unwrap_or_default();
    let sum = query.a + query.b + text.trim().parse::<i64>().unwrap_or(0);
    HttpResponse::Ok()
        .content_type("text/plain")
        .body(sum.to_string())
}

#[actix_web::main]
async fn main() -> Result<()> {
    let worker_count = thread::available_parallelism()?.get();
    let port: u16 = env::var("PORT").unwrap_or("8080".into()).parse()?;
    let url = env::var("DATABASE_URL").ok();
    let connection_count: usize = env::var("DATABASE_MAX_CONN")
        .unwrap_or("16".into())
        .parse()?;
    let share = (connection_count / worker_count).max(1);
    let cache = web::Data::new(Cache::default());
    HttpServer::new(move || {
        let (url, cache) = (url.clone(), cache.clone());
        App::new()
            .app_data(cache)
            .data_factory(move || {
                let url = url.clone();
                async move { Database::connect(url.as_deref(), share).await }
            })
            .service(ok)
            .service(pipeline)
            .service(baseline)
            .service(database::async_db)
            .service(fortunes::fortunes)
            .service(crud::list)
            .service(crud::read)
            .service(crud::create)
            .service(crud::update)
    })
    .workers(worker_count)
    .backlog(BACKLOG)
    .keep_alive(KeepAlive::Os)
    .bind(("0.0.0.0", port))?
    .run()
    .await?;
    Ok(())
}
