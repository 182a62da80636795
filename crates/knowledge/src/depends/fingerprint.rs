//! One value that changes with each fact of the catalog that a class rests on.

use std::collections::BTreeSet;

use super::shape::Shape;

/// The names whose meaning statements depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Tables, as `to_regclass` reads them.
    pub(crate) relations: BTreeSet<String>,
    pub(crate) functions: BTreeSet<String>,
    pub(crate) operators: BTreeSet<String>,
}

impl Names {
    /// The names in a statement.
    pub(crate) fn of(shape: &Shape) -> Self {
        let mut names = Self::default();
        names.add(shape);
        names
    }

    /// Adds the names of another statement, so that one fingerprint serves many.
    pub(crate) fn add(&mut self, shape: &Shape) {
        let uses = &shape.uses;
        let relations = uses.relations.iter();
        self.relations.extend(relations.map(|name| name.quoted()));
        let calls = uses.calls.iter();
        self.functions.extend(calls.map(|call| call.name.clone()));
        let members = uses.members().into_iter();
        self.functions.extend(members.map(str::to_owned));
        self.operators.extend(uses.operators.iter().cloned());
    }

    /// A scalar subquery without parameters whose value, a text, changes if anything that
    /// [`Catalog`](super::Catalog) contains may have changed. It can be asked for beside other
    /// columns: `select pg_current_snapshot()::text, <this>`.
    ///
    /// `xmin` of a catalog row changes with each update that makes a new version of it, thus with
    /// all DDL. `VACUUM` and `ANALYZE` overwrite their statistics in place, so they do not change
    /// it.
    ///
    /// It waits for no lock. That is why it does not read the view `pg_publication_tables`, which
    /// locks each table of the publication and so waits for DDL.
    pub(crate) fn fingerprint_sql(&self, publication: &str) -> String {
        let relations = array(&self.relations);
        let functions = array(&self.functions);
        let operators = array(&self.operators);
        let publication = literal(publication);
        format!(
            "(with relation as materialized ( \
               select wanted.name, c.* from unnest({relations}) as wanted(name) \
               left join (select oid, xmin, relfilenode from pg_catalog.pg_class) c \
                 on c.oid = to_regclass(wanted.name)), \
             attribute as materialized (select attrelid, attnum, atttypid, xmin \
               from pg_catalog.pg_attribute \
               where attrelid in (select oid from relation) and attnum > 0), \
             publication as materialized (select oid, xmin from pg_catalog.pg_publication \
               where pubname = {publication}) \
             select pg_catalog.md5(pg_catalog.concat_ws('|', {SETTINGS}, \
             (select string_agg(concat_ws(',', name, oid, xmin, relfilenode), ';' order by name) \
               from relation), \
             (select concat_ws(',', oid, xmin) from publication), {PARTS}, \
             (select string_agg(concat_ws(',', oid, xmin), ';' order by oid) \
               from pg_catalog.pg_proc where proname = any ({functions})), \
             (select string_agg(concat_ws(',', o.oid, o.xmin, p.xmin), ';' order by o.oid) \
               from pg_catalog.pg_operator o join pg_catalog.pg_proc p on p.oid = o.oprcode \
               where o.oprname = any ({operators}) \
               and o.oprnamespace <> 'pg_catalog'::regnamespace))))"
        )
    }
}

/// A scalar subquery without parameters whose value, a text, changes if what a publication contains has
/// changed. As [`Names::fingerprint_sql`], it waits for no lock. [`PARTS`] explains the number 6237.
pub(crate) fn publication_fingerprint_sql(publication: &str) -> String {
    let publication = publication_oid(publication);
    format!(
        "(select pg_catalog.md5(pg_catalog.concat_ws('|', \
           (select concat_ws(',', oid, xmin) from pg_catalog.pg_publication \
             where oid = {publication}), \
           (select string_agg(objid::text, ',' order by objid) from pg_catalog.pg_depend \
             where refclassid = 'pg_catalog.pg_publication'::regclass and classid = 6237 \
             and refobjid = {publication}), \
           (select string_agg(concat_ws(',', oid, xmin), ';' order by oid) \
             from pg_catalog.pg_publication_rel where prpubid = {publication}))))"
    )
}

/// The same for the definitions of the tables that it may publish: all tables of the database, unless the
/// publication names each.
pub(crate) fn definitions_fingerprint_sql(publication: &str) -> String {
    let publication = publication_oid(publication);
    format!(
        "(with relation as materialized (select oid, xmin, relfilenode from pg_catalog.pg_class \
           where oid in (select prrelid from pg_catalog.pg_publication_rel \
             where prpubid = {publication}) \
           or relkind in ('r', 'p') and relpersistence = 'p' and ( \
             exists (select from pg_catalog.pg_publication \
               where oid = {publication} and puballtables) \
             or exists (select from pg_catalog.pg_depend \
               where refclassid = 'pg_catalog.pg_publication'::regclass and classid = 6237 \
               and refobjid = {publication}))) \
         select pg_catalog.md5(pg_catalog.concat_ws('|', \
           (select string_agg(concat_ws(',', oid, xmin, relfilenode), ';' order by oid) \
             from relation), \
           (select string_agg(concat_ws(',', attrelid, attnum, xmin), ';' order by attrelid, attnum) \
             from pg_catalog.pg_attribute where attrelid in (select oid from relation) and attnum > 0), \
           (select string_agg(concat_ws(',', indexrelid, xmin), ';' order by indexrelid) \
             from pg_catalog.pg_index where indrelid in (select oid from relation)))))"
    )
}

/// A scalar subquery for the identifier of a publication.
fn publication_oid(publication: &str) -> String {
    let publication = literal(publication);
    format!("(select oid from pg_catalog.pg_publication where pubname = {publication})")
}

/// What the fingerprint contains of the session. It changes without a transaction that has an
/// identifier; everything else in the fingerprint is changed by one that has.
pub(crate) const SETTINGS: &str = "pg_catalog.concat_ws('|', \
    current_setting('server_encoding'), current_setting('standard_conforming_strings'), \
    current_schemas(true)::text)";

/// What belongs to the relations and to the publication: columns, and their types with the labels
/// of enums, unique indexes, tables that inherit, the tables and schemas that are published. Types
/// with smaller numbers than 16384 are those of the server itself, which do not change.
///
/// 6237 is the number of `pg_publication_namespace`, which exists from PostgreSQL 15 on; before
/// that, nothing has this number (`pg_publication_namespace.h` of the server's source).
const PARTS: &str = "\
    (select string_agg(concat_ws(',', attrelid, attnum, xmin), '/' order by attrelid, attnum) \
      from attribute), \
    (select string_agg(concat_ws(',', t.oid, t.xmin, base.xmin, core.xmin, \
        (select string_agg(concat_ws(',', e.oid, e.xmin), '+' order by e.oid) \
          from pg_catalog.pg_enum e where e.enumtypid = core.oid)), '/' order by t.oid) \
      from pg_catalog.pg_type t \
      join pg_catalog.pg_type base \
        on base.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end \
      join pg_catalog.pg_type core on core.oid = \
        case when base.typcategory = 'A' and base.typelem <> 0 then base.typelem else base.oid end \
      where t.oid in (select atttypid from attribute where atttypid >= 16384)), \
    (select string_agg(concat_ws(',', indexrelid, xmin), '/' order by indexrelid) \
      from pg_catalog.pg_index where indrelid in (select oid from relation) and indisunique), \
    (select string_agg(concat_ws(',', inhparent, inhrelid), '/' order by inhparent, inhrelid) \
      from pg_catalog.pg_inherits where inhparent in (select oid from relation)), \
    (select string_agg(concat_ws(',', oid, xmin), '/' order by oid) \
      from pg_catalog.pg_publication_rel where prrelid in (select oid from relation) \
      and prpubid in (select oid from publication)), \
    (select string_agg(objid::text, '/' order by objid) from pg_catalog.pg_depend \
      where refclassid = 'pg_catalog.pg_publication'::regclass and classid = 6237 \
      and refobjid in (select oid from publication))";

/// A literal of type `text[]`.
fn array(names: &BTreeSet<String>) -> String {
    let names: Vec<String> = names.iter().map(|name| literal(name)).collect();
    format!("array[{}]::text[]", names.join(","))
}

/// A text literal that is read alike with any `standard_conforming_strings`.
fn literal(text: &str) -> String {
    let text = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", text.replace('\\', "\\\\")),
        false => format!("'{text}'"),
    }
}
