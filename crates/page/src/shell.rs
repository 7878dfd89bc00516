//! What every page has: its head with the style and the policy for contents, its skeleton, and its script.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

/// The style, which `pinfold learn evaluate --report` uses as well.
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// A part of the page.
pub(crate) struct Section {
    /// Its anchor.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) body: Markup,
    /// What a folded section says while it is closed; `None` for an open section.
    pub(crate) folded: Option<String>,
}

impl Section {
    /// An open section.
    pub(crate) fn open(id: &'static str, title: &'static str, body: Markup) -> Self {
        Self {
            id,
            title,
            body,
            folded: None,
        }
    }

    /// A section that is opened on demand.
    pub(crate) fn folded(id: &'static str, title: &'static str, says: impl Into<String>, body: Markup) -> Self {
        Self {
            id,
            title,
            body,
            folded: Some(says.into()),
        }
    }
}

/// The whole page.
pub(crate) fn page(title: &str, head: &Markup, sections: &[Section], data: Option<&str>, foot: &Markup) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="pinfold";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    h1 { (title) }
                    (head)
                }
                nav aria-label="Sections" {
                    ul {
                        @for section in sections {
                            li { a href={ "#" (section.id) } { (section.title) } }
                        }
                    }
                }
                main id="main" {
                    @for section in sections {
                        section id=(section.id) class=[section.folded.as_ref().map(|_| "folded")] aria-labelledby={ (section.id) "-title" } {
                            @match &section.folded {
                                None => {
                                    h2 id={ (section.id) "-title" } { (section.title) }
                                    (section.body)
                                }
                                Some(says) => details {
                                    summary { h2 id={ (section.id) "-title" } { (section.title) } " " span.quiet { (says) } }
                                    (section.body)
                                },
                            }
                        }
                    }
                }
                footer { (foot) }
                @if let Some(data) = data {
                    script id="moments" type="application/json" { (PreEscaped(without_tags(data))) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// JSON that can be within a page: no text in it can end the element.
fn without_tags(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// A table in its own box, which scrolls where the page is narrow.
pub(crate) fn table(label: &str, content: &Markup) -> Markup {
    html! {
        div.table role="region" aria-label=(label) tabindex="0" {
            table {
                caption { (label) }
                (content)
            }
        }
    }
}

/// A table that is opened on demand: the same contents as a drawing.
pub(crate) fn folded(label: &str, content: &Markup) -> Markup {
    html! {
        details {
            summary { "Table: " (label) }
            (table(label, content))
        }
    }
}
