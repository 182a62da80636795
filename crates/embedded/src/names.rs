//! Names of databases, and of the superuser, in every cluster.

/// The superuser of every cluster.
pub(crate) const USER: &str = "postgres";

/// The database whose copies are handed out.
pub(crate) const BLANK: &str = "template_lookaside";

/// The database that a new cluster hands out first, under another name.
pub(crate) const FIRST: &str = "first_lookaside";

/// The database in which we ourselves are connected.
pub(crate) const HOME: &str = "postgres";
