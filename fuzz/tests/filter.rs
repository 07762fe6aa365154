//! Filters as somebody else wrote them: reading ends without a panic, and what was read can be asked for its fields.

use bolero::check;
use shard_client::Filter;

#[test]
fn words_of_any_kind_are_a_filter_or_refused() {
    check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(filter) = text.parse::<Filter>() {
            let _ = filter.fields();
        }
    });
}

#[test]
fn json_of_any_kind_is_a_filter_or_refused() {
    check!().for_each(|bytes: &[u8]| {
        let Ok(json) = serde_json::from_slice(bytes) else { return };
        if let Ok(filter) = Filter::from_json(&json) {
            let _ = filter.fields();
        }
    });
}
