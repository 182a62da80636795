//! `lookaside feed drop`: undoes what `feed setup` did.

use std::io;

use clap::Args;

use super::ServerArguments;
use super::lookups::{feed_lookups, tables};
use super::provider::FeedProvider;
use super::record::Record;
use super::requirements::Requirement;
use super::script::{Script, write_comment};
use super::server::{
    FeedServer, Identity, PublicationFacts, ServerFacts, SlotFacts, TableFacts, literal, quoted,
};
use crate::cli::output::{printable, write_stdout};
use crate::failure::{CommandResult, Exit, Failure};
use crate::project::Project;

/// Undo exactly what `lookaside feed setup` did
///
/// Reads the record of `feed setup` from the comment on the publication. Drops the publication, or, if
/// it existed before, removes the added tables and restores its comment; restores the replica
/// identities that were changed; and takes back the rights that were granted to the feed's user. All
/// statements are run in one transaction and printed. What was changed since is left as it is, and
/// printed. Running feeds go on without invalidating answers.
///
/// Tables that no lookup of this project reads may have been added for another project: they stay in
/// the publication, and so do the rights, unless --all is passed. A table that two projects read is
/// removed for both: run `feed setup` of the other one again. The right to replicate also stays while a
/// feed of another database of the server is running.
#[derive(Debug, Args)]
pub(super) struct DropArguments {
    #[command(flatten)]
    server: ServerArguments,

    /// Write the SQL for a database administrator instead of running it; each statement is marked
    /// with the right that it needs
    #[arg(long)]
    print: bool,

    /// Undo what was done for other projects, too
    #[arg(long)]
    all: bool,
}

/// What is to be undone.
#[derive(Default)]
struct DropPlan {
    script: Script,
    /// What is left as it is, with the reason.
    left: Vec<Requirement>,
}

pub(super) fn run(arguments: &DropArguments) -> CommandResult {
    let project = Project::open(&arguments.server.dir)?;
    let provider = FeedProvider::choose(&project.config, arguments.server.provider.as_deref())?;
    let mut server = FeedServer::connect(&provider, arguments.server.url.as_deref())?;
    let facts = server.facts(&provider)?;
    let (name, database) = (&facts.publication_sql, &facts.database);
    let Some(publication) = server.publication(provider.publication())? else {
        write_stdout(|out| {
            let prefix = if arguments.print { "-- " } else { "" };
            writeln!(
                out,
                "{prefix}nothing to undo: the database {database} has no publication {name}"
            )
        })?;
        return Ok(Exit::Done);
    };
    let comment = publication.comment.as_deref();
    let Some(record) = comment.map(Record::read).transpose()?.flatten() else {
        let message = format!("the publication {name} has no record of `lookaside feed setup`");
        return Err(Failure::new(message).with_help(format!(
            "it was created by someone else; nothing was changed. `drop publication {name}` drops it"
        )));
    };
    let (undone, kept) = match arguments.all {
        true => (record, None),
        false => {
            let lookups = feed_lookups(&project, &provider).map_err(|failure| {
                failure.with_help(
                    "correct the lookup, or pass --all to undo what was done for all projects",
                )
            })?;
            let read = server.tables(tables(&lookups), provider.publication())?;
            let names = record.tables.iter().map(String::as_str);
            let existing = server.tables(names, provider.publication())?;
            let is_in = |tables: &[TableFacts], name: &str| tables.iter().any(|it| it.name == name);
            record.split(|name| is_in(&read, name) || !is_in(&existing, name))
        }
    };
    let plan = DropPlan::new(
        &provider,
        &facts,
        &publication,
        (&undone, kept.as_ref()),
        &mut server,
    )?;
    if arguments.print {
        write_stdout(|out| plan.write_sql(&provider, &facts, out))?;
        return Ok(Exit::Done);
    }
    plan.script.run(&mut server)?;
    write_stdout(|out| {
        writeln!(
            out,
            "provider {}: publication {name} in the database {database}",
            provider.name()
        )?;
        for step in &plan.script.steps {
            writeln!(out, "  done: {}", printable(&step.sql))?;
        }
        plan.left.iter().try_for_each(|it| it.write(out))
    })?;
    Ok(Exit::Done)
}

impl DropPlan {
    fn new(
        provider: &FeedProvider<'_>,
        facts: &ServerFacts,
        publication: &PublicationFacts,
        (record, kept): (&Record, Option<&Record>),
        server: &mut FeedServer,
    ) -> Result<Self, Failure> {
        let mut plan = Self::default();
        // First, because the server refuses updates of published tables without an identity.
        plan.withdraw(provider, facts, publication, (record, kept), server)?;
        plan.restore_identities(provider, record, server)?;
        match kept {
            None => {
                let slots = server.slots()?;
                plan.revoke(provider, facts, record, &slots);
            }
            Some(kept) => plan.left.push(Requirement::note(
                format!(
                    "{} may have been published for other projects: no lookup of this one reads them, so \
                     they stay published, and the feed's user keeps its rights",
                    kept.tables.join(", ")
                ),
                "`lookaside feed drop` of the other project, or `lookaside feed drop --all`",
            )),
        }
        Ok(plan)
    }

    /// Drops the publication, or takes the added tables out of it.
    fn withdraw(
        &mut self,
        provider: &FeedProvider<'_>,
        facts: &ServerFacts,
        publication: &PublicationFacts,
        (record, kept): (&Record, Option<&Record>),
        server: &mut FeedServer,
    ) -> Result<(), Failure> {
        let (name, owner) = (&facts.publication_sql, &publication.owner);
        let needs = format!("the owner of the publication ({owner})");
        if record.created && kept.is_none() {
            self.script.add(format!("drop publication {name}"), needs);
            return Ok(());
        }
        let added = record.tables.iter().map(String::as_str);
        let tables = server.tables(added, provider.publication())?;
        let members = tables.iter().filter(|table| table.is_member);
        let members: Vec<&str> = members.map(|table| table.name.as_str()).collect();
        if !members.is_empty() {
            let list = members.join(", ");
            let sql = format!("alter publication {name} drop table {list}");
            self.script.add(sql, needs.clone());
        }
        let comment = match kept {
            // Nothing was done for this project.
            Some(_) if record.tables.is_empty() && record.identities.is_empty() => return Ok(()),
            Some(kept) => Some(kept.comment_text()),
            None => record.comment.clone(),
        };
        let comment = comment.map_or_else(|| "null".to_owned(), |text| literal(&text));
        let sql = format!("comment on publication {name} is {comment}");
        self.script.add(sql, needs);
        Ok(())
    }

    fn restore_identities(
        &mut self,
        provider: &FeedProvider<'_>,
        record: &Record,
        server: &mut FeedServer,
    ) -> Result<(), Failure> {
        let names = record.identities.iter().map(|(name, _)| name.as_str());
        let tables = server.tables(names, provider.publication())?;
        for (name, before) in &record.identities {
            let Some(table) = tables.iter().find(|table| table.wanted == *name) else {
                self.left.push(Requirement::note(
                    format!("{name} does not exist any more"),
                    format!(
                        "if it was renamed: its replica identity was {}",
                        before.sql()
                    ),
                ));
                continue;
            };
            let is_needed = !table.has_identity_with(before);
            match (table.identity(), &table.other_publication) {
                (Identity::Full, Some(publication)) if is_needed => {
                    self.left.push(Requirement::note(
                        format!(
                            "{name} keeps replica identity full: the publication {} contains it, so the \
                             server would refuse its updates and deletes with {}, as before `feed setup`",
                            quoted(publication),
                            before.sql()
                        ),
                        format!("`alter table {} replica identity {}`", table.name, before.sql()),
                    ));
                }
                (Identity::Full, _) => self.script.add(
                    format!(
                        "alter table {} replica identity {}",
                        table.name,
                        before.sql()
                    ),
                    format!("the owner of {} ({})", table.name, table.owner),
                ),
                (other, _) => self.left.push(Requirement::note(
                    format!("{name} has replica identity {} meanwhile", other.sql()),
                    format!("it was {} before `feed setup`", before.sql()),
                )),
            }
        }
        Ok(())
    }

    /// Takes back the rights of the feed's user. The record names the user, but its writer may be the
    /// owner of the publication, so only the configured user loses rights.
    fn revoke(
        &mut self,
        provider: &FeedProvider<'_>,
        facts: &ServerFacts,
        record: &Record,
        slots: &[SlotFacts],
    ) {
        let (role, role_sql) = (provider.role(), &facts.role_sql);
        let mut is_of_role = |granted: &[String], right: &str| {
            for other in granted.iter().filter(|granted| *granted != role) {
                self.left.push(Requirement::note(
                    format!(
                        "`feed setup` gave the user {other} the right to {right}, but the feed's \
                         user is {role} now"
                    ),
                    "take it back by hand, unless it is needed elsewhere",
                ));
            }
            facts.has_role && granted.iter().any(|granted| granted == role)
        };
        let may_replicate = is_of_role(&record.replication, "replicate");
        let may_connect = is_of_role(&record.connect, "connect to the database");
        if may_connect {
            let database = &facts.database_sql;
            self.script.add(
                format!("revoke connect on database {database} from {role_sql}"),
                "the owner of the database",
            );
        }
        let elsewhere = slots.iter().find(|slot| !slot.is_of_database);
        if let Some(slot) = elsewhere.filter(|_| may_replicate) {
            self.left.push(Requirement::note(
                format!(
                    "the user {role} may still replicate: a feed of the database {} is running, with \
                     the slot {}",
                    slot.database, slot.name
                ),
                format!("`alter role {role_sql} noreplication`, if that feed has another user"),
            ));
        } else if may_replicate {
            let sql = format!("alter role {role_sql} noreplication");
            self.script.add(sql, "a superuser");
        }
    }

    /// Writes the statements for an administrator.
    fn write_sql(
        &self,
        provider: &FeedProvider<'_>,
        facts: &ServerFacts,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let (name, database) = (provider.name(), &facts.database);
        let title = format!(
            "Undoes `lookaside feed setup` for the provider {name}: run this in the database {database}."
        );
        write_comment(out, &title)?;
        for Requirement { text, help, .. } in &self.left {
            write_comment(out, &format!("left as it is: {text}"))?;
            if let Some(help) = help {
                write_comment(out, &format!("  {help}"))?;
            }
        }
        writeln!(out)?;
        self.script.write(out)
    }
}
