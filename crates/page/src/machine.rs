//! The machine with the threads and the memory on it, at one time.

use crate::course::Course;
use crate::layout::{Block, Layout};
use crate::nodes;
use crate::numbers;
use crate::shell::folded;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The machine at a point, with the slider that moves it, and the same as a table.
pub(crate) fn section(layout: &Layout, course: &Course) -> Markup {
    let Some(point) = course.last() else {
        return html! { p { "The program was never read, so it is not known where its threads ran." } };
    };
    let drawing = MachineDrawing {
        layout,
        course,
        point,
        on: course.on_pus(point),
    };
    html! {
        div.time hidden {
            label for="moment" { "Time" }
            input type="range" id="moment" min="0" max=(course.at.len() - 1) value=(point) step="1";
            output id="shown" for="moment" {}
        }
        noscript { p.hint { "Without JavaScript the drawing shows the end of the run, at " (numbers::seconds(course.at[point])) "." } }
        div.machine role="img" aria-label=(drawing.description()) {
            @for block in &layout.blocks { (drawing.block(block)) }
            @for (node, label) in &layout.apart {
                div.block {
                    p.label { (label) }
                    (drawing.memory(node.0))
                }
            }
        }
        ul.key {
            li { "A cell is a CPU: its number, and below it the threads that ran there, T0 being the first." }
            li { span."pu one" { "T3" } "one thread" }
            li { span."pu many" { "2 ×" } "several threads" }
            li { span.pu { " " } "no thread of the program" }
            @if drawing.has_forbidden() {
                li { span."pu forbidden" { " " } "not allowed to the program" }
            }
        }
        (drawing.table())
    }
}

struct MachineDrawing<'a> {
    layout: &'a Layout,
    course: &'a Course,
    point: usize,
    on: BTreeMap<u32, Vec<&'a str>>,
}

impl MachineDrawing<'_> {
    fn description(&self) -> String {
        let threads = self.on.values().map(Vec::len).sum::<usize>();
        let leaves = self.layout.leaves();
        let used = leaves.iter().map(|(label, block)| {
            let here: usize = block
                .own_pus()
                .iter()
                .filter_map(|pu| self.on.get(pu))
                .map(Vec::len)
                .sum();
            (label, here)
        });
        let used: Vec<String> = used
            .filter(|&(_, here)| here > 0)
            .map(|(label, here)| format!("{here} on {label}"))
            .collect();
        format!(
            "The machine with {threads} threads: {}. The table below has the place of each.",
            used.join("; ")
        )
    }

    fn has_forbidden(&self) -> bool {
        let leaves = self.layout.leaves();
        let mut pus = leaves.iter().flat_map(|(_, block)| block.pus.iter());
        pus.any(|pu| !self.layout.allowed.contains(pu))
    }

    fn block(&self, block: &Block) -> Markup {
        html! {
            div.block {
                p.label { (block.label()) }
                @for node in &block.nodes { (self.memory(node.0)) }
                @if !block.cores.is_empty() {
                    div.cores {
                        @for core in &block.cores {
                            div.core { @for &pu in core { (self.pu(pu)) } }
                        }
                    }
                }
                @if !block.inside.is_empty() {
                    div.blocks { @for inner in &block.inside { (self.block(inner)) } }
                }
            }
        }
    }

    fn pu(&self, pu: u32) -> Markup {
        let here = self.on.get(&pu).map_or(&[][..], Vec::as_slice);
        let threads = match here {
            [] => String::new(),
            [one] => (*one).to_owned(),
            several => format!("{} ×", several.len()),
        };
        let state = match here.len() {
            0 => "pu",
            1 => "pu one",
            _ => "pu many",
        };
        let forbidden = !self.layout.allowed.contains(pinfold_core::PuId(pu));
        let node = nodes::class(self.layout.nodes.of(pu));
        html! {
            div class={ (state) @if forbidden { " forbidden" } @if !node.is_empty() { " " (node) } } data-pu=(pu) {
                span { (pu) }
                span.thread { (threads) }
            }
        }
    }

    /// The memory of a node; nothing where the record has none of any node.
    fn memory(&self, node: u32) -> Markup {
        let Some(series) = self.course.memory.iter().find(|series| series.node == node) else {
            return html! {};
        };
        let bytes = series.bytes.get(self.point).copied().flatten();
        let sum = self.course.sums.get(self.point).copied().unwrap_or(0);
        let share = bytes
            .filter(|_| sum > 0)
            .map_or(0.0, |bytes| 100.0 * bytes as f64 / sum as f64);
        html! {
            div class={ "memory " (nodes::class(self.layout.nodes.position(node))) } data-node=(node) {
                span { "memory" }
                svg viewBox="0 0 100 10" preserveAspectRatio="none" { rect width=(format!("{share:.1}")) height="10" {} }
                span.bytes {
                    @match bytes {
                        Some(bytes) => { (numbers::bytes(bytes)) ", " (format!("{share:.0}")) " %" }
                        None => { "not known" }
                    }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        let leaves = self.layout.leaves();
        let mut boxes: BTreeMap<u32, &str> = BTreeMap::new();
        for (label, block) in &leaves {
            boxes.extend(block.own_pus().into_iter().map(|pu| (pu, label.as_str())));
        }
        let rows = html! {
            thead { tr {
                th scope="col" { "thread" }
                th scope="col" { "name" }
                th scope="col" { "number" }
                th scope="col" { "CPU at the time above" }
                th scope="col" { "at the end" }
                th.number scope="col" { "changes of CPU" }
            } }
            tbody {
                @for (position, thread) in self.course.threads.iter().enumerate() {
                    tr {
                        th scope="row" { (thread.label) }
                        td { (thread.name) }
                        td { (thread.number) }
                        td data-thread=(position) {
                            @match thread.at(self.point) {
                                Some(pu) => { "CPU " (pu) }
                                None => { "–" }
                            }
                        }
                        td { (thread.at(self.point).and_then(|pu| boxes.get(&pu).copied()).unwrap_or("–")) }
                        td.number { (thread.changes()) }
                    }
                }
            }
        };
        folded("the place of each thread", &rows)
    }
}
