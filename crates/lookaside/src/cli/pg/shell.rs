//! `lookaside pg shell`: psql if it is found, otherwise the built-in prompt.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use lookaside_client::postgres::Options;
use lookaside_embedded::{Binaries, Postgres, Status, Version, VersionRequirement};

use super::child::Foreground;
use super::failure;
use super::instance::{at, running};
use super::prompt::{self, Script};
use super::target::PostgresTarget;
use crate::cli::rows::RowForm;
use crate::failure::{CommandResult, Exit, Failure};
use crate::progress::download::DownloadBar;

/// Query a server, with psql if it is found, otherwise with a built-in prompt
///
/// DIR is a folder of `lookaside pg start`; if its server is stopped, it runs for as long as the
/// shell does. Without a folder and a URL, the shell uses the server of DATABASE_URL; if that is
/// not set, it opens a temporary database, which is removed afterwards. Statements from standard
/// input or --command end at the first error.
#[derive(Debug, Args)]
#[command(after_help = "\
The built-in prompt accepts:
  statements that end with ;
  \\dt          lists tables
  \\d TABLE     lists the columns and indexes of a table
  \\q           ends the shell, as does the end of the input
  \\? or help   shows this help
At a terminal, Ctrl-C discards the input, and the arrow keys browse the history, which is kept in a
file; input that begins with a space is not added to it.

Examples:
  lookaside pg shell ./data
  lookaside pg shell postgres://amy@localhost/shop
  lookaside pg shell ./data -c \"select * from users\" --format csv
  lookaside pg shell < script.sql")]
pub(super) struct ShellArguments {
    /// The data folder, or a URL
    #[arg(value_name = "DIR|URL", conflicts_with = "url")]
    place: Option<PathBuf>,

    /// Any PostgreSQL: postgres://user:password@host:port/database
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Open a temporary database, even if DATABASE_URL is set
    #[arg(long, conflicts_with_all = ["place", "url"])]
    temporary: bool,

    /// Statements to run instead of prompting for them; can be repeated
    #[arg(long, short, value_name = "SQL")]
    command: Vec<String>,

    /// Use the built-in prompt even if psql is found
    #[arg(long)]
    builtin: bool,

    /// The format of rows of the built-in prompt; with this option, psql is not used
    #[arg(long, short, value_enum, value_name = "FORM")]
    format: Option<RowForm>,
}

/// The largest message that PostgreSQL can make: `MaxAllocSize` of its source.
const MESSAGE_SIZE_MAX: usize = 1 << 30;

/// The server that the arguments and the environment select.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ShellTarget {
    Folder(PathBuf),
    /// A URL given as an argument.
    Url(String),
    /// The URL of the environment.
    DatabaseUrl(String),
    Temporary,
}

impl ShellTarget {
    fn of(arguments: &ShellArguments, database_url: Option<String>) -> Self {
        let place = arguments.place.as_ref();
        // Not a folder: `://` would contain an empty name after the colon.
        let url = place.and_then(|place| place.to_str().filter(|text| text.contains("://")));
        match (arguments.url.as_deref().or(url), place, database_url) {
            (Some(url), ..) => Self::Url(url.to_owned()),
            (None, Some(folder), _) => Self::Folder(folder.clone()),
            (None, None, Some(url)) if !arguments.temporary && !url.is_empty() => {
                Self::DatabaseUrl(url)
            }
            (None, None, _) => Self::Temporary,
        }
    }
}

/// The version of the server, which decides which psql fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerVersion {
    /// Exactly this version, of an embedded server.
    Of(Version),
    /// Of this major version or a newer one: an older psql queries catalogs that no longer exist.
    AtLeast(u32),
    /// Unknown.
    Any,
}

/// The server that is queried; an embedded server is kept running meanwhile.
struct Server {
    target: PostgresTarget,
    version: ServerVersion,
    owned: Option<Postgres>,
}

impl Server {
    /// A server that is not embedded. It may require a password that only psql prompts for; then
    /// its version stays unknown.
    fn external(target: PostgresTarget) -> Self {
        let version = target.connect(options()).ok().and_then(|connection| {
            let version = connection.server_version();
            let major = version.split(|byte: char| !byte.is_ascii_digit()).next()?;
            major.parse().ok()
        });
        Self {
            target,
            version: version.map_or(ServerVersion::Any, ServerVersion::AtLeast),
            owned: None,
        }
    }
}

pub(super) fn run(arguments: &ShellArguments) -> CommandResult {
    let shell_target = ShellTarget::of(arguments, std::env::var("DATABASE_URL").ok());
    let server = find(&shell_target)?;
    let wants_ours = arguments.builtin || arguments.format.is_some();
    let psql = if wants_ours { None } else { psql(&server) };
    let outcome = match psql {
        Some(program) => run_psql(arguments, &server.target, program),
        None => run_prompt(arguments, &shell_target, &server),
    };
    if let Some(owned) = server.owned {
        owned.close().map_err(|error| failure(&error))?;
    }
    outcome
}

fn find(shell_target: &ShellTarget) -> Result<Server, Failure> {
    let builder = Postgres::builder().progress(Arc::new(DownloadBar::new()));
    let builder = match shell_target {
        ShellTarget::Url(url) => return Ok(Server::external(PostgresTarget::of_url(url)?)),
        ShellTarget::DatabaseUrl(url) => {
            let target = PostgresTarget::of_url(url).map_err(|failure| {
                failure.with_help(
                    "the server is that of DATABASE_URL; --temporary opens a \
                                   temporary database instead",
                )
            })?;
            // The server is not named on the command line.
            prompt::say(&format!("DATABASE_URL is the address of {target}"));
            return Ok(Server::external(target));
        }
        ShellTarget::Temporary => builder,
        ShellTarget::Folder(folder) => {
            let instance = at(folder)?;
            let status = instance.status().map_err(|error| failure(&error))?;
            if !matches!(status, Status::Stopped { .. }) {
                let running = running(folder, &instance)?;
                return Ok(Server {
                    target: PostgresTarget::of_ours(&running.url)?,
                    version: ServerVersion::Of(running.version),
                    owned: None,
                });
            }
            builder.path(folder)
        }
    };
    let owned = builder.start().map_err(|error| failure(&error))?;
    Ok(Server {
        target: PostgresTarget::of_ours(&owned.url())?,
        version: ServerVersion::Of(owned.version()),
        owned: Some(owned),
    })
}

/// The psql that fits the server; for an unknown version, the one in `PATH`.
fn psql(server: &Server) -> Option<PathBuf> {
    if let Some(owned) = &server.owned {
        return owned.binaries().tool("psql");
    }
    match server.version {
        ServerVersion::Of(version) => {
            let requirement: VersionRequirement = version.major.to_string().parse().ok()?;
            let binaries = Binaries::find(requirement, &()).ok()?;
            binaries.tool("psql")
        }
        ServerVersion::AtLeast(major) => Binaries::client("psql", major),
        ServerVersion::Any => {
            let path = std::env::var_os("PATH")?;
            let mut found = std::env::split_paths(&path).map(|folder| folder.join("psql"));
            found.find(|program| program.is_file())
        }
    }
}

fn run_psql(
    arguments: &ShellArguments,
    target: &PostgresTarget,
    program: PathBuf,
) -> CommandResult {
    let mut command = Command::new(program);
    target.give_to_psql(&mut command);
    for sql in &arguments.command {
        command.arg("--command").arg(sql);
    }
    if !arguments.command.is_empty() || !io::stdin().is_terminal() {
        command.args(["--set", "ON_ERROR_STOP=1"]);
    }
    let status = Foreground::take()?.run(&mut command)?;
    Ok(if status.success() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn run_prompt(
    arguments: &ShellArguments,
    shell_target: &ShellTarget,
    server: &Server,
) -> CommandResult {
    let target = &server.target;
    let about = about_prompt(arguments, shell_target, server.version);
    let connection = target.connect(options());
    let connection = connection.map_err(|error| target.no_connection(&error))?;
    let form = arguments.format.unwrap_or(RowForm::Table);
    let script = if !arguments.command.is_empty() {
        Script::Commands(&arguments.command)
    } else if io::stdin().is_terminal() {
        Script::Prompt(&about)
    } else {
        Script::Input
    };
    prompt::run(connection, target, script, form)
}

/// Results are not limited in size: the user asked for them.
fn options() -> Options {
    let mut options = Options {
        result_size_max: usize::MAX,
        ..Options::default()
    };
    options.wire.message_size_max = MESSAGE_SIZE_MAX;
    options
}

/// The greeting before the first statement.
fn about_prompt(
    arguments: &ShellArguments,
    shell_target: &ShellTarget,
    version: ServerVersion,
) -> String {
    let why = match (arguments.builtin, arguments.format, version) {
        (true, ..) => "--builtin".to_owned(),
        (false, Some(_), _) => "--format".to_owned(),
        (false, None, ServerVersion::Of(version)) => {
            format!("no psql of PostgreSQL {} was found", version.major)
        }
        (false, None, ServerVersion::AtLeast(major)) => {
            format!("no psql of PostgreSQL {major} or newer was found")
        }
        (false, None, ServerVersion::Any) => "no psql was found".to_owned(),
    };
    let mut about =
        format!("this is the small built-in prompt ({why}); \\? or help shows the help");
    if *shell_target == ShellTarget::Temporary {
        about.push_str("\nthe database is temporary: it is removed when the prompt ends");
    }
    about
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ShellArguments,
    }

    #[test]
    fn the_prompt_says_why_it_is_there_and_what_stays() {
        let version = Version {
            major: 17,
            minor: 11,
        };
        for (line, version, why, is_temporary) in [
            (
                &["shell"][..],
                ServerVersion::Of(version),
                "no psql of PostgreSQL 17",
                true,
            ),
            (
                &["shell", "d"],
                ServerVersion::Of(version),
                "no psql of PostgreSQL 17",
                false,
            ),
            (
                &["shell", "d", "--builtin"],
                ServerVersion::Of(version),
                "--builtin",
                false,
            ),
            (
                &["shell", "--format", "csv"],
                ServerVersion::Of(version),
                "--format",
                true,
            ),
            (
                &["shell", "--url", "postgres://h/d"],
                ServerVersion::Any,
                "no psql was",
                false,
            ),
            (
                &["shell", "--url", "postgres://h/d"],
                ServerVersion::AtLeast(18),
                "no psql of PostgreSQL 18 or newer",
                false,
            ),
        ] {
            let arguments = Line::parse_from(line).arguments;
            let about = about_prompt(&arguments, &ShellTarget::of(&arguments, None), version);
            assert!(
                about.contains("built-in prompt") && about.contains(why),
                "{about}"
            );
            assert_eq!(about.contains("temporary"), is_temporary, "{about}");
        }
    }

    #[test]
    fn a_shell_asks_what_is_named_first() {
        let url = "postgres://h/d";
        for (line, database_url, expected) in [
            (&["shell"][..], None, ShellTarget::Temporary),
            (&["shell"], Some(url), ShellTarget::DatabaseUrl(url.into())),
            (&["shell"], Some(""), ShellTarget::Temporary),
            (&["shell", "--temporary"], Some(url), ShellTarget::Temporary),
            (&["shell", "d"], Some(url), ShellTarget::Folder("d".into())),
            (&["shell", url], Some("x"), ShellTarget::Url(url.into())),
            (
                &["shell", "--url", url],
                Some("x"),
                ShellTarget::Url(url.into()),
            ),
        ] {
            let arguments = Line::parse_from(line).arguments;
            let shell_target = ShellTarget::of(&arguments, database_url.map(str::to_owned));
            assert_eq!(shell_target, expected, "{line:?}");
        }
        assert!(Line::try_parse_from(["shell", "d", "--temporary"]).is_err());
    }
}
