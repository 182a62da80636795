//! A worker that looks up keys by one of the original's ways.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail, ensure};
use rival_common::measure::Seen;
use rival_common::work::{Look, LookBlocking};
use wp_knowledge::cache::FieldQueryCache;
use wp_knowledge::facade::{
    cache_query_fields, cache_query_fields_async, query_fields, query_fields_async,
};
use wp_knowledge::runtime::{CachePolicy, QueryRequest, fields_to_params, runtime};
use wp_model_core::model::{DataField, Value};

use crate::table;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Bypass,
    Global,
    Local,
    /// No lookup at all.
    Pure,
}

impl Policy {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Global => "global",
            Self::Local => "local",
            Self::Pure => "pure",
        }
    }
}

/// Everything that a caller could prepare ahead, by key.
pub struct Requests {
    sql: String,
    params: Vec<[DataField; 1]>,
    keys: Vec<[DataField; 1]>,
    global: Vec<QueryRequest>,
}

impl Requests {
    pub fn new(rows: u64) -> Result<Arc<Self>> {
        let sql = table::select(rows);
        let fields = |name: &str| -> Vec<[DataField; 1]> {
            (0..=rows as i64)
                .map(|key| [DataField::from_int(name, key)])
                .collect()
        };
        let params = fields(":id");
        let global = params
            .iter()
            .map(|param| {
                let params = fields_to_params(param);
                QueryRequest::first_row(sql.as_str(), params, CachePolicy::UseGlobal)
            })
            .collect();
        Ok(Arc::new(Self {
            sql,
            params,
            keys: fields("id"),
            global,
        }))
    }
}

pub struct Looker {
    requests: Arc<Requests>,
    policy: Policy,
    local: FieldQueryCache,
}

impl Looker {
    pub fn new(requests: &Arc<Requests>, policy: Policy, local_capacity: usize) -> Result<Self> {
        ensure!(policy != Policy::Pure, "a lookup is not pure");
        Ok(Self {
            requests: requests.clone(),
            policy,
            local: FieldQueryCache::with_capacity(local_capacity),
        })
    }
}

impl Look for Looker {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let key = key as usize;
        let requests = &*self.requests;
        let params = &requests.params[key];
        let row = match self.policy {
            Policy::Local => {
                let keys = &requests.keys[key];
                cache_query_fields_async(&requests.sql, keys, params, &mut self.local).await
            }
            Policy::Global => runtime()
                .execute_async(&requests.global[key])
                .await
                .map_err(|error| anyhow!("{error}"))?
                .into_row(),
            Policy::Bypass | Policy::Pure => query_fields_async(&requests.sql, params)
                .await
                .map_err(|error| anyhow!("{error}"))?,
        };
        see(&row, seen)
    }
}

/// The same worker for a thread.
pub struct Blocking(pub Looker);

impl LookBlocking for Blocking {
    fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let looker = &mut self.0;
        let key = key as usize;
        let requests = &*looker.requests;
        let params = &requests.params[key];
        let row = match looker.policy {
            Policy::Local => {
                let keys = &requests.keys[key];
                cache_query_fields(&requests.sql, keys, params, &mut looker.local)
            }
            Policy::Global => runtime()
                .execute(&requests.global[key])
                .map_err(|error| anyhow!("{error}"))?
                .into_row(),
            Policy::Bypass | Policy::Pure => {
                query_fields(&requests.sql, params).map_err(|error| anyhow!("{error}"))?
            }
        };
        see(&row, seen)
    }
}

fn see(row: &[DataField], seen: &mut Seen) -> Result<()> {
    match row.first().map(DataField::get_value) {
        Some(Value::Chars(text)) => seen.see(text.as_str().as_bytes()),
        // The cached ways tell an error as an empty row.
        answer => bail!("{answer:?} came"),
    }
    Ok(())
}
