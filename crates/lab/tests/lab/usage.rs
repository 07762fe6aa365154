//! The command line of `shard-lab`.

use crate::support::Desk;

#[test]
fn help_is_of_the_lab_and_the_commands_of_shard_work_unlisted() {
    let desk = Desk::new();
    let overview = desk.succeeds(&["--help"]);
    for command in ["bench", "reproduce"] {
        assert!(overview.contains(&format!("\n  {command} ")), "{overview}");
        let help = desk.succeeds(&[command, "--help"]);
        assert!(help.contains(&format!("Usage: shard-lab {command}")), "{help}");
    }
    for command in ["serve", "search", "token", "demo", "completions"] {
        assert!(!overview.contains(&format!("\n  {command} ")), "{overview}");
        let help = desk.succeeds(&[command, "--help"]);
        assert!(help.contains(&format!("Usage: shard-lab {command}")), "{help}");
    }
    assert!(desk.succeeds(&["--version"]).starts_with("shard-lab "));
}

#[test]
fn a_cluster_that_cannot_be_killed_as_asked_is_refused_before_it_is_started() {
    let desk = Desk::new();
    let cluster = |more: &[&str], words: &[&str]| {
        desk.refused(&[&["bench", "cluster"], more].concat(), words);
    };
    cluster(&["--small", "--kill", "object"], &["--kill object", "no node to kill"]);
    for kill in ["worker", "restart", "link"] {
        cluster(&["--small", "--workers", "1", "--kill", kill], &[kill, "--workers 2 at least"]);
    }
}
