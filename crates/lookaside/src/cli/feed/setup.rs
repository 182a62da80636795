//! `lookaside feed setup`: creates what a change feed needs, with the least rights.

use std::collections::BTreeSet;
use std::io;

use clap::Args;

use super::ServerArguments;
use super::lookups::{FeedLookup, feed_lookups, tables, tables_with_other_keys};
use super::provider::FeedProvider;
use super::record::Record;
use super::requirements::{Observed, Requirement, requirements, server_requirements};
use super::script::{Script, Step, write_comment};
use super::server::{FeedServer, Identity, PublicationFacts, ServerFacts, TableFacts, literal};
use crate::cli::output::{printable, write_stdout};
use crate::failure::{CommandResult, Exit, Failure};
use crate::project::Project;

/// What the replica identity `full` costs.
const FULL_COST: &str =
    "the log then contains the whole old row of each update and delete of this table";

/// Create the publication and grant the rights that a change feed needs
///
/// Reads the lookups and models of the project, and creates the publication (`feed_publication`,
/// `lookaside` by default) for exactly the tables that they read at the provider, or adds those that
/// it does not contain. Gives the user of the feed the right to replicate if it has not. All
/// statements are run in one transaction and printed, and a comment on the publication records them
/// for `lookaside feed drop`. Settings of the server are not changed: what else is missing is printed,
/// with the command that adds it, and the exit code is then 1.
///
/// A table without a primary key or another replica identity is left out, because the server would
/// refuse updates and deletes of such a table once it is published.
#[derive(Debug, Args)]
#[command(after_help = "\
Rights:
  The publication needs the owner of each table with CREATE on the database, or a superuser.
  The right to replicate needs a superuser.
A user who has not all of them changes nothing, and gets the statements for an administrator.")]
pub(super) struct SetupArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// Write the SQL for a database administrator instead of running it; each statement is marked
    /// with the right that it needs
    #[arg(long)]
    print: bool,

    /// Set the replica identity `full` where it is needed: for tables without another one, and where a
    /// lookup's key is not in it. The server's log then contains the whole old row of each update and
    /// delete of these tables
    #[arg(long)]
    identity_full: bool,
}

/// What is to be done.
struct SetupPlan {
    script: Script,
    /// Tables that must not be published, with the reason.
    left_out: Vec<Requirement>,
}

pub(super) fn run(arguments: &SetupArguments) -> CommandResult {
    let project = Project::open(&arguments.server.dir)?;
    let provider = FeedProvider::choose(&project.config, arguments.server.provider.as_deref())?;
    let lookups = feed_lookups(&project, &provider)?;
    let mut server = FeedServer::connect(&provider, arguments.server.url.as_deref())?;
    let facts = server.facts(&provider)?;
    check_server(&facts)?;
    let name = provider.publication();
    let publication = server.publication(name)?;
    let read = server.tables(tables(&lookups), name)?;
    let plan = SetupPlan::new(
        &provider,
        &facts,
        publication.as_ref(),
        &read,
        &lookups,
        arguments.identity_full,
    )?;
    if arguments.print {
        let observed = Observed {
            facts: &facts,
            publication: publication.as_ref(),
            tables: &read,
            slots: &[],
        };
        let others = server_requirements(&provider, observed).into_iter();
        let others: Vec<Requirement> = others.filter(Requirement::is_missing).collect();
        write_stdout(|out| {
            plan.write_sql(&provider, &facts, &others, out)?;
            write_next(&project, &provider, "-- ", out)
        })?;
        return Ok(Exit::Done);
    }
    plan.script.run(&mut server)?;
    write_stdout(|out| plan.write_done(&provider, &facts, out))?;

    let facts = server.facts(&provider)?;
    let publication = server.publication(name)?;
    let read = server.tables(tables(&lookups), name)?;
    let slots = server.slots()?;
    let left = requirements(
        &provider,
        Observed {
            facts: &facts,
            publication: publication.as_ref(),
            tables: &read,
            slots: &slots,
        },
    );
    let missing: Vec<&Requirement> = left.iter().filter(|it| it.is_missing()).collect();
    write_stdout(|out| {
        missing.iter().try_for_each(|it| it.write(out))?;
        write_next(&project, &provider, "", out)
    })?;
    Ok(match missing.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// Refuses a server on which nothing can be set up.
fn check_server(facts: &ServerFacts) -> Result<(), Failure> {
    if facts.is_standby {
        let failure = Failure::new("the server is a standby, which cannot be changed");
        return Err(failure.with_help("pass --url with the URL of the primary"));
    }
    Ok(())
}

/// The line that turns the feed on, if the configuration lacks it.
fn write_next(
    project: &Project,
    provider: &FeedProvider<'_>,
    prefix: &str,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    if provider.is_on() {
        return Ok(());
    }
    let (file, line) = (project.config.file.display(), provider.config.line);
    writeln!(
        out,
        "{prefix}next: add `feed = \"auto\"` to the section of the provider {}, {file}:{line}",
        provider.name()
    )
}

impl SetupPlan {
    fn new(
        provider: &FeedProvider<'_>,
        facts: &ServerFacts,
        publication: Option<&PublicationFacts>,
        read: &[TableFacts],
        lookups: &[FeedLookup],
        identity_full: bool,
    ) -> Result<Self, Failure> {
        let name = &facts.publication_sql;
        if publication.is_some_and(|it| !it.has_all_kinds) {
            return Err(Failure::new(format!(
                "the publication {name} leaves out kinds of changes"
            ))
            .with_help(format!(
                "`alter publication {name} set (publish = 'insert, update, delete, truncate')`, or \
                 set feed_publication to another name"
            )));
        }
        let with_other_keys = tables_with_other_keys(lookups);
        let mut left_out = Vec::new();
        let mut to_add = Vec::new();
        let mut to_change = Vec::new();
        for table in read {
            let needs_full = !table.has_identity()
                || with_other_keys.contains(table.wanted.as_str())
                    && table.identity() != Identity::Full;
            let is_full = identity_full && needs_full && table.full_problem().is_none();
            if table.is_partial {
                left_out.push(Requirement::note(
                    format!(
                        "the publication {name} leaves out rows or columns of {}",
                        table.name
                    ),
                    format!(
                        "`alter publication {name} drop table {}`, then run this again",
                        table.name
                    ),
                ));
                continue;
            }
            if table.refuses_updates() && !table.is_published {
                let (problem, help) = table.unpublished_identity(name);
                left_out.push(left_out_table(table, &problem, help));
                continue;
            }
            if !table.has_identity() && !is_full {
                left_out.push(without_identity(table));
                continue;
            }
            if is_full {
                to_change.push(table);
            }
            if !table.is_published {
                to_add.push(table);
            }
        }
        if publication.is_none() && to_add.is_empty() {
            return Err(nothing_to_publish(provider, lookups, &left_out));
        }
        let mut record = match publication {
            None => Record::new(true, None),
            Some(found) => {
                let comment = found.comment.as_deref();
                let known = comment.map(Record::read).transpose()?.flatten();
                known.unwrap_or_else(|| Record::new(false, found.comment.clone()))
            }
        };
        let mut script = Script::default();
        change_identities(&to_change, &mut script, &mut record);
        publish(&to_add, facts, publication, &mut script, &mut record);
        grant(provider, facts, &mut script, &mut record);
        if !script.is_empty() {
            script.add(
                format!(
                    "comment on publication {name} is {}",
                    literal(&record.comment_text())
                ),
                "the owner of the publication",
            );
        }
        Ok(Self { script, left_out })
    }

    /// Tells what was done.
    fn write_done(
        &self,
        provider: &FeedProvider<'_>,
        facts: &ServerFacts,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (name, database) = (&facts.publication_sql, &facts.database);
        writeln!(
            out,
            "provider {}: publication {name} in the database {database}",
            provider.name()
        )?;
        if self.script.is_empty() {
            writeln!(out, "  nothing to change")?;
        }
        for Step { sql, cost, .. } in &self.script.steps {
            writeln!(out, "  done: {}", printable(sql))?;
            if let Some(cost) = cost {
                writeln!(out, "    cost: {cost}")?;
            }
        }
        self.left_out.iter().try_for_each(|it| it.write(out))
    }

    /// Writes the statements for an administrator.
    fn write_sql(
        &self,
        provider: &FeedProvider<'_>,
        facts: &ServerFacts,
        others: &[Requirement],
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (name, database) = (provider.name(), &facts.database);
        let title =
            format!("The change feed of the provider {name}: run this in the database {database}.");
        write_comment(out, &title)?;
        writeln!(out, "-- `lookaside feed drop` undoes it.")?;
        for Requirement { text, help, .. } in others.iter().chain(&self.left_out) {
            write_comment(out, &format!("not in this script: {text}"))?;
            if let Some(help) = help {
                write_comment(out, &format!("  {help}"))?;
            }
        }
        writeln!(out)?;
        self.script.write(out)
    }
}

/// A table that is not published, because it has no replica identity.
fn without_identity(table: &TableFacts) -> Requirement {
    let (problem, help) = table.identity_problem();
    let help = match table.full_problem() {
        None => format!("{help}, or pass --identity-full: {FULL_COST}"),
        Some(_) => help,
    };
    left_out_table(table, problem, help)
}

/// A table that is not published.
fn left_out_table(table: &TableFacts, problem: &str, help: String) -> Requirement {
    let name = &table.name;
    Requirement::note(
        format!(
            "{name} is left out: {problem}, so the server would refuse updates and deletes of a \
             published {name}"
        ),
        help,
    )
}

/// The error if there is no table for a publication.
fn nothing_to_publish(
    provider: &FeedProvider<'_>,
    lookups: &[FeedLookup],
    left_out: &[Requirement],
) -> Failure {
    let name = provider.name();
    let mut lines = Vec::new();
    left_out
        .iter()
        .try_for_each(|it| it.write(&mut lines))
        .expect("memory can be written");
    let mut excerpt = String::from_utf8_lossy(&lines).into_owned();
    for FeedLookup { place, dependency } in lookups {
        excerpt.push_str(&format!("  {place}: {dependency}\n"));
    }
    match lookups.is_empty() {
        true => Failure::new(format!(
            "no lookup of the project is answered by the provider {name}, so there is no table to \
             publish"
        ))
        .with_help("write the lookups first, in [lookups] or a model"),
        false => Failure::new(format!(
            "no lookup of the provider {name} reads a table that can be published"
        ))
        .with_excerpt(excerpt)
        .with_help("their answers have their age only; set ttl_ms for these lookups"),
    }
}

fn change_identities(tables: &[&TableFacts], script: &mut Script, record: &mut Record) {
    for table in tables {
        let TableFacts { name, owner, .. } = table;
        script.steps.push(Step {
            sql: format!("alter table {name} replica identity full"),
            needs: format!("the owner of {name} ({owner})"),
            cost: Some(FULL_COST),
        });
        record.identities.push((name.clone(), table.identity()));
    }
}

fn publish(
    tables: &[&TableFacts],
    facts: &ServerFacts,
    publication: Option<&PublicationFacts>,
    script: &mut Script,
    record: &mut Record,
) {
    if tables.is_empty() {
        return;
    }
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    let owners: BTreeSet<&str> = tables.iter().map(|table| table.owner.as_str()).collect();
    let owners: Vec<&str> = owners.into_iter().collect();
    let (name, list, owners) = (&facts.publication_sql, names.join(", "), owners.join(", "));
    match publication {
        None => script.add(
            format!("create publication {name} for table {list}"),
            format!(
                "CREATE on the database {}, and the owner of each table ({owners})",
                facts.database_sql
            ),
        ),
        Some(publication) => script.add(
            format!("alter publication {name} add table {list}"),
            format!(
                "the owner of the publication ({}), and of each table ({owners})",
                publication.owner
            ),
        ),
    }
    let names = tables.iter().map(|table| table.name.clone());
    record.tables.extend(names);
}

fn grant(
    provider: &FeedProvider<'_>,
    facts: &ServerFacts,
    script: &mut Script,
    record: &mut Record,
) {
    if !facts.has_role {
        return;
    }
    let (role, role_sql) = (provider.role(), &facts.role_sql);
    if !facts.may_connect {
        let database = &facts.database_sql;
        script.add(
            format!("grant connect on database {database} to {role_sql}"),
            "the owner of the database",
        );
        record.connect.push(role.to_owned());
    }
    if !facts.may_replicate {
        script.add(format!("alter role {role_sql} replication"), "a superuser");
        record.replication.push(role.to_owned());
    }
}
