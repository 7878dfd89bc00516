//! The explanation of a run, as `pinfold explain` prints it, in paragraphs, headings and lists.

use maud::{Markup, html};

/// A paragraph with the indented lines below it.
struct Paragraph<'a> {
    text: &'a str,
    is_heading: bool,
    lines: Vec<&'a str>,
}

/// The text as elements.
pub(crate) fn markup(text: &str) -> Markup {
    let mut paragraphs: Vec<Paragraph<'_>> = vec![];
    let mut after_blank = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            after_blank = true;
            continue;
        }
        match paragraphs.last_mut() {
            Some(last) if line.starts_with(' ') => last.lines.push(trimmed),
            _ => paragraphs.push(Paragraph {
                text: trimmed,
                is_heading: after_blank && trimmed.ends_with(':'),
                lines: vec![],
            }),
        }
        after_blank = false;
    }
    html! {
        @for paragraph in paragraphs {
            @if paragraph.is_heading {
                h3 { (line(paragraph.text.trim_end_matches(':'))) }
            } @else {
                p { (line(paragraph.text)) }
            }
            @if !paragraph.lines.is_empty() {
                ul.plain { @for one in paragraph.lines { li { (line(one)) } } }
            }
        }
    }
}

/// What is between `backquotes` is code.
fn line(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // A single quote has no partner.
    let paired = parts.len() % 2 == 1;
    html! {
        @for (position, part) in parts.iter().enumerate() {
            @if paired && position % 2 == 1 { code { (part) } }
            @else { @if !paired && position > 0 { "`" } (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_lines_are_a_list_and_a_line_after_an_empty_one_that_ends_with_a_colon_is_a_heading() {
        let text = "Policy: `x`.\n2 candidates: a <b>.\n  1. one\n  2. two\n\nThe last search:\n3 threads.\n";
        assert_eq!(
            markup(text).into_string(),
            "<p>Policy: <code>x</code>.</p><p>2 candidates: a &lt;b&gt;.</p><ul class=\"plain\"><li>1. one</li><li>2. two</li></ul>\
             <h3>The last search</h3><p>3 threads.</p>"
        );
    }
}
