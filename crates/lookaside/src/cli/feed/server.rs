//! The server of a change feed: a connection to it, and what it says about itself.

use std::time::Duration;

use lookaside_client::postgres::Options;
use lookaside_client::postgres::blocking::Connection;
use lookaside_client::{Config, Environment, Error, PostgresConfig};
use lookaside_value::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::provider::FeedProvider;
use crate::failure::Failure;

/// A server on this machine answers within milliseconds, a remote one within a second or two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The beginning of the names of the feed's slots.
const SLOT_PREFIX: &str = "lookaside_";

/// A connection to a server.
pub(crate) struct FeedServer {
    connection: Connection,
    /// Whom it is connected as.
    pub(crate) user: String,
    /// The address, without secrets.
    pub(crate) address: String,
}

/// The settings, limits and rights that a feed needs. `$1` is the role, `$2` the publication.
const FACTS_SQL: &str = "
select current_setting('server_version') as version,
    current_setting('server_version_num')::int8 as version_number,
    current_database()::text as database,
    quote_ident(current_database()) as database_sql,
    quote_ident($1::text) as role_sql,
    quote_ident($2::text) as publication_sql,
    pg_is_in_recovery() as is_standby,
    current_setting('wal_level') as wal_level,
    current_setting('max_replication_slots')::int8 as slot_count_max,
    (select count(*) from pg_catalog.pg_replication_slots) as slot_count,
    current_setting('max_wal_senders')::int8 as walsender_count_max,
    (select count(*) from pg_catalog.pg_stat_replication) as walsender_count,
    coalesce(current_setting('max_slot_wal_keep_size', true), '-1') as wal_keep_size_max,
    role.oid is not null as has_role,
    coalesce(role.rolsuper or role.rolreplication or exists (
        select from pg_catalog.pg_roles rds
        where rds.rolname = 'rds_replication' and pg_has_role(role.oid, rds.oid, 'member')
    ), false) as may_replicate,
    coalesce(has_database_privilege(role.oid, current_database(), 'connect'), false)
        as may_connect
from (values (1)) as one(number)
left join pg_catalog.pg_roles role on role.rolname = $1::text";

/// What a server says about itself.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ServerFacts {
    pub(crate) version: String,
    pub(crate) version_number: i64,
    pub(crate) database: String,
    /// The names as SQL has them, with quotes where they are needed.
    pub(crate) database_sql: String,
    pub(crate) role_sql: String,
    pub(crate) publication_sql: String,
    pub(crate) is_standby: bool,
    pub(crate) wal_level: String,
    pub(crate) slot_count_max: i64,
    pub(crate) slot_count: i64,
    pub(crate) walsender_count_max: i64,
    pub(crate) walsender_count: i64,
    pub(crate) wal_keep_size_max: String,
    pub(crate) has_role: bool,
    pub(crate) may_replicate: bool,
    pub(crate) may_connect: bool,
}

const PUBLICATION_SQL: &str = "
select puballtables as has_all_tables,
    pubinsert and pubupdate and pubdelete and pubtruncate as has_all_kinds,
    pg_get_userbyid(pubowner)::text as owner,
    obj_description(oid, 'pg_publication') as comment
from pg_catalog.pg_publication where pubname = $1::text";

/// A publication.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PublicationFacts {
    pub(crate) has_all_tables: bool,
    /// Whether it contains all kinds of changes.
    pub(crate) has_all_kinds: bool,
    pub(crate) owner: String,
    pub(crate) comment: Option<String>,
}

/// `$1` are the names, `$2` is the publication.
///
/// From PostgreSQL 18 on, the server refuses updates and deletes of a published table if its replica
/// identity has a generated column that a publication leaves out; in all versions, if it has another
/// column that one leaves out.
const TABLES_SQL: &str = "
with generated as (
    select attrelid, attnum from pg_catalog.pg_attribute
    where attgenerated <> '' and not attisdropped
        and current_setting('server_version_num')::int >= 180000
        and (attgenerated <> 's' or not exists (
            select from pg_catalog.pg_publication p
            where p.pubname = $2::text and to_jsonb(p) ->> 'pubgencols' = 's'
        ))
)
select wanted.name as wanted,
    format('%I.%I', n.nspname, c.relname) as name,
    pg_get_userbyid(c.relowner)::text as owner,
    c.relreplident::text as identity,
    (select x.relname::text from pg_catalog.pg_index i
        join pg_catalog.pg_class x on x.oid = i.indexrelid
        where i.indrelid = c.oid and i.indisreplident) as identity_index,
    exists (select from pg_catalog.pg_index i where i.indrelid = c.oid
        and i.indisprimary and i.indimmediate and i.indisvalid) as has_primary_key,
    exists (select from generated where attrelid = c.oid and (
        c.relreplident = 'f' or attnum = any ((select i.indkey::int2[] from pg_catalog.pg_index i
            where i.indrelid = c.oid and case c.relreplident
                when 'd' then i.indisprimary when 'i' then i.indisreplident end)::int2[])
    )) as has_generated_identity,
    exists (select from generated where attrelid = c.oid) as has_generated_columns,
    (select min(p.pubname::text) from pg_catalog.pg_publication_rel other
        join pg_catalog.pg_publication p on p.oid = other.prpubid
        where other.prrelid = c.oid and to_jsonb(other) ->> 'prattrs' is not null
            and (p.pubupdate or p.pubdelete)) as column_list,
    exists (select from pg_catalog.pg_index i where i.indrelid = c.oid
        and i.indisprimary and not i.indimmediate) as has_deferrable_key,
    (select min(p.pubname::text) from pg_catalog.pg_publication_tables published
        join pg_catalog.pg_publication p on p.pubname = published.pubname
        where p.pubname <> $2::text and (p.pubupdate or p.pubdelete)
            and published.schemaname = n.nspname and published.tablename = c.relname)
        as other_publication,
    member.oid is not null as is_member,
    coalesce(to_jsonb(member) ->> 'prqual', to_jsonb(member) ->> 'prattrs') is not null
        as is_partial,
    exists (select from pg_catalog.pg_publication_tables published
        where published.pubname = $2::text and published.schemaname = n.nspname
            and published.tablename = c.relname) as is_published
from unnest($1::text[]) with ordinality as wanted(name, place)
join pg_catalog.pg_class c on c.oid = to_regclass(wanted.name)
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join (
    select rel.* from pg_catalog.pg_publication_rel rel
    join pg_catalog.pg_publication p on p.oid = rel.prpubid where p.pubname = $2::text
) member on member.prrelid = c.oid
order by wanted.place";

/// A table.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TableFacts {
    /// The name that was asked for.
    pub(crate) wanted: String,
    /// Its name with its schema, quoted where SQL needs it.
    pub(crate) name: String,
    pub(crate) owner: String,
    identity: String,
    identity_index: Option<String>,
    has_primary_key: bool,
    has_deferrable_key: bool,
    /// Whether its replica identity, or the table, has a generated column that the publication leaves out
    /// and the server does not permit in a replica identity.
    has_generated_identity: bool,
    has_generated_columns: bool,
    /// A publication that leaves out columns of the table.
    column_list: Option<String>,
    /// Another publication that contains its updates or deletes.
    pub(crate) other_publication: Option<String>,
    /// Whether the publication names it.
    pub(crate) is_member: bool,
    /// Whether the publication leaves out some of its rows or columns.
    pub(crate) is_partial: bool,
    /// Whether the publication contains it, by its name, its schema, or with all tables.
    pub(crate) is_published: bool,
}

/// The replica identity of a table: what the log has of the old version of a changed row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Identity {
    /// The primary key, if there is one.
    Default,
    Nothing,
    /// The whole row.
    Full,
    /// The columns of a unique index.
    Index(String),
}

impl Identity {
    /// As `alter table … replica identity` has it.
    pub(crate) fn sql(&self) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::Nothing => "nothing".to_owned(),
            Self::Full => "full".to_owned(),
            Self::Index(name) => format!("using index {}", quoted(name)),
        }
    }
}

impl TableFacts {
    pub(crate) fn identity(&self) -> Identity {
        match (self.identity.as_str(), &self.identity_index) {
            ("f", _) => Identity::Full,
            ("n", _) => Identity::Nothing,
            ("i", Some(index)) => Identity::Index(index.clone()),
            // The index was dropped, which counts as nothing.
            ("i", None) => Identity::Nothing,
            _ => Identity::Default,
        }
    }

    /// Whether the log tells which row an update or delete changes. If a table without that is
    /// published, the server refuses these statements.
    pub(crate) fn has_identity(&self) -> bool {
        self.has_identity_with(&self.identity())
    }

    /// The same, if it had this replica identity.
    pub(crate) fn has_identity_with(&self, identity: &Identity) -> bool {
        match identity {
            Identity::Full | Identity::Index(_) => true,
            Identity::Default => self.has_primary_key,
            Identity::Nothing => false,
        }
    }

    /// Whether the server refuses updates and deletes of the table once it is published, although it has
    /// an identity.
    pub(crate) fn refuses_updates(&self) -> bool {
        self.has_generated_identity
            || self.identity() == Identity::Full && self.column_list.is_some()
    }

    /// Why it [refuses updates](Self::refuses_updates), and what helps.
    pub(crate) fn unpublished_identity(&self, publication: &str) -> (String, String) {
        let name = &self.name;
        match self.has_generated_identity {
            true => (
                "its replica identity has generated columns, which the publication leaves out"
                    .to_owned(),
                format!(
                    "set publish_generated_columns = stored for the publication {publication}, then run \
                     `lookaside feed setup`; or `alter table {name} replica identity using index`, with a \
                     unique index over columns that are not null and not generated"
                ),
            ),
            false => (
                self.full_problem().unwrap_or_default(),
                format!(
                    "`alter table {name} replica identity default` or `using index`, with columns that \
                     are published"
                ),
            ),
        }
    }

    /// Why the replica identity must not be `full`.
    pub(crate) fn full_problem(&self) -> Option<String> {
        match &self.column_list {
            Some(publication) => Some(format!(
                "the publication {} contains some of its columns only",
                quoted(publication)
            )),
            None => self
                .has_generated_columns
                .then(|| "it has generated columns, which are not published".to_owned()),
        }
    }

    /// Why the log does not tell which row is changed, and what helps beside `--identity-full`.
    pub(crate) fn identity_problem(&self) -> (&'static str, String) {
        let name = &self.name;
        match self.identity() {
            Identity::Nothing if self.has_primary_key => (
                "it has replica identity nothing",
                format!("`alter table {name} replica identity default`"),
            ),
            Identity::Nothing => (
                "it has replica identity nothing, and no primary key",
                format!("add a primary key to {name} and `replica identity default`"),
            ),
            _ if self.has_deferrable_key => (
                "its primary key is deferrable, and so not a replica identity",
                format!("make the primary key of {name} not deferrable"),
            ),
            _ => (
                "it has no primary key, and no other replica identity",
                format!("add a primary key to {name}"),
            ),
        }
    }
}

const SLOTS_SQL: &str = "
select slot_name::text as name, database::text as database,
    database = current_database() as is_of_database, active as is_active,
    coalesce(wal_status, 'unknown') as wal_status,
    coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
        else pg_current_wal_lsn() end, restart_lsn), 0)::int8 as held_size
from pg_catalog.pg_replication_slots
where starts_with(slot_name::text, $1) order by slot_name";

/// A slot of a change feed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SlotFacts {
    pub(crate) name: String,
    pub(crate) database: String,
    /// Whether that is the database of the provider.
    pub(crate) is_of_database: bool,
    pub(crate) is_active: bool,
    pub(crate) wal_status: String,
    /// The bytes of the log that the server keeps for it.
    pub(crate) held_size: i64,
}

impl SlotFacts {
    /// Whether a feed of the provider's database is running.
    pub(crate) fn is_running(&self) -> bool {
        self.is_active && self.is_of_database
    }
}

impl FeedServer {
    /// Connects to the server of a provider, as another user if there is a URL.
    pub(crate) fn connect(provider: &FeedProvider<'_>, url: Option<&str>) -> Result<Self, Failure> {
        let config = match url {
            None => provider.server.clone(),
            // Its errors never quote a password.
            Some(url) => match Config::parse(url, &Environment::of_process()) {
                Ok(Config::Postgres(config)) => config,
                Ok(_) => {
                    let message = "--url must be the URL of a PostgreSQL server";
                    return Err(Failure::usage(message).with_help("it begins with postgres://"));
                }
                Err(error) => {
                    return Err(Failure::usage("--url cannot be used").because(&error));
                }
            },
        };
        let mut server = Self::connect_to(config)?;
        let (found, wanted) = (server.database()?, &provider.server.database);
        if found != *wanted {
            let message = format!(
                "--url is of the database {found}, but that of the provider {} is {wanted}",
                provider.name()
            );
            let help = "name the provider's database at the end of the URL";
            return Err(Failure::usage(message).with_help(help));
        }
        Ok(server)
    }

    fn connect_to(mut config: PostgresConfig) -> Result<Self, Failure> {
        config.connect_timeout.get_or_insert(CONNECT_TIMEOUT);
        let connection =
            Connection::connect_with(&config, Options::default()).map_err(|error| {
                let failure = Failure::new(format!("cannot connect to {config}")).because(&error);
                match error.hint() {
                    Some(hint) => failure.with_help(hint),
                    None => failure,
                }
            })?;
        Ok(Self {
            connection,
            user: config.user.clone(),
            address: config.to_string(),
        })
    }

    /// What the server says about itself; `role` is the user that replicates.
    pub(crate) fn facts(&mut self, provider: &FeedProvider<'_>) -> Result<ServerFacts, Failure> {
        let params = [provider.role().into(), provider.publication().into()];
        self.rows(FACTS_SQL, &params)?
            .pop()
            .ok_or_else(|| Failure::new("the server gave an unexpected answer"))
    }

    /// The publication, if it exists.
    pub(crate) fn publication(&mut self, name: &str) -> Result<Option<PublicationFacts>, Failure> {
        Ok(self.rows(PUBLICATION_SQL, &[name.into()])?.pop())
    }

    /// The tables with these names, in their order, without those that do not exist.
    pub(crate) fn tables<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n str>,
        publication: &str,
    ) -> Result<Vec<TableFacts>, Failure> {
        let names: Vec<Value> = names.into_iter().map(Value::from).collect();
        self.rows(TABLES_SQL, &[names.into(), publication.into()])
    }

    /// The slots of change feeds, also those of other databases.
    pub(crate) fn slots(&mut self) -> Result<Vec<SlotFacts>, Failure> {
        self.rows(SLOTS_SQL, &[SLOT_PREFIX.into()])
    }

    /// Runs statements.
    pub(crate) fn execute(&mut self, sql: &str) -> Result<(), Error> {
        self.connection.batch_execute(sql)
    }

    fn database(&mut self) -> Result<String, Failure> {
        let mut names: Vec<String> = self.rows("select current_database()::text", &[])?;
        Ok(names.pop().unwrap_or_default())
    }

    fn rows<T: DeserializeOwned>(
        &mut self,
        sql: &str,
        params: &[Value],
    ) -> Result<Vec<T>, Failure> {
        let answer = self.connection.query(sql, params);
        let answer = answer.map_err(|error| {
            let message = format!("the catalog of {} cannot be read", self.address);
            Failure::new(message).because(&error)
        })?;
        let rows = answer.rows.deserialize();
        rows.map_err(|error| {
            let message = format!("the catalog of {} has an unexpected form", self.address);
            Failure::new(message).because(&error)
        })
    }
}

/// A name of SQL, quoted.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A literal of SQL, whatever `standard_conforming_strings` is.
pub(crate) fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
