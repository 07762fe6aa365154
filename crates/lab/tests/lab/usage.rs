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
