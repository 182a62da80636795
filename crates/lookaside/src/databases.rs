//! The PostgreSQL databases of providers of `kind = "embedded"`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lookaside_embedded::{Postgres, Progress};
use lookaside_knowledge::{ProviderConfig, ProviderServer, ResolveError};

/// Creates the databases of embedded providers, for
/// [`Builder::embedded`](lookaside_knowledge::Builder::embedded): a temporary database for each, on
/// a server that is started or shared when the first one is requested. The databases are dropped
/// together with the function.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use lookaside::knowledge::Knowledge;
///
/// let knowledge = Knowledge::builder("my-project")
///     .embedded(lookaside::embedded_databases(Arc::new(())))
///     .open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn embedded_databases(
    progress: Arc<dyn Progress>,
) -> impl Fn(&ProviderConfig) -> Result<String, ResolveError> + Send + Sync + 'static {
    let running: Mutex<HashMap<String, Running>> = Mutex::default();
    move |provider| {
        let ProviderServer::Embedded {
            version,
            extensions,
            ..
        } = &provider.server
        else {
            return Err(format!("provider `{}` is not embedded", provider.name).into());
        };
        let options = (version.clone(), extensions.clone());
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = running.get(&provider.name)
            && known.options == options
            // A server that was killed is replaced at the next load.
            && known.database.execute("select 1").is_ok()
        {
            return Ok(known.database.url());
        }
        let mut builder = Postgres::builder().progress(Arc::clone(&progress));
        if let Some(version) = version {
            builder = builder.version(version.parse()?);
        }
        for name in extensions {
            builder = builder.extension(name);
        }
        let database = builder.start()?;
        let url = database.url();
        running.insert(provider.name.clone(), Running { options, database });
        Ok(url)
    }
}

/// A database, and the options it was created with.
struct Running {
    options: (Option<String>, Vec<String>),
    database: Postgres,
}
