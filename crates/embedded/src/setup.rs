//! What every start needs: programs, identity, cache, place and template.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::added;
use crate::binaries::{Binaries, Progress};
use crate::cache::Cache;
use crate::cluster::lock;
use crate::cluster_folder;
use crate::cluster_options::Wishes;
use crate::identity::Identity;
use crate::preflight;
use crate::runtime_dir::Place;
use crate::schema::Schema;
use crate::template::{Makers, Preparation, Template};
use crate::verify::Verify;
use crate::{Result, VersionRequirement};

/// All that was found before a cluster is made.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) binaries: Binaries,
    pub(crate) identity: &'static Identity,
    cache: Cache,
    pub(crate) place: Place,
    pub(crate) template: Template,
    progress: Arc<dyn Progress>,
    verify: Verify,
}

impl Setup {
    /// What this process found before for the same wish, as long as it is there; else it looks, and
    /// makes what is missing. Looking costs 0.25 ms, of 3 ms for a database that stands ready.
    pub(crate) fn find(
        requirement: VersionRequirement,
        progress: &Arc<dyn Progress>,
    ) -> Result<Self> {
        static FOUND: Mutex<Vec<(VersionRequirement, Setup)>> = Mutex::new(Vec::new());
        let known = lock(&FOUND)
            .iter()
            .find(|(wish, setup)| *wish == requirement && setup.stands())
            .map(|(_, setup)| setup.clone());
        if let Some(setup) = known {
            return Ok(setup.with_progress(Arc::clone(progress)));
        }
        let setup = Self::look(requirement, progress)?;
        let mut found = lock(&FOUND);
        found.retain(|(wish, _)| *wish != requirement);
        // Not to keep the caller's value for ever.
        found.push((requirement, setup.clone().with_progress(Arc::new(()))));
        Ok(setup)
    }

    fn with_progress(self, progress: Arc<dyn Progress>) -> Self {
        Self { progress, ..self }
    }

    fn stands(&self) -> bool {
        self.binaries.postgres().exists() && self.template.stands() && self.place.folder.exists()
    }

    fn look(requirement: VersionRequirement, progress: &Arc<dyn Progress>) -> Result<Self> {
        preflight::check()?;
        let identity = Identity::current()?;
        let binaries = Binaries::find(requirement, &**progress)?;
        identity.check_reach(&binaries.postgres())?;
        let cache = Cache::open()?;
        let place = Place::find(identity)?;
        let verify = Verify::of_process()?;
        let template = Template::find(Makers {
            binaries: &binaries,
            identity,
            cache: &cache,
            place: &place,
            progress: &**progress,
            verify,
        })?;
        Ok(Self {
            binaries,
            identity,
            cache,
            place,
            template,
            progress: Arc::clone(progress),
            verify,
        })
    }

    /// As this, but clusters begin with a database that the caller's own code has filled.
    pub(crate) fn prepared(self, schema: &Schema, wishes: &Wishes) -> Result<Self> {
        let stamp = self.extension_stamp(schema).unwrap_or_default();
        self.prepared_for(schema, wishes, stamp)
    }

    /// As this, but clusters begin with a database that has the schema's extensions, where it has some
    /// and it is known when their files change.
    pub(crate) fn with_extensions(self, schema: &Schema, wishes: &Wishes) -> Self {
        let Some(stamp) = self.extension_stamp(schema) else {
            return self;
        };
        // Where that fails, as in a cache that cannot be written to, each cluster creates them.
        let prepared = self
            .clone()
            .prepared_for(&schema.extensions(), wishes, stamp);
        prepared.unwrap_or(self)
    }

    /// Of the files of the server's extensions; `None` if the schema has none, or if it is not known when
    /// they change.
    fn extension_stamp(&self, schema: &Schema) -> Option<String> {
        match schema.extensions().is_empty() {
            true => None,
            false => added::stamp(self.binaries.folder()),
        }
    }

    fn prepared_for(mut self, schema: &Schema, wishes: &Wishes, stamp: String) -> Result<Self> {
        let preparation = Preparation::new(&self.template, schema, wishes, stamp);
        self.template = Template::prepare(preparation, self.makers())?;
        Ok(self)
    }

    pub(crate) fn makers(&self) -> Makers<'_> {
        Makers {
            binaries: &self.binaries,
            identity: self.identity,
            cache: &self.cache,
            place: &self.place,
            progress: &*self.progress,
            verify: self.verify,
        }
    }

    /// Removes what the dead left, and lays a spare copy for the next cluster. In this order: a
    /// process that ends in the middle of its copy leaves it to the next one, which may live as short.
    pub(crate) fn tidy(&self) {
        cluster_folder::sweep(&self.place, |key| Template::is_in(&self.cache, key));
        self.template.forget_old(&self.cache);
        // Without a spare the next start copies for itself, and gets the error.
        let _ = cluster_folder::lay_spare(&self.template, self.makers());
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("binaries", &self.binaries)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
