//! Names of databases, and of the superuser, in every cluster.

/// The superuser of every cluster.
pub(crate) const USER: &str = "postgres";

/// The database that temporary databases are copies of.
pub(crate) const TEMPLATE_DATABASE: &str = "template_lookaside";

/// The database that a new cluster hands out first, under another name.
pub(crate) const FIRST_DATABASE: &str = "first_lookaside";

/// The database that this crate itself connects to.
pub(crate) const ADMIN_DATABASE: &str = "postgres";
