//! A picture as SVG.

use super::shapes::{LETTER, PicturePart, Shape};
use std::fmt::Write as _;

/// The picture. `title` is for those who do not see it.
pub(super) fn written(title: &str, whole: &PicturePart) -> String {
    let (width, height) = whole.size();
    let title = escaped(title);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" font-family=\"monospace\" font-size=\"11.6\">\n<title>{title}</title>\n"
    );
    for shape in whole.shapes() {
        match shape {
            Shape::Rectangle { at, size, fill } => {
                let [red, green, blue] = fill.colour();
                let border = if fill.has_border() { " stroke=\"#555\"" } else { "" };
                // A border is drawn along the middle of a dot.
                let _ = writeln!(
                    text,
                    "<rect x=\"{}.5\" y=\"{}.5\" width=\"{}\" height=\"{}\" fill=\"#{red:02x}{green:02x}{blue:02x}\"{border}/>",
                    at.0,
                    at.1,
                    (size.0 - 1).max(0),
                    (size.1 - 1).max(0)
                );
            }
            Shape::Text { at, text: line, strong } => {
                let shown = line.trim_end();
                let indent = shown.chars().take_while(|letter| *letter == ' ').count();
                let shown = shown.trim_start();
                if shown.is_empty() {
                    continue;
                }
                let letters = i32::try_from(shown.chars().count()).unwrap_or(0);
                let weight = if *strong { " font-weight=\"bold\"" } else { "" };
                let _ = writeln!(
                    text,
                    "<text x=\"{}\" y=\"{}\" textLength=\"{}\"{weight}>{}</text>",
                    at.0 + i32::try_from(indent).unwrap_or(0) * LETTER.0,
                    at.1 + LETTER.1 - 3,
                    letters * LETTER.0,
                    escaped(shown)
                );
            }
        }
    }
    text.push_str("</svg>\n");
    text
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::shapes::{Fill, boxed, line};

    #[test]
    fn texts_of_a_record_are_escaped() {
        let svg = written("a & b", &boxed(Fill::Paper, vec![line("<script>\u{7}\"", true)]));
        assert!(
            svg.contains("&lt;script&gt;&quot;</text>") && svg.contains("<title>a &amp; b</title>"),
            "{svg}"
        );
        assert!(!svg.contains('\u{7}'));
    }
}
