//! The initial contents of a database: extensions, SQL and migrations.

use std::fs;
use std::path::Path;

use crate::admin::{Connection, Failure, identifier, literal};
use crate::cluster::{Cluster, DatabaseOwner, lock, set_role};
use crate::initializer::Initializer;
use crate::names::{TEMPLATE_DATABASE, USER};
use crate::{Error, Result, digest};

/// Statements to run in a new database, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    steps: Vec<Step>,
    /// The caller's code, which runs after the steps.
    initializers: Vec<Initializer>,
    /// The owner of all objects.
    pub(crate) owner: DatabaseOwner,
}

#[derive(Clone, Debug)]
struct Step {
    /// Its name in errors: a file, an extension, or the caller's SQL.
    label: String,
    sql: String,
}

impl Step {
    /// SQL that `pg_dump` wrote may have two commands to psql: the first and the last line that are
    /// not comments. They are replaced by blanks, so that positions stay the same.
    fn new(label: String, mut sql: String) -> Self {
        let restrict = outer_line(sql.split_inclusive('\n'), "\\restrict ");
        let unrestrict = outer_line(sql.split_inclusive('\n').rev(), "\\unrestrict ");
        let (Some((begin, length)), Some((end, end_length))) = (restrict, unrestrict) else {
            return Self { label, sql };
        };
        let end = sql.len() - end - end_length;
        for (at, length) in [(begin, length), (end, end_length)] {
            let line = &sql[at..at + length];
            let count = line.trim_end().chars().count();
            let blank = " ".repeat(count) + &line[line.trim_end().len()..];
            sql.replace_range(at..at + length, &blank);
        }
        // Such a file clears `search_path`, which the next step must not inherit.
        sql.push_str("\nRESET ALL;\n");
        Self { label, sql }
    }

    fn is_extension(&self) -> bool {
        self.label.starts_with("extension")
    }
}

impl Schema {
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.initializers.is_empty()
    }

    /// Whether it includes the caller's code.
    pub(crate) fn has_initializers(&self) -> bool {
        !self.initializers.is_empty()
    }

    /// The part that is the same for all schemas with these extensions.
    pub(crate) fn extensions(&self) -> Self {
        self.with_steps(Step::is_extension)
    }

    /// The rest after [`extensions`](Self::extensions).
    pub(crate) fn after_extensions(&self) -> Self {
        Self {
            initializers: self.initializers.clone(),
            ..self.with_steps(|step| !step.is_extension())
        }
    }

    fn with_steps(&self, is_wanted: impl Fn(&Step) -> bool) -> Self {
        let steps = self.steps.iter().filter(|step| is_wanted(step));
        Self {
            steps: steps.cloned().collect(),
            initializers: Vec::new(),
            owner: self.owner,
        }
    }

    /// Its name in errors: that of the last step. `None` for extensions only, which were tried when
    /// they were added.
    pub(crate) fn label(&self) -> Option<String> {
        let steps = self.steps.iter().filter(|step| !step.is_extension());
        let steps = steps.map(|step| step.label.clone());
        let initializers = self
            .initializers
            .iter()
            .map(|initializer| format!("`{}`", initializer.key));
        steps.chain(initializers).last()
    }

    pub(crate) fn add_initializer(&mut self, initializer: Initializer) {
        self.initializers.push(initializer);
    }

    pub(crate) fn add_sql(&mut self, sql: &str) {
        self.add("the initial SQL".to_owned(), sql.to_owned());
    }

    pub(crate) fn add_extension(&mut self, name: &str) {
        let sql = format!(
            "CREATE EXTENSION IF NOT EXISTS {} CASCADE",
            identifier(name)
        );
        // Before everything else: SQL and migrations may use it.
        let place = self
            .steps
            .iter()
            .take_while(|step| step.is_extension())
            .count();
        self.steps.insert(
            place,
            Step {
                label: format!("extension `{name}`"),
                sql,
            },
        );
    }

    /// Adds the `.sql` files of a folder in the order of the numbers that their names begin with,
    /// as in sqlx, then of the names; `….down.sql` revert others and are skipped.
    pub(crate) fn add_migrations(&mut self, folder: &Path) -> Result<()> {
        let failed = |error| Error::file("read the migrations in", folder, error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".sql") && !name.ends_with(".down.sql") {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(Error::no_migrations(folder));
        }
        paths.sort_by_cached_key(|path| (number_of(path).unwrap_or(u64::MAX), path.clone()));
        for path in paths {
            let sql =
                fs::read_to_string(&path).map_err(|error| Error::file("read", &path, error))?;
            self.add(format!("`{}`", path.display()), sql);
        }
        Ok(())
    }

    fn add(&mut self, label: String, sql: String) {
        self.steps.push(Step::new(label, sql));
    }

    /// A digest of the whole schema.
    pub(crate) fn digest(&self) -> String {
        let mut text = match self.owner {
            DatabaseOwner::Superuser => String::new(),
            DatabaseOwner::Role => "of a role\0".to_owned(),
        };
        for step in &self.steps {
            text.extend([&*step.label, "\0", &step.sql, "\0"]);
        }
        for initializer in &self.initializers {
            text.extend(["made by the caller\0", &initializer.key, "\0"]);
        }
        digest::of(text.as_bytes())
    }

    /// The name of the template database of this schema in a cluster.
    pub(crate) fn template_name(&self) -> String {
        format!("template_{}", self.digest())
    }

    /// Runs the whole schema in a database. Extensions are created by the superuser, and the rest
    /// by the database's role if it has one.
    pub(crate) fn apply(&self, cluster: &Cluster, database: &str) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.run_steps(cluster, database)?;
        let mut initializers = self.initializers.iter();
        initializers.try_for_each(|initializer| initializer.run(cluster, database))
    }

    fn run_steps(&self, cluster: &Cluster, database: &str) -> Result<()> {
        let mut session = cluster.open(database, "applying the schema")?;
        let mut acts_for_role = false;
        for step in &self.steps {
            if self.owner == DatabaseOwner::Role && !acts_for_role && !step.is_extension() {
                acts_for_role = true;
                set_role(&mut session, database)
                    .map_err(|failure| cluster.explain(failure, "applying the schema"))?;
            }
            session
                .execute(&step.sql)
                .map_err(|failure| match failure {
                    Failure::Refused(refusal) => Error::schema_refused(
                        &step.label,
                        refusal.position.map(|at| line_of(&step.sql, at)),
                        &refusal,
                    ),
                    lost => cluster.explain(lost, &format!("applying {}", step.label)),
                })?;
        }
        Ok(())
    }
}

/// The offset and the size of the first line that is neither empty nor a comment, if it begins with
/// `start`.
fn outer_line<'a>(lines: impl Iterator<Item = &'a str>, start: &str) -> Option<(usize, usize)> {
    let mut before = 0;
    for line in lines {
        if line.starts_with(start) {
            return Some((before, line.len()));
        }
        if !line.trim().is_empty() && !line.starts_with("--") {
            return None;
        }
        before += line.len();
    }
    None
}

/// The number at the beginning of a migration's name.
fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let end = name.find(|char: char| !char.is_ascii_digit())?;
    name[..end].parse().ok()
}

/// The line, from 1, of a position in characters, from 1.
fn line_of(sql: &str, position: usize) -> usize {
    1 + sql
        .chars()
        .take(position.saturating_sub(1))
        .filter(|char| *char == '\n')
        .count()
}

impl Cluster {
    /// Returns the template database of a schema, which is created on first use by one of the
    /// processes that share the cluster.
    pub(crate) fn template_of(&self, schema: &Schema) -> Result<String> {
        if schema.is_empty() {
            return Ok(TEMPLATE_DATABASE.to_owned());
        }
        let template = schema.template_name();
        if lock(&self.templates).contains(&template) {
            return Ok(template);
        }
        let doing = "preparing the schema";
        let mut session = self.open("postgres", doing)?;
        let mut ask = |sql: &str| {
            session
                .query(sql)
                .map_err(|failure| self.explain(failure, doing))
        };
        // Held until the session ends, in any case.
        ask(&format!(
            "SELECT pg_advisory_lock(hashtextextended({}, 0))",
            literal(&template)
        ))?;
        let found = ask(&format!(
            "SELECT 1 FROM pg_database WHERE datname = {}",
            literal(&template)
        ))?;
        if found.is_empty() {
            // A name that no other process uses, and that is swept if this process dies.
            let making = self.new_name();
            let made = self.make_template(schema, &making, &template, &mut session);
            if let Err(error) = made {
                let _ = self.drop_database(&making);
                if schema.owner == DatabaseOwner::Role {
                    let _ = self.drop_role(&making);
                }
                return Err(error);
            }
        }
        lock(&self.templates).push(template.clone());
        Ok(template)
    }

    fn make_template(
        &self,
        schema: &Schema,
        making: &str,
        template: &str,
        session: &mut Connection,
    ) -> Result<()> {
        match schema.owner {
            DatabaseOwner::Superuser => self.copy_database(TEMPLATE_DATABASE, making, USER)?,
            DatabaseOwner::Role => {
                self.create_role(making)?;
                self.copy_database(TEMPLATE_DATABASE, making, making)?;
            }
        }
        schema.apply(self, making)?;
        self.allow_connections(making, false)?;
        match schema.owner {
            DatabaseOwner::Superuser => self.name_database(making, template, session),
            DatabaseOwner::Role => {
                self.wait_until_unused(making, session)?;
                self.name_with_role(making, template)
            }
        }
    }

    /// Renames a new database to its final name; `session` is in another database.
    pub(crate) fn name_database(
        &self,
        making: &str,
        name: &str,
        session: &mut Connection,
    ) -> Result<()> {
        self.wait_until_unused(making, session)?;
        let (making, name) = (identifier(making), identifier(name));
        self.query(
            "naming a database",
            &format!("ALTER DATABASE {making} RENAME TO {name}"),
        )?;
        Ok(())
    }

    /// Renames the template that came with the cluster to a database that is handed out.
    pub(crate) fn take_template(&self, template: &str, name: &str, owner: &str) -> Result<()> {
        let [template, name, owner] = [template, name, owner].map(identifier);
        let sql = format!(
            "ALTER DATABASE {template} RENAME TO {name}; \
             ALTER DATABASE {name} ALLOW_CONNECTIONS true; \
             ALTER DATABASE {name} OWNER TO {owner}"
        );
        self.query("naming a database", &sql).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_becomes_a_line() {
        for (position, line) in [(0, 1), (1, 1), (3, 1), (4, 2), (6, 3), (99, 3)] {
            assert_eq!(line_of("é;\nb\nc", position), line, "{position}");
        }
    }

    #[test]
    fn commands_to_psql_around_a_dump_become_blanks() {
        let dump = "--\n-- é\n--\n\n\\restrict aB9\n\nSET x = 1;\n-- end\n\\unrestrict aB9\n\n";
        let step = Step::new("a dump".to_owned(), dump.to_owned());
        let blank = "--\n-- é\n--\n\n             \n\nSET x = 1;\n-- end\n               \n\n";
        assert_eq!(step.sql, format!("{blank}\nRESET ALL;\n"));
        for sql in [
            "SELECT 1;\n\\restrict a\n\\unrestrict a\n",
            "\\restrict a\nSELECT 1;\n",
            "\\restrict a\n\\unrestrict a\nSELECT 1;\n",
            "",
        ] {
            assert_eq!(Step::new("SQL".to_owned(), sql.to_owned()).sql, sql);
        }
    }

    #[test]
    fn migrations_come_in_the_order_of_their_numbers_and_extensions_first() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "10_c.sql",
            "2_b.sql",
            "0001_a.up.sql",
            "0001_a.down.sql",
            "20260101000000_d.sql",
            "notes.md",
            "later.sql",
        ];
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let mut schema = Schema::default();
        schema.add_migrations(folder.path()).unwrap();
        schema.add_extension("b");
        schema.add_extension("a");
        let labels: Vec<&str> = schema
            .steps
            .iter()
            .map(|step| step.label.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(
            labels,
            [
                "extension `b`",
                "extension `a`",
                "0001_a.up.sql`",
                "2_b.sql`",
                "10_c.sql`",
                "20260101000000_d.sql`",
                "later.sql`"
            ]
        );
        for name in names.iter().filter(|name| !name.contains("down")) {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        assert!(Schema::default().add_migrations(folder.path()).is_err());
    }
}
