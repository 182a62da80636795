//! Names of databases, and of the superuser, in every cluster.

/// The superuser of every cluster.
pub(crate) const USER: &str = "postgres";

/// The database whose copies are handed out.
pub(crate) const TEMPLATE_DATABASE: &str = "template_lookaside";

/// The database that a new cluster hands out first, under another name.
pub(crate) const FIRST_DATABASE: &str = "first_lookaside";

/// The database in which we ourselves are connected.
pub(crate) const ADMIN_DATABASE: &str = "postgres";
