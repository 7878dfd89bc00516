//! Documents that are read to be shown: their strings in lines.
//!
//! A record, a state and a log have names that programs chose, and may be files of others. Their strings stand in lines
//! of text, so each is one line when the document is read. Reasons are sentences of pinfold, in keys that end with
//! `why`. They may have several lines, and all but the first one are indented, so none looks like a line of the text
//! around them.

use pinfold_core::text::one_line;
use serde_json::Value;

/// The document with strings that can be shown.
pub fn to_be_shown(document: Value) -> Value {
    shown(document, false)
}

fn shown(value: Value, is_reason: bool) -> Value {
    match value {
        Value::String(text) if is_reason => Value::String(indented(&text)),
        Value::String(text) => Value::String(one_line(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(|item| shown(item, is_reason)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| {
                let is_reason = key.ends_with("why");
                (one_line(&key).into_owned(), shown(value, is_reason))
            });
            Value::Object(fields.collect())
        }
        other => other,
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(number, line)| match number {
            0 => one_line(line).into_owned(),
            _ => format!("  {}", one_line(line.trim_start())),
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_and_keys_are_one_line_and_reasons_indent_all_but_the_first() {
        let document = json!({"command": ["a\n\u{1b}b", 3], "k\ney": null, "metric_why": "one\ntwo\u{7}"});
        let expected = json!({"command": ["a\\n\\x1bb", 3], "k\\ney": null, "metric_why": "one\n  two\\x07"});
        assert_eq!(to_be_shown(document), expected);
    }
}
