//! A worker that does with a record what wp-oml does: see the program's first lines.

use anyhow::{Context, Result, anyhow, bail, ensure};
use rival_common::measure::Seen;
use rival_common::work::Look;
use wp_knowledge::cache::FieldQueryCache;
use wp_knowledge::facade::{cache_query_fields_async, query_fields_async};
use wp_model_core::model::{DataField, DataRecord, Value};

use crate::looker::Policy;
use crate::table;

pub struct Model {
    policy: Policy,
    sql: String,
    /// Records by their key.
    records: Vec<DataRecord>,
    local: FieldQueryCache,
}

impl Model {
    pub fn new(policy: Policy, rows: u64, local_capacity: usize) -> Result<Self> {
        ensure!(
            policy != Policy::Global,
            "a model has a cache of its own: local"
        );
        let records = (0..=rows as i64)
            .map(|key| DataRecord::from(vec![DataField::from_int("id", key)]))
            .collect();
        Ok(Self {
            policy,
            sql: table::select(rows),
            records,
            local: FieldQueryCache::with_capacity(local_capacity),
        })
    }
}

impl Look for Model {
    async fn look(&mut self, key: i64, seen: &mut Seen) -> Result<()> {
        let source = self.records[key as usize].clone();
        let mut id = source.get_field_owned("id").context("the record's id")?;
        let mut field = match self.policy {
            Policy::Pure => id,
            Policy::Local => {
                let keys = [id.clone()];
                id.set_name(":id");
                cache_query_fields_async(&self.sql, &keys, &[id], &mut self.local)
                    .await
                    .pop()
                    .context("an empty row came")?
            }
            Policy::Bypass | Policy::Global => {
                id.set_name(":id");
                query_fields_async(&self.sql, &[id])
                    .await
                    .map_err(|error| anyhow!("{error}"))?
                    .pop()
                    .context("an empty row came")?
            }
        };
        field.set_name("V");
        let mut target = DataRecord::default();
        target.append(field);
        match target.items[0].get_value() {
            Value::Chars(text) => seen.see(text.as_str().as_bytes()),
            Value::Int(number) => seen.see(&number.to_le_bytes()),
            answer => bail!("{answer:?} came"),
        }
        Ok(())
    }
}
