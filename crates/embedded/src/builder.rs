//! The builder of a database.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::binaries::Progress;
use crate::cluster::{DatabaseKind, DatabaseOwner, JanitorJob, PREWARM_COUNT_MAX};
use crate::cluster_options::ClusterOptions;
use crate::contents::{Contents, prepare};
use crate::initializer::Initializer;
use crate::names::USER;
use crate::persistent::{self, FolderOptions, OpenMode};
use crate::postgres::{Lease, Lifetime, Scope};
use crate::preflight;
use crate::schema::Schema;
use crate::server::Listen;
use crate::settings::{RELAXED, check_settings};
use crate::setup::Setup;
use crate::temporary;
use crate::{Error, Postgres, Result, Version, VersionRequirement, archive};

/// A builder for a database; created by [`Postgres::builder`].
///
/// ```no_run
/// use lookaside_embedded::Postgres;
///
/// let db = Postgres::builder()
///     .extension("pg_trgm")
///     .migrations("migrations")
///     .start()?;
/// # Ok::<(), lookaside_embedded::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing starts before `start`"]
pub struct Builder {
    requirement: VersionRequirement,
    location: Location,
    user: Option<String>,
    database: Option<String>,
    settings: Vec<(String, String)>,
    listen: Listen,
    relaxed: bool,
    schema: Schema,
    migrations: Vec<PathBuf>,
    archive: Option<PathBuf>,
    prewarm_count_max: usize,
    progress: Arc<dyn Progress>,
}

/// The location of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Location {
    /// In the server that this user's processes share.
    Shared,
    /// In a separate temporary server.
    Fresh,
    /// In a folder of the caller.
    Folder(PathBuf),
    /// In the platform's folder for the data of an application.
    App(String),
}

impl Postgres {
    /// Creates an isolated, empty database, which is dropped with the value.
    ///
    /// It is in a server that the processes of this user share; the first process starts it, and it
    /// ends with the last one, however that ends. Its data is in memory if there is room, and is
    /// not protected against a crash of the machine.
    ///
    /// Only the database is isolated. Roles, their settings and passwords, tablespaces, replication
    /// slots and what `ALTER SYSTEM` sets belong to the whole server: other tests see them, and
    /// they remain until the server ends. Tests of these need a separate server
    /// ([`fresh_cluster`](Builder::fresh_cluster)) or, for roles, a role for each database
    /// ([`owner_role`](Builder::owner_role)).
    ///
    /// # Errors
    ///
    /// If no PostgreSQL is found and none can be downloaded, or it does not start.
    pub fn temporary() -> Result<Self> {
        Self::builder().start()
    }

    /// Creates a builder for a database with options.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    fn new() -> Self {
        Self {
            requirement: VersionRequirement::ANY,
            location: Location::Shared,
            user: None,
            database: None,
            settings: Vec::new(),
            listen: Listen::Socket,
            relaxed: false,
            schema: Schema::default(),
            migrations: Vec::new(),
            archive: None,
            prewarm_count_max: PREWARM_COUNT_MAX,
            progress: Arc::new(()),
        }
    }

    /// Accepts only these versions; by default, any from 14 on.
    pub fn version(mut self, requirement: VersionRequirement) -> Self {
        self.requirement = requirement;
        self
    }

    /// Uses a separate server, which ends with the value: for tests of roles, settings or crashes.
    pub fn fresh_cluster(mut self) -> Self {
        if self.location == Location::Shared {
            self.location = Location::Fresh;
        }
        self
    }

    /// Uses a separate server whose data is kept in `folder`, which is created if it does not
    /// exist. The server ends with the value, and the data is kept.
    pub fn path(mut self, folder: impl Into<PathBuf>) -> Self {
        self.location = Location::Folder(folder.into());
        self
    }

    /// As [`path`](Self::path), in the platform's folder for the data of the application `name`:
    /// `$XDG_DATA_HOME/name/postgres`, by default in `~/.local/share`.
    pub fn app(mut self, name: impl Into<String>) -> Self {
        self.location = Location::App(name.into());
        self
    }

    /// Sets the name of the superuser, instead of `postgres`. Users belong to the whole server, so
    /// this implies a separate one.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self.fresh_cluster()
    }

    /// Creates a role for this database alone, which owns it and its initial contents, is the user
    /// of its URL, and is dropped with it. It is not a superuser, so that privileges and row
    /// security are tested as in production; extensions are still created by the superuser. SQL and
    /// migrations run as this role. For databases of the shared server only.
    ///
    /// ```no_run
    /// let db = lookaside_embedded::Postgres::builder().owner_role().start()?;
    /// assert_eq!(db.user(), db.database());
    /// # Ok::<(), lookaside_embedded::Error>(())
    /// ```
    pub fn owner_role(mut self) -> Self {
        self.schema.owner = DatabaseOwner::Role;
        self
    }

    /// Sets the name of the database. Other processes may use the same name, so this implies a
    /// separate server.
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.database = Some(name.into());
        self.fresh_cluster()
    }

    /// Adds a setting of the server, as in `postgresql.conf`. Databases with the same settings
    /// share a server.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Acknowledges writes before they are on disk: a crash of the machine may destroy the data.
    /// Always enabled for temporary databases.
    pub fn relaxed_durability(mut self) -> Self {
        self.relaxed = true;
        self
    }

    /// Adds SQL that initializes the database. It runs once in a template, and each database is a
    /// copy.
    pub fn sql(mut self, sql: &str) -> Self {
        self.schema.add_sql(sql);
        self
    }

    /// Adds a folder whose `.sql` files initialize the database, in the order of the numbers at the
    /// beginning of their names, then of the names (without `….down.sql`). Like [`sql`](Self::sql),
    /// they run once for all databases with equal contents. A folder given to [`path`](Self::path)
    /// gets them when it is created.
    pub fn migrations(mut self, folder: impl Into<PathBuf>) -> Self {
        self.migrations.push(folder.into());
        self
    }

    /// Sets code of the caller that initializes the database, such as a migrator or a seed. It gets
    /// the URL of an empty database (with the extensions, SQL and migrations of this builder) and
    /// runs once for each `key`, not once for each database: the result is a template in the cache,
    /// of which databases are copies, in this and other processes, now and later. If several
    /// processes need it at once, one runs the code and the others wait; if it fails or dies,
    /// nothing remains.
    ///
    /// The key must change when the contents would: [`key_of_files`](crate::key_of_files) computes
    /// one from migration files. A migrator that embeds them at compile time, such as
    /// `sqlx::migrate!()`, must be recompiled when they change: a `build.rs` that prints
    /// `cargo:rerun-if-changed=migrations` does that. The code runs on its own thread, where it may
    /// start an asynchronous runtime. Connections that it leaves open are closed.
    ///
    /// The databases of a key have their own server, which begins as a copy of the template. With
    /// [`path`](Self::path), the code runs when the folder is created.
    ///
    /// ```no_run
    /// use lookaside_embedded::{Postgres, key_of_files};
    /// # fn migrate(_: &str) -> Result<(), std::io::Error> { Ok(()) }
    ///
    /// let db = Postgres::builder()
    ///     .template(key_of_files(["migrations/**"])?, |url| migrate(url))
    ///     .start()?;
    /// # Ok::<(), lookaside_embedded::Error>(())
    /// ```
    pub fn template<E>(
        mut self,
        key: impl Into<String>,
        make: impl Fn(&str) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.schema.add_initializer(Initializer {
            key: key.into(),
            make: Arc::new(move |url| make(url).map_err(Into::into)),
        });
        self
    }

    /// Adds an extension that is created in the database, such as `pg_trgm`.
    pub fn extension(mut self, name: &str) -> Self {
        self.schema.add_extension(name);
        self
    }

    /// Enables logical decoding: `wal_level = logical`.
    pub fn logical_replication(self) -> Self {
        self.setting("wal_level", "logical")
    }

    /// Also listens on a free port of 127.0.0.1, with a random password, for clients that need a
    /// host. See [`Postgres::tcp_url`].
    pub fn tcp(mut self) -> Self {
        self.listen = Listen::Tcp;
        self
    }

    /// Restores an archive that [`Postgres::archive`] wrote, in a separate server. A folder given
    /// to [`path`](Self::path) must be new.
    pub fn restore(mut self, archive: impl Into<PathBuf>) -> Self {
        self.archive = Some(archive.into());
        self.fresh_cluster()
    }

    /// Sets how many temporary databases of this kind may be prepared in advance, so that the next
    /// ones are handed out at once: four by default, none with 0. The number begins with one and
    /// doubles when none is left.
    pub fn prewarm(mut self, count_max: usize) -> Self {
        self.prewarm_count_max = count_max;
        self
    }

    /// Sets the receiver of progress reports.
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Starts the server if needed, and creates the database.
    ///
    /// # Errors
    ///
    /// If no PostgreSQL is found and none can be downloaded, if the server does not start (the
    /// error quotes its log), if a folder belongs to another owner or another major version, and if
    /// the server refuses the SQL (the error names file and line).
    pub fn start(mut self) -> Result<Postgres> {
        for folder in std::mem::take(&mut self.migrations) {
            self.schema.add_migrations(&folder)?;
        }
        if self.schema.owner == DatabaseOwner::Role && self.location != Location::Shared {
            return Err(Error::owner_role_of_own_server());
        }
        let folder = match &self.location {
            Location::Shared => return self.start_shared(),
            Location::Fresh => return self.start_fresh(),
            Location::Folder(folder) => folder.clone(),
            Location::App(name) => app_folder(name)?,
        };
        let opened = self.open_folder(&folder, OpenMode::Attached)?;
        let lease = Lease {
            cluster: opened.cluster,
            lifetime: Lifetime::Databases,
        };
        Ok(Postgres::new(
            Arc::new(lease),
            opened.user,
            opened.database,
            Scope::Folder,
        ))
    }

    /// Opens a persistent folder, which is created if necessary.
    pub(crate) fn open_folder(
        &self,
        folder: &Path,
        purpose: OpenMode,
    ) -> Result<persistent::Opened> {
        preflight::check()?;
        check_settings(&self.settings)?;
        let options = FolderOptions {
            requirement: self.requirement,
            user: self.user.as_deref(),
            database: self.database.as_deref(),
            settings: self.lasting_settings(),
            listen: self.listen,
            is_durable: !self.relaxed,
            purpose,
            schema: &self.schema,
            archive: self.archive(),
            progress: &self.progress,
        };
        persistent::open(folder, &options)
    }

    /// The settings of a server with persistent data.
    fn lasting_settings(&self) -> Vec<(String, String)> {
        let relaxed = RELAXED.iter().filter(|_| self.relaxed);
        let relaxed = relaxed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        relaxed.chain(self.settings.iter().cloned()).collect()
    }

    /// An option that a running server does not have.
    pub(crate) fn find_mismatch(
        &self,
        version: Version,
        settings: &[(String, String)],
    ) -> Option<String> {
        if !self.requirement.accepts(version) {
            return Some(format!("PostgreSQL {}", self.requirement));
        }
        let mut wanted = self.lasting_settings().into_iter();
        let (name, value) = wanted.find(|wanted| !settings.contains(wanted))?;
        Some(format!("`{name} = {value}`"))
    }

    /// The archive that a new cluster is restored from.
    pub(crate) fn archive(&self) -> Option<&Path> {
        self.archive.as_deref()
    }

    fn start_shared(self) -> Result<Postgres> {
        let setup = self.setup()?;
        let cluster = temporary::shared(&setup, &self.options())?;
        let template = cluster.template_of(&self.schema)?;
        let kind = DatabaseKind {
            template,
            owner: self.schema.owner,
        };
        let database = cluster.take_database(&kind, self.prewarm_count_max)?;
        cluster.wait_for_sweep();
        cluster.queue_job(JanitorJob::CleanUp {
            clean_up: Box::new(move || setup.clean_up()),
        });
        let lease = Lease {
            cluster,
            lifetime: Lifetime::Process,
        };
        Ok(Postgres::new(
            Arc::new(lease),
            match kind.owner {
                DatabaseOwner::Superuser => USER.to_owned(),
                DatabaseOwner::Role => database.clone(),
            },
            database,
            Scope::Value,
        ))
    }

    fn start_fresh(self) -> Result<Postgres> {
        let setup = self.setup()?;
        let contents = match &self.archive {
            None => Contents::New,
            Some(_) => Contents::Existing,
        };
        let (cluster, manifest) = match &self.archive {
            None => (temporary::fresh(&setup, &self.options())?, None),
            Some(archive) => {
                let (cluster, manifest) = temporary::restored(&setup, &self.options(), archive)?;
                (cluster, Some(manifest))
            }
        };
        let lease = Arc::new(Lease {
            cluster,
            lifetime: Lifetime::Databases,
        });
        let cluster = &lease.cluster;
        let restored = manifest.map(|manifest| (manifest.user, manifest.database));
        let (user, database) = restored.unwrap_or_else(|| (USER.to_owned(), cluster.new_name()));
        let (user, database) = (self.user.unwrap_or(user), self.database.unwrap_or(database));
        prepare(cluster, &user, &database, &self.schema, contents)?;
        cluster.queue_job(JanitorJob::CleanUp {
            clean_up: Box::new(move || setup.clean_up()),
        });
        Ok(Postgres::new(
            Arc::clone(&lease),
            user,
            database,
            Scope::Value,
        ))
    }

    fn setup(&self) -> Result<Setup> {
        check_settings(&self.settings)?;
        let requirement = archive::requirement_of(self.archive(), self.requirement)?;
        let setup = Setup::find(requirement, &self.progress)?;
        match self.archive {
            None if self.schema.has_initializers() => setup.prepared(&self.schema, &self.options()),
            // The shared server itself keeps a template database of each schema.
            None if self.location == Location::Fresh => {
                Ok(setup.with_extensions(&self.schema, &self.options()))
            }
            _ => Ok(setup),
        }
    }

    fn options(&self) -> ClusterOptions {
        ClusterOptions {
            listen: self.listen,
            settings: self.settings.clone(),
        }
    }
}

fn app_folder(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(Error::bad_app_name(name));
    }
    let data = match env::var_os("XDG_DATA_HOME").filter(|folder| Path::new(folder).is_absolute()) {
        Some(folder) => PathBuf::from(folder),
        None => env::home_dir()
            .ok_or_else(Error::no_home)?
            .join(".local/share"),
    };
    Ok(data.join(name).join("postgres"))
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("requirement", &self.requirement)
            .field("home", &self.location)
            .finish_non_exhaustive()
    }
}
