//! The contract against what is sent: every command that talks to a server, recorded on the wire, and
//! the table of messages in `docs/LEAKAGE.md`.

use std::collections::{BTreeMap, BTreeSet};

use shard_protocol::http::MEDIA_TYPE;
use shard_protocol::{Leak, Limits, leaks_of, message_kind};

use crate::recorder::{Recorder, Request};
use crate::support::served::Served;
use crate::support::{Desk, KEY, VAULT, random_rows};

const CONTRACT: &str = include_str!("../../../../docs/LEAKAGE.md");

type Names = BTreeSet<String>;

/// A kind of request with the leaks that it shows besides `request-shape`, which all show; and the
/// commands that send such requests.
type Table = BTreeMap<(String, Names), Names>;

/// The table of messages: `| kind | leaks | commands |`, with names in code quotes.
fn contract() -> Table {
    let table = CONTRACT.split("<!-- messages -->").nth(1).expect("a table between two marks");
    let names =
        |cell: &str| -> Names { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut found = Table::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let [kind, leaks, commands] = cells[..] else { panic!("three cells in {line}") };
        let kind = names(kind).pop_first().expect("the name of a message");
        let before = found.insert((kind, names(leaks)), names(commands));
        assert!(before.is_none(), "a second row like {line}");
    }
    found
}

/// The leaks that the contract lists and this program can cause.
fn listed_leaks() -> Names {
    let table = CONTRACT.split("<!-- leaks -->").nth(1).expect("a table between two marks");
    let names = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// A server, a door that records, and what came through it by kind.
struct Watched {
    recorder: Recorder,
    _server: Served,
    table: Table,
}

impl Watched {
    fn new(desk: &Desk) -> Self {
        let server = Served::start(desk, &["--plain", "--log-level", "error"]);
        let recorder = Recorder::before(&server.url);
        Self { recorder, _server: server, table: Table::new() }
    }

    /// Runs a command with this server, and notes what it sent.
    fn run(&mut self, desk: &Desk, collection: &str, command: &[&str]) {
        let url = format!("{}/{collection}", self.recorder.url);
        let command_line = [&command[..1], &["--server", &url], &command[1..]].concat();
        let output = desk.shard(&command_line).output().expect("shard starts");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {complaint}");
        let sent = self.recorder.take();
        assert!(!sent.is_empty(), "{command:?} asked the server nothing");
        let direct = if command.contains(&"--direct") { " --direct" } else { "" };
        let command = format!("{}{direct}", command[0]);
        sent.iter().for_each(|request| self.note(&command, request));
    }

    fn note(&mut self, command: &str, request: &Request) {
        let (kind, mut leaks) = if request.content_type.as_deref() == Some(MEDIA_TYPE) {
            let leaks = leaks_of(&request.body, &Limits::default()).expect("a message");
            (format!("{:?}", message_kind(&request.body).unwrap()), leaks)
        } else {
            (request.line.clone(), BTreeSet::from([Leak::RequestShape]))
        };
        assert!(leaks.remove(&Leak::RequestShape), "every request has a size and a time");
        let leaks = leaks.iter().map(|leak| leak.name().to_owned()).collect();
        self.table.entry((kind, leaks)).or_default().insert(command.to_owned());
    }
}

fn keyed<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [command, &["--key-file", KEY]].concat()
}

/// What an owner and a reader of a rotated collection do.
fn use_a_rotated_vault(desk: &Desk, watched: &mut Watched) {
    let mut run = |command: &[&str]| watched.run(desk, "rotated", &keyed(command));
    run(&["publish", VAULT]);
    for objective in ["compute", "bytes"] {
        run(&["search", VAULT, "--query", "query.npy", "--objective", objective]);
    }
    run(&["status", VAULT]);
    run(&["backup", VAULT]);
    run(&["backup", VAULT, "--list"]);
    run(&["restore", "copy"]);
    desk.succeeds(&keyed(&["delete", VAULT, "3"]));
    run(&["publish", VAULT]);
    run(&["pull", "copy"]);
    desk.succeeds(&keyed(&["export", VAULT, "reader", "--new-key-file", KEY]));
    run(&["search", "reader", "--query", "query.npy"]);
    for epoch in ["rekey", "refit"] {
        desk.succeeds(&keyed(&[epoch, VAULT]));
        run(&["publish", VAULT]);
    }
    run(&["backup", VAULT, "--keep", "1"]);
    run(&["publish", "copy", "--replace"]);
}

/// The same of a blind collection with records, whose vectors are with the server alone.
fn use_a_blind_vault(desk: &Desk, watched: &mut Watched) {
    let mut run = |command: &[&str]| watched.run(desk, "blind", &keyed(command));
    run(&["publish", "blind"]);
    run(&["search", "blind", "--query", "query.npy"]);
    run(&["fetch", "blind", "7"]);
    run(&["fetch", "blind", "7", "--direct"]);
    run(&["search", "blind", "--query", "query.npy", "--passages", "-k", "80"]);
    run(&["search", "blind", "--query", "query.npy", "--passages", "--direct", "-k", "80"]);
    run(&["status", "blind"]);
    run(&["backup", "blind"]);
    run(&["restore", "blind-copy"]);
    desk.succeeds(&keyed(&["export", "blind", "blind-reader", "--new-key-file", KEY]));
    run(&["search", "blind-reader", "--query", "query.npy"]);
    run(&["verify", "blind"]);
    run(&["audit", "blind"]);
    run(&["dump", "blind", "--vectors", "dumped.npy", "--ids", "dumped.txt"]);
    // So many that what is left fits into fewer blocks.
    let gone: Vec<String> = (10..50).map(|id| id.to_string()).collect();
    let gone = gone.iter().map(String::as_str);
    let delete: Vec<&str> = ["delete", "blind"].into_iter().chain(gone).collect();
    let import = ["import", "blind", "pgvector", "more.csv"];
    for change in [&["ingest", "blind", "more.npy", "--ids", "more.txt"], &import[..], &delete[..]]
    {
        run(change);
        run(&["publish", "blind"]);
    }
    run(&["pull", "blind-copy"]);
    // The reader is at an earlier commit, is told so, and pulls.
    run(&["fetch", "blind-reader", "7"]);
    for change in ["compact", "rekey"] {
        run(&[change, "blind"]);
        run(&["publish", "blind"]);
    }
    run(&["publish", "blind", "--fresh-checks"]);
}

/// What is different where blocks are grouped by cell.
fn use_a_vault_with_cells(desk: &Desk, watched: &mut Watched) {
    let mut run = |command: &[&str]| watched.run(desk, "cells", &keyed(command));
    run(&["publish", "cells"]);
    run(&["search", "cells", "--query", "query.npy"]);
    run(&["search", "cells", "--query", "query.npy", "--probe", "4"]);
    run(&["plan", "cells"]);
}

/// Commands that take a server.
fn commands_with_a_server(desk: &Desk) -> Names {
    let help = desk.succeeds(&["--help"]);
    let list = help.split("Commands:").nth(1).and_then(|rest| rest.split("Options:").next());
    let names = list.expect("a list of commands").lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    // An assistant and the console search as `search` does.
    let names = names.filter(|name| !["mcp", "console"].contains(&name.as_str()));
    names.filter(|name| desk.succeeds(&[name, "--help"]).contains("--server <")).collect()
}

#[test]
fn the_contract_lists_what_every_command_sends_and_nothing_else() {
    let desk = Desk::with_vault("4", &random_rows(80, 12, 1));
    let blind = ["init", "blind", "--protection", "blind", "--tile", "32", "--keep-vectors", "no"];
    desk.succeeds(&keyed(&blind));
    desk.write("records.jsonl", "{\"id\": 7, \"text\": \"seven\"}\n");
    desk.succeeds(&keyed(&["ingest", "blind", "docs.npy", "--records", "records.jsonl"]));
    let cells = ["init", "cells", "--cells", "4", "--probe", "1", "--keep-vectors", "no"];
    desk.succeeds(&keyed(&cells));
    desk.succeeds(&keyed(&["ingest", "cells", "docs.npy"]));
    desk.npy("more.npy", &random_rows(2, 12, 8));
    desk.write("more.txt", "new\n9\n");
    let more = ["0.5"; 12].join(",");
    desk.write("more.csv", format!("id,embedding\nimported,\"[{more}]\"\n9,\"[{more}]\"\n"));
    let mut watched = Watched::new(&desk);
    use_a_rotated_vault(&desk, &mut watched);
    use_a_blind_vault(&desk, &mut watched);
    use_a_vault_with_cells(&desk, &mut watched);
    watched.run(&desk, "", &["compact"]);
    watched.run(&desk, "", &["snapshot", "--name", "monday"]);

    let sent = &watched.table;
    let first = |command: &String| command.split(' ').next().unwrap_or_default().to_owned();
    let used: Names = sent.values().flatten().map(first).collect();
    assert_eq!(used, commands_with_a_server(&desk), "commands that take a server");
    let contract = contract();
    for (message, commands) in sent {
        let row = contract.get(message);
        assert_eq!(row, Some(commands), "the row of {message:?}, and who sends it");
    }
    for message in contract.keys() {
        assert!(sent.contains_key(message), "{message:?} has a row and no command sends it");
    }
    let shown = sent.keys().flat_map(|(_, leaks)| leaks.clone());
    let shown: Names = shown.chain([Leak::RequestShape.name().to_owned()]).collect();
    assert_eq!(shown, listed_leaks(), "leaks of recorded messages, and those of the contract");
}
