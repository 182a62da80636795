//! What the server says about the names in a statement.

use lookaside_value::{RowError, RowSet, Value};
use serde::Deserialize;

use super::fingerprint::Names;

/// Asks for one [`Catalog`]. The parameters are those of [`Names::catalog_params`].
///
/// It runs under the `search_path` of the session, so the session must be one of those that run the
/// statement. `to_jsonb` of a row of `pg_publication_tables` has the column list and the filter
/// from PostgreSQL 15 on, where they exist.
///
/// A type is `plain` if its text form does not depend on time or settings, as its input and output
/// functions are immutable; enums are plain because the fingerprint contains their labels. It is
/// `shown` if its output depends on nothing that the fingerprint does not contain: the names of
/// other objects and of roles, the locale of money. Times are sent in binary. A domain has the
/// properties of its base type, an array those of its elements. `anyelement` and its like stand for
/// the types of the operands, and a literal is never read as one of them.
const CATALOG_SQL: &str = r#"
with types as (
    select t.oid, base.oid as base,
        core.typtype = 'e' or core.typtype = 'p' and core.typname like 'any%'
            or core.typtype = 'b' and input.provolatile = 'i' and output.provolatile = 'i' as is_plain,
        core.typtype = 'e' or core.typtype = 'b' and output.provolatile = 'i'
            or core.typtype in ('b', 'r', 'm')
            and core.typnamespace = 'pg_catalog'::regnamespace
            and core.typname not like 'reg%' and core.typname not in ('aclitem', 'money')
            as is_shown
    from pg_catalog.pg_type t
    join pg_catalog.pg_type base
        on base.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
    join pg_catalog.pg_type core on core.oid =
        case when base.typcategory = 'A' and base.typelem <> 0 then base.typelem else base.oid end
    join pg_catalog.pg_proc input on input.oid = core.typinput
    join pg_catalog.pg_proc output on output.oid = core.typoutput
),
relations as (
    select wanted.name, c.oid, n.nspname, c.relname, c.relkind, c.relpersistence,
        c.relrowsecurity, c.relreplident, c.relispartition
    from unnest($1::text[]) as wanted(name)
    join pg_catalog.pg_class c on c.oid = to_regclass(wanted.name)
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
)
select
    current_setting('server_encoding') = 'UTF8' as is_utf8,
    current_setting('standard_conforming_strings') = 'on' as has_standard_strings,
    coalesce((
        select schema from unnest(current_schemas(true)) with ordinality as path(schema, place)
        where schema not like 'pg\_temp%' order by place limit 1
    ) = 'pg_catalog', false) as is_catalog_first,
    coalesce((
        select pubinsert and pubupdate and pubdelete and pubtruncate
        from pg_catalog.pg_publication where pubname = $4
    ), false) as publishes_all,
    coalesce((
        select json_agg(json_build_object(
            'name', r.name,
            'sql_name', format('%I.%I', r.nspname, r.relname),
            'oid', r.oid::bigint,
            'kind', r.relkind,
            'persistence', r.relpersistence,
            'identity', r.relreplident,
            'is_system', r.nspname in ('pg_catalog', 'information_schema', 'pg_toast'),
            'is_partition', r.relispartition,
            'is_row_secured', r.relrowsecurity,
            'has_children', exists (
                select from pg_catalog.pg_inherits where inhparent = r.oid
            ),
            'refuses_full_identity', exists (
                select from pg_catalog.pg_publication_rel member
                join pg_catalog.pg_publication p on p.oid = member.prpubid
                where member.prrelid = r.oid and to_jsonb(member) ->> 'prattrs' is not null
                    and (p.pubupdate or p.pubdelete)
            ) or current_setting('server_version_num')::int >= 180000 and exists (
                select from pg_catalog.pg_attribute a
                where a.attrelid = r.oid and a.attgenerated <> '' and not a.attisdropped
                    and (a.attgenerated <> 's' or not exists (
                        select from pg_catalog.pg_publication p
                        where p.pubname = $4 and to_jsonb(p) ->> 'pubgencols' = 's'
                    ))
            ),
            'attributes', (
                select coalesce(json_agg(json_build_object(
                    'name', a.attname,
                    'number', a.attnum,
                    'type', a.atttypid::bigint,
                    'base', types.base::bigint,
                    'type_name', format_type(a.atttypid, a.atttypmod),
                    'is_generated', a.attgenerated <> '',
                    'is_plain', coalesce(types.is_plain, false),
                    'is_shown', coalesce(types.is_shown, false),
                    'is_deterministic', coalesce(sorted.collisdeterministic, true)
                ) order by a.attnum), '[]')
                from pg_catalog.pg_attribute a
                left join types on types.oid = a.atttypid
                left join pg_catalog.pg_collation sorted on sorted.oid = a.attcollation
                where a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
            ),
            'unique_keys', (
                select coalesce(json_agg(json_build_object(
                    'sql_name', (
                        select quote_ident(x.relname) from pg_catalog.pg_class x
                        where x.oid = i.indexrelid
                    ),
                    'has_nulls', exists (
                        select from pg_catalog.pg_attribute a
                        where a.attrelid = r.oid and a.attnum = any (i.indkey::int2[])
                            and not a.attnotnull
                    ),
                    'is_primary', i.indisprimary,
                    'is_identity', i.indisreplident,
                    'columns', (
                        select json_agg(part.number order by part.place)
                        from unnest(i.indkey::int2[]) with ordinality as part(number, place)
                        where part.place <= i.indnkeyatts
                    )
                )), '[]')
                from pg_catalog.pg_index i
                where i.indrelid = r.oid and i.indisunique and i.indimmediate and i.indisvalid
                    and i.indpred is null and i.indexprs is null
            ),
            'published', (
                select to_jsonb(published) from pg_catalog.pg_publication_tables published
                where published.pubname = $4 and published.schemaname = r.nspname
                    and published.tablename = r.relname
            )
        ))
        from relations r
    ), '[]') as relations,
    coalesce((
        select json_agg(json_build_object(
            'name', p.proname,
            'is_built_in', p.pronamespace = 'pg_catalog'::regnamespace,
            'kind', p.prokind,
            'volatility', p.provolatile,
            'returns_set', p.proretset,
            'count_min', p.pronargs - p.pronargdefaults - (p.provariadic <> 0)::int,
            'count_max', case when p.provariadic = 0 then p.pronargs end,
            'takes_other', exists (
                select from unnest(p.proargtypes::oid[]) as argument(type)
                left join types on types.oid = argument.type
                where types.is_plain is not true
            ),
            'returns_plain', coalesce(types.is_plain, false)
        ))
        from pg_catalog.pg_proc p
        left join types on types.oid = p.prorettype
        where p.proname = any ($2::text[])
    ), '[]') as functions,
    coalesce((
        select json_agg(json_build_object(
            'name', o.oprname,
            'left', o.oprleft::bigint,
            'right', o.oprright::bigint,
            'is_for_built_in', not exists (
                select from pg_catalog.pg_type t
                where t.oid in (o.oprleft, o.oprright)
                    and t.typnamespace <> 'pg_catalog'::regnamespace
            )
        ))
        from pg_catalog.pg_operator o
        join pg_catalog.pg_proc p on p.oid = o.oprcode
        join pg_catalog.pg_language language on language.oid = p.prolang
        where o.oprname = any ($3::text[]) and (p.provolatile = 'v'
            or o.oprnamespace <> 'pg_catalog'::regnamespace
            and not (p.provolatile = 'i' and language.lanname in ('c', 'internal')))
    ), '[]') as operators
"#;

/// What the server says about the names in a statement.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Catalog {
    /// Whether the database stores text as UTF-8, so that texts are equal if their bytes are.
    pub(super) is_utf8: bool,
    /// Whether a backslash in `'…'` is a backslash.
    pub(super) has_standard_strings: bool,
    /// Whether names are looked for in `pg_catalog` first.
    pub(super) is_catalog_first: bool,
    /// Whether the publication exists and contains all kinds of changes.
    pub(super) publishes_all: bool,
    /// The tables that exist.
    pub(super) relations: Vec<Relation>,
    /// All functions with one of the names, in any schema.
    pub(super) functions: Vec<Function>,
    /// Operators with one of the names that may depend on more than their operands. Those of an
    /// extension in C that are immutable do not, such as the ones of `citext`.
    pub(super) operators: Vec<Operator>,
}

/// A row of `pg_class`, with what belongs to it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Relation {
    /// The name that was asked for.
    pub(super) name: String,
    /// Its name with its schema, quoted where SQL needs it.
    pub(super) sql_name: String,
    pub(super) oid: u32,
    pub(super) kind: char,
    pub(super) persistence: char,
    pub(super) identity: char,
    pub(super) is_system: bool,
    pub(super) is_partition: bool,
    pub(super) is_row_secured: bool,
    pub(super) has_children: bool,
    /// Whether the server would refuse updates and deletes if the table had the replica identity `full`: a
    /// publication leaves out columns of it, or generated ones, which it does from PostgreSQL 18 on.
    pub(super) refuses_full_identity: bool,
    pub(super) attributes: Vec<Attribute>,
    /// Unique indexes of columns over the whole table.
    pub(super) unique_keys: Vec<UniqueKey>,
    pub(super) published: Option<Published>,
}

/// A column.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) number: i16,
    pub(super) r#type: u32,
    /// The type below a domain, else the type.
    pub(super) base: Option<u32>,
    pub(super) type_name: String,
    pub(super) is_generated: bool,
    pub(super) is_plain: bool,
    pub(super) is_shown: bool,
    /// Whether equal values of its collation have equal bytes.
    pub(super) is_deterministic: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct UniqueKey {
    /// The name of the index, quoted where SQL needs it.
    pub(super) sql_name: String,
    /// Whether a column may be null.
    pub(super) has_nulls: bool,
    pub(super) is_primary: bool,
    pub(super) is_identity: bool,
    /// Numbers of columns.
    pub(super) columns: Vec<i16>,
}

/// A row of `pg_publication_tables`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Published {
    /// The published columns; absent before PostgreSQL 15, where all are published.
    #[serde(default)]
    pub(super) attnames: Option<Vec<String>>,
    #[serde(default)]
    pub(super) rowfilter: Option<String>,
}

/// A row of `pg_proc`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) is_built_in: bool,
    pub(super) kind: char,
    pub(super) volatility: char,
    pub(super) returns_set: bool,
    /// The least number of arguments.
    pub(super) count_min: i32,
    /// The greatest number of arguments; `None` if there may be any.
    pub(super) count_max: Option<i32>,
    /// Whether the type of an argument is not plain.
    pub(super) takes_other: bool,
    pub(super) returns_plain: bool,
}

/// A row of `pg_operator`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Operator {
    pub(super) name: String,
    pub(super) left: u32,
    pub(super) right: u32,
    /// Whether its operands are of built-in types.
    pub(super) is_for_built_in: bool,
}

impl Catalog {
    /// The query for a catalog.
    pub(crate) fn sql() -> &'static str {
        CATALOG_SQL
    }

    /// Reads the answer to [`Self::sql`], which has one row; `None` if it has not.
    pub(crate) fn from_rows(rows: &RowSet) -> Result<Option<Self>, RowError> {
        Ok(rows.deserialize::<Self>()?.pop())
    }

    /// The catalog as it would be if the publication contained the tables of the statement.
    pub(super) fn published(mut self) -> Self {
        self.publishes_all = true;
        for relation in &mut self.relations {
            relation.published = Some(Published {
                attnames: None,
                rowfilter: None,
            });
        }
        self
    }

    /// The catalog as it would be if the replica identity of each table were the whole row; of those only
    /// that permit it, unless it is `forced`.
    pub(super) fn with_full_identities(mut self, is_forced: bool) -> Self {
        let relations = self.relations.iter_mut();
        for relation in relations.filter(|it| is_forced || !it.refuses_full_identity) {
            relation.identity = 'f';
        }
        self
    }

    pub(super) fn relation(&self, name: &str) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.name == name)
    }
}

impl Names {
    /// The parameters of [`Catalog::sql`].
    pub(crate) fn catalog_params(&self, publication: &str) -> [Value; 4] {
        let list = |names: &mut dyn Iterator<Item = &String>| {
            Value::from(
                names
                    .map(|name| Value::from(name.as_str()))
                    .collect::<Vec<_>>(),
            )
        };
        [
            list(&mut self.relations.iter()),
            list(&mut self.functions.iter()),
            list(&mut self.operators.iter()),
            Value::from(publication),
        ]
    }
}
