//! Text of others in lines for people: names of programs and threads, command lines, models of CPUs, what files say.
//!
//! A terminal obeys control characters: an escape sequence clears the screen, sets the title, or moves the cursor to
//! what another command has printed. Characters that set the direction of text show it in another order than it has. A
//! newline begins a line that looks like one of pinfold. So there are two rules:
//!
//! 1. What goes to the terminal is [`clean`], whatever it is. One module does that for all commands
//!    (`cli/src/console.rs`).
//! 2. Text of others within a line is [`one_line`], since only who makes the line knows which newlines are pinfold's.
//!
//! A character is replaced by its escape and not removed, so that two names stay different: `\x1b`, `\n`, and from
//! U+007F on `\u202e`. The latter is also what JSON has for the character, so a document stays the same document. A
//! backslash is not escaped: paths of Windows and patterns have them, and the text is for people.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text without characters that a terminal obeys. Newlines and tabs stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    escaped(text, |character| {
        !matches!(character, '\n' | '\t') && is_obeyed(character)
    })
}

/// The text without characters that a terminal obeys or that begin another line.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed)
}

/// Words of a command line, in one line.
pub fn words(words: &[String]) -> String {
    one_line(&words.join(" ")).into_owned()
}

/// Whether a terminal obeys the character instead of showing it. The joiners U+200C and U+200D are part of words.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Soft hyphen, marks and overrides of direction, zero-width space, separators of lines, operators that are
            // not shown, the byte order mark, interlinear annotation, musical beams, and tags.
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_escaped(character) {
            escape(character, &mut clean);
        } else {
            clean.push(character);
        }
    }
    Cow::Owned(clean)
}

fn escape(character: char, text: &mut String) {
    match character {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\0'..='\x1f' => {
            let _ = write!(text, "\\x{:02x}", u32::from(character));
        }
        _ => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_as_its_escape() {
        let hostile = "solver\u{1b}[2J\u{1b}]0;owned\u{7}\u{7f}\u{9b}31m \u{202e}evil\u{2028}\r\n\tend";
        assert_eq!(
            clean(hostile),
            "solver\\x1b[2J\\x1b]0;owned\\x07\\u007f\\u009b31m \\u202eevil\\u2028\\r\n\tend"
        );
        assert!(one_line(hostile).ends_with("evil\\u2028\\r\\n\\tend"));
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in ["./solver -x 3", "größe 漢字 🙂", "نص", "क्\u{200d}ष", r"C:\a"] {
            assert!(matches!(one_line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_json_document_stays_the_same_document() {
        let name = "a\u{7f}\u{9b}\u{202e}\u{e0001}";
        assert_eq!(clean(&format!("\"{name}\"")), r#""a\u007f\u009b\u202e\udb40\udc01""#);
    }

    proptest! {
        #[test]
        fn no_text_gets_a_control_character_through(text in any::<String>()) {
            prop_assert!(one_line(&text).chars().all(|character| !is_obeyed(character)));
            prop_assert_eq!(clean(&text).matches('\n').count(), text.matches('\n').count());
            let once = clean(&text).into_owned();
            prop_assert_eq!(clean(&once), once.as_str());
        }
    }
}
